"""What may tell two neighbours apart in outputs of a library that is known by its manual only.

Thresholds, single values, patterns of bits; and of doubles their grain: a value that is rounded
after noise was added lies on the grid of its own size, so that what is finer than the grid of the
other neighbour gives the exact value away.

Paper       Mironov 2012, On significance of the least significant bits for differential privacy;
            Haney et al. 2022, Precision-based attacks (arXiv 2207.13793).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from lab.audit.case import OutputEvent, low_bits

Events = dict[str, OutputEvent]
_GRAIN_BITS = (52, 53, 54)
"""Doubles between 1/2 and 1 are multiples of 2^-53, those up to 2 of 2^-52."""


def at_least(*thresholds: float) -> Events:
    """Outputs of one number each, from a threshold on."""

    def from_on(threshold: float) -> OutputEvent:
        return lambda outputs: np.asarray(outputs >= threshold)

    return {f"at least {threshold:g}": from_on(threshold) for threshold in thresholds}


def beyond(*sizes: float) -> Events:
    """Outputs of a size, either way."""

    def larger(size: float) -> OutputEvent:
        return lambda outputs: np.asarray(np.abs(outputs) > size)

    return {f"beyond {size:g}": larger(size) for size in sizes}


def values(known: Iterable[float]) -> Events:
    """Each of some outputs."""

    def same(value: float) -> OutputEvent:
        return lambda outputs: np.asarray(outputs == value)

    return {f"{value:g}": same(value) for value in known}


def _finer(bits: int) -> OutputEvent:
    return lambda outputs: np.asarray(np.mod(np.abs(outputs) * 2.0**bits, 1.0) != 0)


GRAIN: Events = {f"finer than 2^-{bits}": _finer(bits) for bits in _GRAIN_BITS}
HALF_STEPS: Events = at_least(*np.arange(-3.0, 4.5, 0.5).tolist())
REAL: Events = HALF_STEPS | GRAIN
WHOLE: Events = at_least(*range(-2, 6)) | {"odd": low_bits}
YES: Events = {"yes": lambda outputs: outputs.astype(bool)}
MORE: Events = at_least(-20, -10, 0, 10, 20)
SLOPE: Events = beyond(*(10.0 ** np.arange(-3, 4)).tolist())


def of_pair(event: Callable[[np.ndarray, np.ndarray], np.ndarray], name: str) -> Events:
    """Of the first two columns."""
    return {name: lambda outputs: event(outputs[:, 0], outputs[:, 1])}


REPORT: Events = of_pair(lambda first, second: first > second, "the first alone") | of_pair(
    lambda first, second: second > first, "the second alone"
)
"""Of two categories or queries, which one is supported."""
NOISY_REPORT: Events = of_pair(
    lambda first, second: (first >= 1) & (second <= 0), "the first high, the second low"
)
SECOND_COUNT: Events = of_pair(lambda first, second: second >= 1, "the second at least 1")
