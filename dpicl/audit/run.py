"""Runs audits: the right mechanism, which must not exceed what is stated, and each mutant, which must."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dpicl.audit.bounds import Trial
from dpicl.audit.case import AuditCase
from dpicl.audit.cases import find_case
from dpicl.randomness import stream

_PART_RUNS = 20_000
"""Small enough that several processes end together."""


@dataclass(frozen=True)
class MutantResult:
    """The lower bound on a mutant's epsilon; it is caught where that is more than is stated."""

    name: str
    what_is_wrong: str
    epsilon_at_least: float
    caught: bool


@dataclass(frozen=True)
class AuditResult:
    """What an audit found; epsilons in nats, runs on each neighbour, processor seconds of all processes."""

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


@dataclass(frozen=True)
class _Part:
    """Some runs of a case (or of its mutant of that name), with a stream of their own."""

    case: str
    mutant: str
    number: int
    runs: int


def run_audits(
    cases: Sequence[AuditCase],
    *,
    runs: int,
    seed: int,
    spread: Callable[..., Iterable[Any]] = map,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[AuditResult]:
    """Bound epsilon from below for mechanisms and their mutants; the same seed gives the same bounds for ever.

    Args:
        cases: of `CASES`.
        runs: on each neighbour; fewer for a case whose `share` says so.
        spread: works like `map`, a process pool's for example.
        progress: told how many parts are done, of how many.
    """
    parts = [part for case in cases for part in _parts(case, _runs(case, runs))]
    seen: dict[tuple[str, str], Any] = defaultdict(int)
    seconds: Counter[str] = Counter()
    for done, (part, (counts, took)) in enumerate(zip(parts, spread(partial(_seen, seed), parts), strict=True), 1):
        seen[part.case, part.mutant] += counts
        seconds[part.case] += took
        progress(done, len(parts))
    return [_result(case, _runs(case, runs), seed, seen, seconds[case.name]) for case in cases]


def _runs(case: AuditCase, runs: int) -> int:
    return max(1, runs // case.share)


def _trials(case: AuditCase) -> dict[str, Trial]:
    """The mechanism itself, under an empty name, and its mutants."""
    return {"": case.trial} | {mutant.name: mutant.trial for mutant in case.mutants}


def _parts(case: AuditCase, runs: int) -> Iterator[_Part]:
    for mutant in _trials(case):
        for number, start in enumerate(range(0, runs, _PART_RUNS)):
            yield _Part(case.name, mutant, number, min(_PART_RUNS, runs - start))


def _seen(seed: int, part: _Part) -> tuple[np.ndarray, float]:
    start = time.thread_time()
    trial = _trials(find_case(part.case))[part.mutant]
    counts = trial.seen(part.runs, stream(seed, "audit", part.case, f"{part.mutant} {part.number}"))
    return counts, time.thread_time() - start


def _result(case: AuditCase, runs: int, seed: int, seen: Mapping[tuple[str, str], np.ndarray], seconds: float) -> AuditResult:
    least = {name: trial.epsilon_at_least(seen[case.name, name], runs) for name, trial in _trials(case).items()}
    mutants = [
        MutantResult(mutant.name, mutant.what_is_wrong, least[mutant.name], least[mutant.name] > case.stated_epsilon)
        for mutant in case.mutants
    ]
    return AuditResult(case, runs, seed, least[""], tuple(mutants), seconds)
