"""Audit of what MST measures: all counts of one row, whichever pair is chosen.

Each count and choice has an audit of its own, which sees 0.8 times the noise; here a run takes a
thousand times as long, and what is caught is a budget that is spent more than once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np

from dpicl.accounting.guarantee import Neighbours
from dpicl.audit.bounds import Trial
from dpicl.audit.case import AuditCase, Mutant
from dpicl.randomness import Stream
from dpicl.tabular import spanning_tree
from dpicl.tabular.spanning_tree import ExactCounts, Shares, measure
from dpicl.types import PrivateCodes

EPSILON, SIZES = 2.0, (2, 2, 2)
"""Two columns and the label: one pair to choose, or none."""
RUNS_SHARE = 20
Change = Callable[[Shares], Shares]


def _release(change: Change = lambda shares: shares) -> Trial:
    """No row, and one; the events are that every count of its cells points to it, or to none, by the choice of the pair."""
    tables = {which: ExactCounts.of(PrivateCodes(np.ones((int(which), 3), dtype=np.uint8)), SIZES) for which in (False, True)}
    plain = Shares.of

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        with mock.patch.object(spanning_tree.Shares, "of", lambda epsilon, columns: change(plain(epsilon, columns))):
            return np.array([_seen(tables[which], stream) for _ in range(count)])

    return Trial(
        draw,
        {
            "a pair, and a row": lambda seen: (seen[:, 0] == 1) & (seen[:, 1] >= 1),
            "no pair, and a row": lambda seen: (seen[:, 0] == 0) & (seen[:, 1] >= 1),
            "a row": lambda seen: seen[:, 1] >= 1,
            "no row": lambda seen: seen[:, 2] <= 0,
        },
    )


def _seen(table: ExactCounts, stream: Stream) -> tuple[int, int, int]:
    """Whether a pair was chosen; the least and the largest count of the cells that a row of ones is in."""
    found = measure(table, epsilon=EPSILON, stream=stream)
    counts = [int(one.counts.flat[-1]) for one in found]
    return int(len(found[-1].columns) == 3), min(counts), max(counts)


def _times(factor: Fraction, *names: str) -> Change:
    def change(shares: Shares) -> Shares:
        return replace(shares, **{name: getattr(shares, name) * factor for name in names})

    return change


def counts_case() -> AuditCase:
    """Everything that one release measures."""
    return AuditCase(
        "mst-release",
        "whole release of counts and chosen pairs",
        EPSILON,
        Neighbours.ADD_OR_REMOVE_ONE,
        "row",
        _release(),
        (
            Mutant("half-noise", "noise of half the scale", _release(_times(Fraction(2), "first", "choice", "second"))),
            Mutant("whole-budget-each", "every count spends the whole epsilon", _release(lambda _: Shares(*[Fraction(EPSILON)] * 3))),
        ),
        share=RUNS_SHARE,
        near=0.5,
    )
