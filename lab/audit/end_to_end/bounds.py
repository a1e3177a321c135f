"""Epsilon from below for all cells at once: an event is chosen on one half of the runs, and counted
on the other.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from lab.audit.case import epsilon_at_least
from lab.audit.end_to_end.draws import AuditCell, cells, drawn

WRONG = 0.01
"""How often a right machine would be called wrong: shared among all cells and both ways."""
_MOST_THRESHOLDS = 64
_CHOOSING = 0.1
"""Confidence that an event is chosen by: nothing rests on it."""


@dataclass(frozen=True)
class Bound:
    """What the runs of one cell prove."""

    cell: str
    stated: float
    delta: float
    at_least: float
    runs: int
    seconds: float

    @property
    def share(self) -> float:
        """Of the stated epsilon; above 1 the statement is false."""
        return self.at_least / self.stated

    @property
    def holds(self) -> bool:
        """Whether the statement may be true."""
        return self.share <= 1


def bound(cell: AuditCell, runs: int, *, wrong: float) -> Bound:
    """So many runs on each side of one cell, and what they prove except with probability
    `wrong`.
    """
    started = time.monotonic()
    one, other = drawn(cell, cell.one, runs), drawn(cell, cell.other, runs)
    if (one.epsilon, one.delta) != (other.epsilon, other.delta):
        raise AssertionError(f"{cell.name}: what is charged depends on the rows")
    half, delta = runs // 2, one.delta
    scores = np.concatenate([one.scores[:half], other.scores[:half]])
    events = [
        (column, float(threshold), at_least, first)
        for column in range(scores.shape[1])
        for threshold in np.unique(
            np.quantile(scores[:, column], np.linspace(0, 1, _MOST_THRESHOLDS))
        )
        for at_least in (True, False)
        for first in (True, False)
    ]
    chosen = max(
        events,
        key=lambda event: _epsilon(event, one.scores[:half], other.scores[:half], delta, _CHOOSING),
    )
    least = max(
        0.0,
        _epsilon(chosen, one.scores[half : 2 * half], other.scores[half : 2 * half], delta, wrong),
    )
    return Bound(cell.name, one.epsilon, delta, least, runs, time.monotonic() - started)


def _epsilon(
    event: tuple[int, float, bool, bool],
    one: np.ndarray,
    other: np.ndarray,
    delta: float,
    wrong: float,
) -> float:
    """From below, by whether one score is at least a threshold, or is less; and whether that is
    likelier on the first world.
    """
    column, threshold, at_least, first = event
    seen = [
        int(np.count_nonzero((scores[:, column] >= threshold) == at_least))
        for scores in (one, other)
    ]
    likely, rare = seen if first else seen[::-1]
    return epsilon_at_least(likely, rare, len(one), delta=delta, sure=wrong)


def named_bound(name: str, runs: int) -> Bound:
    """The bound of a cell by its name, sure for all cells at once."""
    by_name = {cell.name: cell for cell in cells()}
    return bound(by_name[name], runs, wrong=WRONG / len(by_name))
