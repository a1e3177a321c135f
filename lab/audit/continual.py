"""Audits of counters of a table that grows: all releases of a horizon on two histories, at a delta.

One history is a person's rows, as many and as early as may be, the other one is empty, or has that
person's rows elsewhere. The noise is such that the first moves all releases by one deviation. What
tells most is the sum of the releases, each weighted by how far it moves; and of two releases with
the same noise, their difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from dpicl.accounting.guarantee import Neighbours
from dpicl.accounting.pure import SMOOTHED
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.continual_counts import BITS, ContinualCounts, Contribution, matrix
from lab.audit.case import LESS_NOISE, AuditCase, Mutant, OutputEvent, Trial, less_noise
from lab.audit.gaussian_steps import DELTA, EPSILON

PERIODS, ROWS = 4, 3
_FEW_BITS = 1
"""Few enough that entries are rounded up by what can be seen."""
Release = Callable[[ContinualCounts, Sequence[np.ndarray], Stream], np.ndarray]


def _counters(
    bits: int, neighbours: Neighbours = Neighbours.ADD_OR_REMOVE_ONE, *, signed: int = 0
) -> ContinualCounts:
    """A person of three rows, one in a period, moves all releases by one deviation at most."""
    exact = ContinualCounts(PERIODS, 1, Contribution(ROWS, 1, signed), neighbours, None, bits)
    return replace(exact, variance=Fraction(exact.squared_sensitivity) + SMOOTHED)


def _released(
    counters: ContinualCounts, history: Sequence[np.ndarray], stream: Stream
) -> np.ndarray:
    return counters.release(history, period=len(history), stream=stream)


def _with_kept_noise() -> Release:
    """The noise of the first period is added in all of them."""
    kept: dict[str, np.ndarray] = {}

    def released(
        counters: ContinualCounts, history: Sequence[np.ndarray], stream: Stream
    ) -> np.ndarray:
        exact = replace(counters, variance=None).release(
            history, period=len(history), stream=stream
        )
        if len(history) == 1:
            kept["noise"] = counters.release(history, period=len(history), stream=stream) - exact
        return exact + kept["noise"]

    return released


def _histories(counters: ContinualCounts, release: Release = _released) -> Trial:
    """Each run is a cell of one horizon, or two cells where a person's rows move from one to the
    other: outputs of shape (runs, 2). Where rows take others back, the one person's come and the
    other's go, in one cell.
    """
    back = counters.contribution.signed
    replaced = counters.neighbours is Neighbours.REPLACE_ONE and not back
    path = matrix(PERIODS, counters.bits)[:, :ROWS].sum(axis=1).astype(float)
    path /= (
        np.linalg.norm(path) * float(counters.variance or 1) ** 0.5 * (2**0.5 if replaced else 1)
    )

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        one, other = np.zeros((2, 2 if replaced else 1), dtype=np.int64)
        one[0], other[-1] = 1, -1 if back else int(replaced)
        rows = np.tile(one if which else other, count)
        deliveries = [rows if period < ROWS else np.zeros_like(rows) for period in range(PERIODS)]
        cells = np.array(
            [release(counters, deliveries[: period + 1], stream) for period in range(PERIODS)]
        )
        first = cells.reshape(PERIODS, count, -1)[:, :, 0]
        last = cells.reshape(PERIODS, count, -1)[:, :, -1] if replaced else 0
        return np.array([path @ (first - last), (first - last)[1] - (first - last)[0]]).T

    def beyond(place: float) -> OutputEvent:
        return lambda outputs: outputs[:, 0] >= place

    events: dict[str, OutputEvent] = {
        f"at least {place}": beyond(place) for place in (0.5, 1.0, 1.5)
    }
    return Trial(draw, {**events, "a step up": lambda outputs: outputs[:, 1] > 0}, delta=DELTA)


_FINE, _REPLACED = _counters(BITS), _counters(BITS, Neighbours.REPLACE_ONE)
_CORRECTED = _counters(BITS, Neighbours.REPLACE_ONE, signed=1)


def _for(squares: float, counters: ContinualCounts = _FINE) -> Trial:
    """With noise for another squared sensitivity."""
    return _histories(replace(counters, variance=Fraction(squares) + SMOOTHED))


def _largest_step() -> int:
    """What the three rows move the one release by that they move most."""
    return int(matrix(PERIODS)[:, :ROWS].sum(axis=1).max()) ** 2


def _unrounded() -> float:
    """What the rows would move all releases by if entries of few bits were not rounded."""
    return _FINE.squared_sensitivity / 4 ** (BITS - _FEW_BITS)


CASES = (
    AuditCase(
        "continual-counts",
        f"all releases of {PERIODS} periods, of a person with {ROWS} rows, at delta = {DELTA:.3f}",
        EPSILON,
        _histories(_FINE),
        unit="person",
        share=3,
        near=0.7,
    ).with_mutants(
        less_noise(_histories(replace(_FINE, variance=(_FINE.variance or 1) / LESS_NOISE**2))),
        Mutant(
            "kept-noise",
            "every release has the noise of the first one",
            _histories(_FINE, _with_kept_noise()),
        ),
        Mutant(
            "one-row",
            "the noise is for one row of a person",
            _for(replace(_FINE, contribution=Contribution(1, 1)).squared_sensitivity),
        ),
        Mutant(
            "one-release",
            "the noise is for what moves the one release that is moved most",
            _for(_largest_step()),
        ),
        Mutant(
            "unrounded",
            "the noise is for columns before they are rounded",
            _for(_unrounded(), _counters(_FEW_BITS)),
        ),
    ),
    AuditCase(
        "continual-counts-replaced",
        f"all releases of {PERIODS} periods, of another person's {ROWS} rows, at delta = "
        f"{DELTA:.3f}",
        EPSILON,
        _histories(_REPLACED),
        Neighbours.REPLACE_ONE,
        "person",
        share=3,
        near=0.7,
    ).with_mutants(
        Mutant(
            "added-person",
            "the noise is for an added person",
            _for(_FINE.squared_sensitivity, _REPLACED),
        ),
    ),
    AuditCase(
        "continual-counts-corrected",
        f"all releases of {PERIODS} periods, of a person's {ROWS} rows and another's that take "
        f"rows back, at delta = {DELTA:.3f}",
        EPSILON,
        _histories(_CORRECTED),
        Neighbours.REPLACE_ONE,
        "person",
        share=3,
        near=0.7,
    ).with_mutants(
        Mutant(
            "unpriced-corrections",
            "the noise is for rows that stay",
            _for(_REPLACED.squared_sensitivity, _CORRECTED),
        ),
    ),
)
