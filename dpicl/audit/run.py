"""Runs one audit: the right mechanism, which must not exceed what is stated, and each mutant, which must."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from dpicl.audit.case import AuditCase
from dpicl.randomness import stream


@dataclass(frozen=True)
class MutantResult:
    """The lower bound on a mutant's epsilon; it is caught where that is more than is stated."""

    name: str
    what_is_wrong: str
    epsilon_at_least: float
    caught: bool


@dataclass(frozen=True)
class AuditResult:
    """What an audit found; epsilons in nats, runs on each neighbour."""

    case: AuditCase
    runs: int
    seed: int
    epsilon_at_least: float
    mutants: tuple[MutantResult, ...]
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether the bound is at most what is stated."""
        return self.epsilon_at_least <= self.case.stated_epsilon

    @property
    def passed(self) -> bool:
        """Whether it holds and would have noticed every mutant."""
        return self.holds and all(mutant.caught for mutant in self.mutants)


def run_audit(case: AuditCase, *, runs: int, seed: int, progress: Callable[[], None] = lambda: None) -> AuditResult:
    """Bound epsilon from below for the mechanism and its mutants; the same seed gives the same bounds for ever.

    Args:
        runs: on each neighbour.
        progress: called when the mechanism and when each mutant is done.
    """
    start = time.perf_counter()
    bound = case.run(runs, stream(seed, "audit", case.name, ""))
    progress()
    found = []
    for mutant in case.mutants:
        least = mutant.run(runs, stream(seed, "audit", case.name, mutant.name))
        found.append(MutantResult(mutant.name, mutant.what_is_wrong, least, least > case.stated_epsilon))
        progress()
    return AuditResult(case, runs, seed, bound, tuple(found), time.perf_counter() - start)
