"""Audits of a noisy count and of the category that a noisy histogram elects."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dpicl.accounting.guarantee import Neighbours
from dpicl.audit.bounds import Event, Run, bound, low_bits
from dpicl.audit.case import CHEAP, LESS_NOISE, AuditCase, Mutant, less_noise
from dpicl.mechanisms.noisy_count import noisy_counts, noisy_mode
from dpicl.randomness import Stream

CATEGORIES = 6
"""Among so many the largest noisy count is rarely negative, which tells most."""
_COUNT_EVENTS: dict[str, Event] = {
    "at least one": lambda counts: counts >= 1,
    "odd": low_bits,
    "even": lambda counts: ~low_bits(counts),
}


def _count(release: Callable[[int, Stream], int]) -> Run:
    """No row, and one."""

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        return np.fromiter((release(int(which), stream) for _ in range(count)), dtype=np.int64, count=count)

    return bound(draw, _COUNT_EVENTS)


def _noisy(epsilon: Fraction) -> Callable[[int, Stream], int]:
    return lambda count, stream: noisy_counts([count], epsilon=epsilon, stream=stream)[0]


def _even_steps(count: int, stream: Stream) -> int:
    """Noise of about the right size that never touches the last bit."""
    return count + 2 * noisy_counts([0], epsilon=Fraction(2), stream=stream)[0]


def _exact_zero(count: int, stream: Stream) -> int:
    return noisy_counts([count], epsilon=Fraction(1), stream=stream)[0] if count else 0


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


def plain_mode(counts: list[int], epsilon: Fraction, stream: Stream) -> int:
    """The mode as it is."""
    return noisy_mode(counts, epsilon=epsilon, stream=stream)


def present_only(counts: list[int], epsilon: Fraction, stream: Stream) -> int:
    """Mutant: the mode among the categories that occur; one that is alone is released without noise."""
    present = [code for code, count in enumerate(counts) if count] or [0]
    return present[noisy_mode([counts[code] for code in present], epsilon=epsilon, stream=stream)]


def _mode(mode: Callable[[list[int], Fraction, Stream], int], epsilon: Fraction = Fraction(1)) -> Run:
    """Empty categories, and one row in the last."""

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        counts = [0] * (CATEGORIES - 1) + [int(which)]
        return np.fromiter((mode(counts, epsilon, stream) for _ in range(count)), dtype=np.int64, count=count)

    return bound(draw, {"the last": lambda modes: modes == CATEGORIES - 1}, per_run=CHEAP)


def mode_case() -> AuditCase:
    """The mode of one histogram."""
    return AuditCase(
        "noisy-mode",
        f"mode of a noisy histogram of {CATEGORIES} categories",
        1.0,
        Neighbours.ADD_OR_REMOVE_ONE,
        "row",
        _mode(plain_mode),
        (
            less_noise(_mode(plain_mode, LESS_NOISE)),
            Mutant(
                "present-only",
                "only categories that occur are counted, so that a single one is released without noise",
                _mode(present_only),
            ),
        ),
    )
