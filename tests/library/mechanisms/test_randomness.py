"""One door for randomness: named streams repeat, system streams never do, integers are uniform."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpicl.ground.randomness import Draws, Stream, stream, system_stream

NAMES = (0, "randomise", "adult", "epsilon=1.0")


def _head(draws: Stream) -> bytes:
    return draws.bytes(32)


def test_the_same_four_names_give_the_same_bits_for_ever() -> None:
    assert _head(stream(*NAMES)) == _head(stream(*NAMES))
    assert (
        _head(stream(*NAMES)).hex()
        == "d08978b809d5b0c681cfcce571e4d8a37d99951d09dc602cf4d4f1cd18618ba0"
    )


def test_every_name_matters_and_names_are_not_run_together() -> None:
    names = [
        NAMES,
        (1, *NAMES[1:]),
        (0, "aggregate", *NAMES[2:]),
        (*NAMES[:2], "bank", NAMES[3]),
        (*NAMES[:3], "epsilon=5.0"),
        (0, "ab", "c", ""),
        (0, "a", "bc", ""),
        (0, "a", "b", "c"),
        (0, 'a","b', "c", ""),
        (0, "", "ab", "c"),
    ]
    assert len({_head(stream(*one)) for one in names}) == len(names)


def test_system_streams_differ_and_say_so() -> None:
    assert _head(system_stream()) != _head(system_stream())
    assert not system_stream().simulated and stream(*NAMES).simulated


def test_no_part_of_the_keystream_is_given_out_twice() -> None:
    draws = stream(*NAMES)
    pieces = []
    for number in range(6000):
        pieces.append(draws.bytes(16))
        if number % 100 == 0:
            pieces.append(draws.words(2, np.uint64).tobytes())
        if number % 500 == 0:
            large = draws.bytes(1 << 17)
            pieces += [large[start : start + 16] for start in range(0, len(large), 16)]
    assert len(set(pieces)) == len(pieces)
    assert {len(piece) for piece in pieces} == {16}


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_words_are_uniform_over_their_type(dtype: type[np.unsignedinteger]) -> None:
    words = stream(*NAMES).words(80_000, dtype)
    assert words.dtype == dtype and words.shape == (80_000,)
    top_byte = (words >> np.dtype(dtype).type(8 * words.itemsize - 8)).astype(np.uint8)
    for byte in (top_byte, words.astype(np.uint8)):
        assert stats.chisquare(np.bincount(byte, minlength=256)).pvalue > 1e-4


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 255, 256, 257])
def test_below_is_uniform(bound: int) -> None:
    draws = stream(*NAMES)
    counts = np.bincount([draws.below(bound) for _ in range(40 * bound + 2000)], minlength=bound)
    assert len(counts) == bound
    assert bound == 1 or stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("bound", [2**64 - 1, 2**64, 2**64 + 1, 3**200])
def test_below_is_exact_for_bounds_beyond_machine_words(bound: int) -> None:
    draws = stream(*NAMES)
    values = [draws.below(bound) for _ in range(400)]
    assert all(0 <= value < bound for value in values) and len(set(values)) == 400
    shares = [float(Fraction(value, bound)) for value in values]
    assert stats.kstest(shares, "uniform").pvalue > 1e-4


def test_generators_follow_their_stream() -> None:
    one, same = stream(*NAMES).generator(), stream(*NAMES).generator()
    assert (one.permutation(50) == same.permutation(50)).all()
    draws = stream(*NAMES)
    assert (draws.generator().permutation(50) != draws.generator().permutation(50)).any()


def test_simulated_runs_repeat_their_secrets_and_real_ones_only_what_is_public() -> None:
    simulated, real = Draws(0, "adult", simulated=True), Draws(0, "adult", simulated=False)
    assert _head(simulated.secret("a", "b")) == _head(simulated.secret("a", "b"))
    assert _head(real.secret("a", "b")) != _head(real.secret("a", "b"))
    assert _head(real.public("a", "b")) == _head(simulated.public("a", "b"))
    assert not real.secret("a", "b").simulated
