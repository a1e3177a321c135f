"""Audit of what MST measures: all counts of one row, whichever pair is chosen.

Each count and choice has an audit of its own, which sees 0.8 times the noise; here a run takes a
thousand times as long, and what is caught is a budget that is spent more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from dpicl.accounting.guarantee import Neighbours
from dpicl.audit.bounds import Trial
from dpicl.audit.case import AuditCase, Mutant
from dpicl.randomness import Stream
from dpicl.tabular.central.spanning_tree import ExactCounts, NoisyMarginal, Shares, measure, measure_with
from dpicl.types import PrivateCodes

EPSILON, SIZES = 2.0, (2, 2, 2)
"""Two columns and the label: one pair to choose, or none."""
RUNS_SHARE = 20


def _measured(exact: ExactCounts, stream: Stream) -> list[NoisyMarginal]:
    return measure(exact, epsilon=EPSILON, stream=stream)


def _with(shares: Shares) -> Trial:
    return _release(lambda exact, stream: measure_with(exact, shares, stream))


def _release(made: Callable[[ExactCounts, Stream], list[NoisyMarginal]]) -> Trial:
    """No row, and one; the events are that every count of its cells points to it, or to none, by the choice of the pair."""
    tables = {which: ExactCounts.of(PrivateCodes(np.ones((int(which), 3), dtype=np.uint8)), SIZES) for which in (False, True)}

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        return np.array([_seen(made(tables[which], stream)) for _ in range(count)])

    return Trial(
        draw,
        {
            "a pair, and a row": lambda seen: (seen[:, 0] == 1) & (seen[:, 1] >= 1),
            "no pair, and a row": lambda seen: (seen[:, 0] == 0) & (seen[:, 1] >= 1),
            "a row": lambda seen: seen[:, 1] >= 1,
            "no row": lambda seen: seen[:, 2] <= 0,
        },
    )


def _seen(found: Sequence[NoisyMarginal]) -> tuple[int, int, int]:
    """Whether a pair was chosen; the least and the largest count of the cells that a row of ones is in."""
    counts = [int(one.counts.flat[-1]) for one in found]
    return int(len(found[-1].columns) == 3), min(counts), max(counts)


def counts_case() -> AuditCase:
    """Everything that one release measures."""
    return AuditCase(
        "mst-release",
        "whole release of counts and chosen pairs",
        EPSILON,
        Neighbours.ADD_OR_REMOVE_ONE,
        "row",
        _release(_measured),
        (
            Mutant("half-noise", "noise of half the scale", _with(Shares.of(2 * EPSILON, len(SIZES) - 1))),
            Mutant("whole-budget-each", "every count spends the whole epsilon", _with(Shares(*[Fraction(EPSILON)] * 3))),
        ),
        share=RUNS_SHARE,
        near=0.5,
    )
