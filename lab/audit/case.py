"""What an audit is: a mechanism on two worst-case neighbours, the epsilon that its outputs prove at
least, and mutants that must be caught.

Paper       Clopper and Pearson 1934; [JUO20] Jagielski, Ullman and Oprea 2020, section 3.

    (1)  epsilon >= ln( (low(P[event | one neighbour]) - delta) / high(P[event | the other]) )
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy import stats

from dpicl.accounting.guarantee import Neighbours
from dpicl.ground.randomness import Stream

SURE = 1e-6
"""How often a right mechanism would be called wrong, if streams were named afresh."""
LESS_NOISE = Fraction(5, 4)
"""A mechanism given this many times its epsilon has 0.8 times its noise."""
_BLOCK = 1 << 14

Draw = Callable[[bool, int, Stream], np.ndarray]
"""Outputs of some runs on one neighbour (`True`: the one with one more row), one per row of the
array.
"""
OutputEvent = Callable[[np.ndarray], np.ndarray]
"""Which outputs are in an event: shape (runs,), bool."""


def epsilon_at_least(
    seen_with: int, seen_without: int, runs: int, *, delta: float = 0.0, sure: float = SURE
) -> float:
    """Equation (1), one way; both Clopper-Pearson bounds hold at once except with probability
    `sure`.
    """
    if seen_with == 0:
        return -math.inf
    low = stats.beta.ppf(sure / 2, seen_with, runs - seen_with + 1) - delta
    if low <= 0:
        return -math.inf
    high = (
        1.0
        if seen_without == runs
        else stats.beta.ppf(1 - sure / 2, seen_without + 1, runs - seen_without)
    )
    return float(math.log(low / high))


@dataclass(frozen=True)
class Trial:
    """What is drawn on two neighbours, and the events that may tell them apart.

    Attributes:
        per_run: how many draws one run stands for, where they are cheap.
        delta: at which epsilon is bounded.
    """

    draw: Draw
    events: Mapping[str, OutputEvent]
    per_run: int = 1
    delta: float = 0.0

    def seen(self, runs: int, stream: Stream) -> np.ndarray:
        """How often each event occurs on each neighbour, the one with one more row first: shape (2,
        events), int64.

        Drawn in blocks, so that memory does not grow with the runs.
        """
        seen, count = np.zeros((2, len(self.events)), dtype=np.int64), runs * self.per_run
        for neighbour, which in enumerate((True, False)):
            for start in range(0, count, _BLOCK):
                outputs = self.draw(which, min(_BLOCK, count - start), stream)
                seen[neighbour] += [
                    int(np.count_nonzero(event(outputs))) for event in self.events.values()
                ]
        return seen

    def epsilon_at_least(self, seen: np.ndarray, runs: int) -> float:
        """The best of equation (1) over all events and both ways, never below 0.

        `SURE` is shared among all that are tried, so that the best of them is as sure as one.
        """
        sure = SURE / (2 * len(self.events))
        with_row, without = seen.tolist()
        ways = [*zip(with_row, without, strict=True), *zip(without, with_row, strict=True)]
        return max(
            0.0,
            *(
                epsilon_at_least(one, other, runs * self.per_run, delta=self.delta, sure=sure)
                for one, other in ways
            ),
        )


def low_bits(outputs: np.ndarray) -> np.ndarray:
    """The last bit of every output, whole number or double: noise that leaves it alone leaks it."""
    whole = outputs.view(np.int64) if outputs.dtype == np.float64 else outputs
    return (whole & 1).astype(bool)


@dataclass(frozen=True)
class Mutant:
    """The mechanism with one mistake."""

    name: str
    what_is_wrong: str
    trial: Trial


def less_noise(trial: Trial) -> Mutant:
    """The mutant that every mechanism has."""
    return Mutant("less-noise", "noise of 0.8 times the scale", trial)


@dataclass(frozen=True)
class AuditCase:
    """One mechanism on two worst-case neighbours; epsilon in nats.

    Attributes:
        share: one of so many runs is made, where a run takes long.
        near: the part of the stated epsilon that a hundred thousand runs prove at least; less where
            few of them are made.
    """

    name: str
    mechanism: str
    stated_epsilon: float
    trial: Trial
    neighbours: Neighbours = Neighbours.ADD_OR_REMOVE_ONE
    unit: str = "row"
    share: int = 1
    near: float = 0.75
    mutants: tuple[Mutant, ...] = ()

    def with_mutants(self, *mutants: Mutant) -> AuditCase:
        """The same case, which must catch these."""
        return replace(self, mutants=mutants)
