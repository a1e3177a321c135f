"""Audits of a noisy count and of the category that a noisy histogram elects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from dpicl.accounting.guarantee import Neighbours
from dpicl.audit.bounds import Event, Trial, low_bits
from dpicl.audit.case import LESS_NOISE, AuditCase, Mutant, less_noise
from dpicl.mechanisms.noisy_count import noisy_counts, noisy_modes
from dpicl.randomness import Stream

CATEGORIES = 6
"""Among so many the largest noisy count is rarely negative, which tells most."""
_COUNT_EVENTS: dict[str, Event] = {
    "at least one": lambda counts: counts >= 1,
    "odd": low_bits,
    "even": lambda counts: ~low_bits(counts),
}


def _count(release: Callable[[list[int], Stream], list[int]]) -> Trial:
    """No row, and one."""

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        return np.array(release([int(which)] * count, stream), dtype=np.int64)

    return Trial(draw, _COUNT_EVENTS)


def _noisy(epsilon: Fraction) -> Callable[[list[int], Stream], list[int]]:
    return lambda counts, stream: noisy_counts(counts, epsilon=epsilon, stream=stream)


def _even_steps(counts: list[int], stream: Stream) -> list[int]:
    """Noise of about the right size that never touches the last bit."""
    noise = noisy_counts([0] * len(counts), epsilon=Fraction(2), stream=stream)
    return [count + 2 * more for count, more in zip(counts, noise, strict=True)]


def _exact_zero(counts: list[int], stream: Stream) -> list[int]:
    noisy = noisy_counts(counts, epsilon=Fraction(1), stream=stream)
    return [released if count else 0 for count, released in zip(counts, noisy, strict=True)]


def count_case() -> AuditCase:
    """One count."""
    return AuditCase(
        "noisy-count",
        "noisy count",
        1.0,
        Neighbours.ADD_OR_REMOVE_ONE,
        "row",
        _count(_noisy(Fraction(1))),
        (
            less_noise(_count(_noisy(LESS_NOISE))),
            Mutant("even-steps", "noise is always even, so that the last bit is the true count's", _count(_even_steps)),
            Mutant("exact-zero", "a count of zero is released without noise", _count(_exact_zero)),
        ),
    )


Modes = Callable[[Sequence[Sequence[int]], Fraction, Stream], list[int]]
"""The released mode of each histogram."""


def plain_modes(histograms: Sequence[Sequence[int]], epsilon: Fraction, stream: Stream) -> list[int]:
    """The modes as they are."""
    return noisy_modes(histograms, epsilon=epsilon, stream=stream)


def present_only(histograms: Sequence[Sequence[int]], epsilon: Fraction, stream: Stream) -> list[int]:
    """Mutant: the mode among the categories that occur; one that is alone is released without noise."""
    present = [[code for code, count in enumerate(counts) if count] or [0] for counts in histograms]
    occurring = [[counts[code] for code in codes] for counts, codes in zip(histograms, present, strict=True)]
    return [codes[mode] for codes, mode in zip(present, noisy_modes(occurring, epsilon=epsilon, stream=stream), strict=True)]


def _mode(modes: Modes, epsilon: Fraction = Fraction(1)) -> Trial:
    """Empty categories, and one row in the last."""

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        counts = [0] * (CATEGORIES - 1) + [int(which)]
        return np.array(modes([counts] * count, epsilon, stream), dtype=np.int64)

    return Trial(draw, {"the last": lambda modes: modes == CATEGORIES - 1})


def mode_case() -> AuditCase:
    """The mode of one histogram."""
    return AuditCase(
        "noisy-mode",
        f"mode of a noisy histogram of {CATEGORIES} categories",
        1.0,
        Neighbours.ADD_OR_REMOVE_ONE,
        "row",
        _mode(plain_modes),
        (
            less_noise(_mode(plain_modes, LESS_NOISE)),
            Mutant(
                "present-only",
                "only categories that occur are counted, so that a single one is released without noise",
                _mode(present_only),
            ),
        ),
    )
