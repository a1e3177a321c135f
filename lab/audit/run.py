"""All audits by name, and how they are run: the right mechanism must not exceed what is stated, and
each mutant must.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dpicl.ground.errors import ParameterError, did_you_mean
from dpicl.ground.randomness import stream
from lab.audit import counts, gaussian_steps, keyed, local, noise, releases, texts
from lab.audit.case import AuditCase, Trial

CASES: dict[str, AuditCase] = {
    case.name: case
    for module in (local, counts, noise, gaussian_steps, releases, texts, keyed)
    for case in module.CASES
}
OTHERS = ("end-to-end", "membership", "transcripts", "attackers", "suites")
"""What `dpicl audit` takes beside the audits of mechanisms."""
_PART_RUNS = 20_000
"""Small enough that several processes end together."""


def find_case(name: str) -> AuditCase:
    """The audit of that name.

    Raises:
        ParameterError: there is none; the message lists the names.
    """
    if name not in CASES:
        expected = "a name that bare `dpicl audit` lists" + did_you_mean(name, [*OTHERS, *CASES])
        raise ParameterError("audit", repr(name[:60]), expected)
    return CASES[name]


@dataclass(frozen=True)
class MutantResult:
    """The lower bound on a mutant's epsilon; it is caught where that is more than is stated."""

    name: str
    what_is_wrong: str
    epsilon_at_least: float
    caught: bool


@dataclass(frozen=True)
class AuditResult:
    """What an audit proves; epsilons in nats, runs on each neighbour, processor seconds of all
    processes.
    """

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


def run_audits(
    cases: Sequence[AuditCase],
    *,
    runs: int,
    seed: int,
    spread: Callable[..., Iterable[Any]] = map,
    progress: Callable[[int, int], None] = lambda done, total: None,
    find: Callable[[str], AuditCase] = find_case,
) -> list[AuditResult]:
    """Bound epsilon from below for mechanisms and their mutants; the same seed always gives the
    same bounds.

    Args:
        cases: those that `find` knows by name, in every process of `spread`.
        runs: on each neighbour; fewer for a case whose `share` says so.
        spread: works like `map`, a process pool's for example.
        progress: called with how many parts are done, and of how many.
    """
    runs_of = {case.name: max(1, runs // case.share) for case in cases}
    parts = [
        (case.name, mutant, number, min(_PART_RUNS, runs_of[case.name] - start))
        for case in cases
        for mutant in _trials(case)
        for number, start in enumerate(range(0, runs_of[case.name], _PART_RUNS))
    ]
    seen: dict[tuple[str, str], Any] = defaultdict(int)
    seconds: Counter[str] = Counter()
    for done, ((name, mutant, *_), (counted, took)) in enumerate(
        zip(parts, spread(partial(_seen, find, seed), parts), strict=True), 1
    ):
        seen[name, mutant] += counted
        seconds[name] += took
        progress(done, len(parts))
    results = []
    for case in cases:
        least = {
            name: trial.epsilon_at_least(seen[case.name, name], runs_of[case.name])
            for name, trial in _trials(case).items()
        }
        bounds = [(mutant, least[mutant.name]) for mutant in case.mutants]
        mutants = tuple(
            MutantResult(one.name, one.what_is_wrong, bound, bound > case.stated_epsilon)
            for one, bound in bounds
        )
        results.append(
            AuditResult(case, runs_of[case.name], seed, least[""], mutants, seconds[case.name])
        )
    return results


def _trials(case: AuditCase) -> dict[str, Trial]:
    """The mechanism itself, under an empty name, and its mutants."""
    return {"": case.trial} | {mutant.name: mutant.trial for mutant in case.mutants}


def _seen(
    find: Callable[[str], AuditCase], seed: int, part: tuple[str, str, int, int]
) -> tuple[np.ndarray, float]:
    """Of so many runs of a case, or of its mutant of that name; with a stream of their own, by
    their number.
    """
    start, (case, mutant, number, runs) = time.thread_time(), part
    counted = _trials(find(case))[mutant].seen(
        runs, stream(seed, "audit", case, f"{mutant} {number}")
    )
    return counted, time.thread_time() - start
