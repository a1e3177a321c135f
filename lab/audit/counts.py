"""Audits of noisy counts: alone, as a histogram's mode, and of right answers on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from dpicl.contract.declared import Split
from dpicl.contract.models import Contract
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.noisy_count import noisy_counts, noisy_modes
from dpicl.methods import Options, tabular_method, unit_of
from dpicl.methods.gdp_tabicl import GdpTabicl
from lab.audit.case import LESS_NOISE, AuditCase, Mutant, OutputEvent, Trial, less_noise, low_bits
from lab.audit.neighbours import numbers

Counting = Callable[[Sequence[int], Stream], list[int]]
"""Counts, and a noisy one of each."""
CATEGORIES = 6
"""Among so many the largest noisy count is rarely negative, which tells most."""
_COUNT_EVENTS: dict[str, OutputEvent] = {
    "at least one": lambda counts: counts >= 1,
    "odd": low_bits,
    "even": lambda counts: ~low_bits(counts),
}


def _count(release: Counting) -> Trial:
    """No row, and one."""

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        return np.array(release([int(which)] * count, stream), dtype=np.int64)

    return Trial(draw, _COUNT_EVENTS)


def _noisy(epsilon: Fraction) -> Counting:
    return lambda counts, stream: noisy_counts(counts, epsilon=epsilon, stream=stream)


def _even_steps(counts: Sequence[int], stream: Stream) -> list[int]:
    """Noise of about the right size that never touches the last bit."""
    noise = noisy_counts([0] * len(counts), epsilon=Fraction(2), stream=stream)
    return [count + 2 * more for count, more in zip(counts, noise, strict=True)]


def _exact_zero(counts: Sequence[int], stream: Stream) -> list[int]:
    noisy = noisy_counts(counts, epsilon=Fraction(1), stream=stream)
    return [released if count else 0 for count, released in zip(counts, noisy, strict=True)]


def present_only(
    histograms: Sequence[Sequence[int]], *, epsilon: Fraction, stream: Stream
) -> list[int]:
    """Mutant: the mode among the categories that occur; one that is alone is released without
    noise.
    """
    present = [[code for code, count in enumerate(counts) if count] or [0] for counts in histograms]
    occurring = [
        [counts[code] for code in codes] for counts, codes in zip(histograms, present, strict=True)
    ]
    return [
        codes[mode]
        for codes, mode in zip(
            present, noisy_modes(occurring, epsilon=epsilon, stream=stream), strict=True
        )
    ]


PRESENT_ONLY = (
    "present-only",
    "only categories that occur are counted, so that a single one is released without noise",
)


def _mode(modes: Callable[..., list[int]], epsilon: Fraction = Fraction(1)) -> Trial:
    """Empty categories, and one row in the last."""

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        counts = [0] * (CATEGORIES - 1) + [int(which)]
        return np.array(modes([counts] * count, epsilon=epsilon, stream=stream), dtype=np.int64)

    return Trial(draw, {"the last": lambda modes: modes == CATEGORIES - 1})


_UNIT = unit_of(GdpTabicl.name, "audit", 0, (1.0,), (1,), (), False, Options())
_COUNTS = len(tabular_method.measured_cells(_UNIT)) + 1
"""Of one unit: right answers of each cell, and the rows."""


def _held_out(epsilon: Fraction) -> Contract:
    return numbers({"age": 1}).model_copy(
        update={"split": Split(test_fraction=0.5, evaluation_epsilon=float(epsilon))}
    )


def _evaluated(epsilon: Fraction) -> Counting:
    contract = _held_out(epsilon)
    return lambda counts, stream: tabular_method.released_counts(counts, contract, _UNIT, stream)


def _exact_rows(counts: Sequence[int], stream: Stream) -> list[int]:
    noisy = _evaluated(Fraction(1))(counts, stream)
    noisy[_COUNTS - 1 :: _COUNTS] = counts[_COUNTS - 1 :: _COUNTS]
    return noisy


def _evaluation(release: Counting) -> Trial:
    """No held-out row, and one that every cell answers correctly."""

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        return np.array(release([int(which)] * _COUNTS * count, stream), dtype=np.int64).reshape(
            count, _COUNTS
        )

    events: dict[str, OutputEvent] = {
        "all at least one": lambda counts: np.asarray((counts >= 1).all(axis=1)),
        "one row": lambda counts: counts[:, -1] >= 1,
    }
    return Trial(draw, events)


_EVALUATION = tabular_method.cost(_held_out(Fraction(1)), _UNIT)
CASES = (
    AuditCase("noisy-count", "noisy count", 1.0, _count(_noisy(Fraction(1)))).with_mutants(
        less_noise(_count(_noisy(LESS_NOISE))),
        Mutant(
            "even-steps",
            "noise is always even, so that the last bit is the true count's",
            _count(_even_steps),
        ),
        Mutant("exact-zero", "a count of zero is released without noise", _count(_exact_zero)),
    ),
    AuditCase(
        "noisy-mode",
        f"mode of a noisy histogram of {CATEGORIES} categories",
        1.0,
        _mode(noisy_modes),
    ).with_mutants(
        less_noise(_mode(noisy_modes, LESS_NOISE)),
        Mutant(*PRESENT_ONLY, _mode(present_only)),
    ),
    AuditCase(
        "held-out-evaluation",
        "noisy counts of right answers on held-out rows",
        _EVALUATION.epsilon,
        _evaluation(_evaluated(Fraction(1))),
        _EVALUATION.neighbours,
        _EVALUATION.unit,
    ).with_mutants(
        less_noise(_evaluation(_evaluated(LESS_NOISE))),
        Mutant(
            "exact-rows",
            "the number of held-out rows is released without noise",
            _evaluation(_exact_rows),
        ),
        Mutant(
            "whole-epsilon-each",
            "every count spends what all of them may",
            _evaluation(_noisy(Fraction(1))),
        ),
    ),
)
