"""Which method to release a table with: all of them simulated on made-up tables of its shape,
before anything is charged.

Guarantee   none needed: the contract, a stated number of rows, epsilon and the strength of the
            signal are public, and no row is read.
Every population is one table: made up (`populations`), released in every way and judged
(`simulate`), and summed up (`outlook`).

Not covered what a language model makes of the rows, and how the real population differs from
made-up ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import get_args

import numpy as np

from dpicl.contract.models import Contract
from dpicl.errors import ParameterError
from dpicl.methods import METHODS
from dpicl.methods.base import Trust
from dpicl.methods.published import published_rows
from dpicl.pipeline import parse_epsilon
from dpicl.planning.outlook import Interval, Outlook, TablePlan
from dpicl.planning.simulate import Candidate, Trial, candidates, trial
from dpicl.processes import fork_server

SIGNALS = {"weak": 0.65, "medium": 0.8, "strong": 0.92}
"""AUC of a classifier on the raw rows, where the user does not state one."""
POPULATIONS, MOST_ROWS = 16, 100_000
"""Of one signal; of several half as many each."""
Progress = Callable[[int, int], None]


def read_signal(text: str) -> float:
    """An AUC, or a word for one.

    Raises:
        ParameterError: it is neither.
    """
    try:
        value = SIGNALS[text] if text in SIGNALS else float(text)
    except ValueError:
        value = math.nan
    if not 0.5 < value < 1:
        raise ParameterError(
            "signal",
            repr(text[:40]),
            f"{', '.join(SIGNALS)}, or the AUC of a classifier on the raw rows: above 0.5, below 1",
        )
    return value


def _count_of(contract: Contract, rows: int | None) -> int:
    """Rows as stated, or as they are known."""
    count = rows if rows is not None else contract.population
    if count is None and contract.privacy.budget.benchmark:
        count = published_rows(contract.name)
    if count is None:
        unstated = (
            f"--rows NUMBER, as it is publicly known, or `population: NUMBER`, which "
            f"{contract.name} does not state"
        )
        raise ParameterError("rows", "unknown", unstated)
    if count < 1:
        raise ParameterError("rows", count, "a number of rows >= 1")
    return count


def plan_table(
    contract: Contract,
    rows: int | None,
    epsilons: Iterable[float],
    *,
    signal: str | float | None = None,
    trust: str | None = None,
    populations: int | None = None,
    processes: int = 1,
    progress: Progress | None = None,
) -> TablePlan:
    """Simulate every method on made-up tables of a contract's shape.

    Args:
        rows: as publicly stated; None is the contract's `population`, or of a benchmark of
            DP-TabICL what its Table VI prints.
        epsilons: in nats, each of one release.
        signal: AUC of a classifier on the raw rows, as known from public sources, or a word for it;
            None simulates a weak, a medium and a strong one.
        trust: who may see true rows: `central`, a curator; `local`, nobody; None compares all
            methods.
        populations: made-up tables for each signal, at least two; None is `POPULATIONS`, or half as
            many.
        processes: that share them; more than one need a `__main__` that can be imported.
        progress: is given how many populations are done, and of how many.

    Raises:
        ParameterError: a value is out of range, or no method fits.
    """
    count = _count_of(contract, rows)
    try:
        asked = tuple(sorted({parse_epsilon(epsilon) for epsilon in epsilons}))
    except ValueError as error:
        raise ParameterError(
            "epsilons", *str(error).removeprefix("got ").split("; expected ")
        ) from None
    if not asked or math.inf in asked:
        raise ParameterError("epsilons", list(asked), "finite numbers > 0")
    if trust not in (None, *get_args(Trust)):
        raise ParameterError("trust", repr(trust), f"one of {', '.join(get_args(Trust))}")
    ways, refused = candidates(contract, asked)
    ways = [way for way in ways if trust is None or METHODS[way.method].trust == trust]
    if not ways:
        raise ParameterError(
            "methods",
            trust or "all",
            f"one that releases {contract.name}: {'; '.join(refused.values())}",
        )
    signals = SIGNALS if signal is None else {"stated": read_signal(str(signal))}
    if contract.target.count == 1:
        signals = {}
    simulated, populations = (
        min(count, MOST_ROWS),
        populations or (POPULATIONS // 2 if len(signals) > 1 else POPULATIONS),
    )
    jobs = [
        (strength, number)
        for strength in signals.values() or [0.5]
        for number in range(populations)
    ]
    trials: list[Trial] = []
    pool = (
        ProcessPoolExecutor(processes, mp_context=fork_server([__name__]))
        if processes > 1
        else nullcontext()
    )
    with pool as executor:
        for done in (map if executor is None else executor.map)(
            partial(trial, contract, simulated, asked, ways), *zip(*jobs, strict=True)
        ):
            trials.append(done)
            if progress is not None:
                progress(len(trials), len(jobs))
    outlooks = []
    for place, strength in enumerate(signals.values() or [None]):
        outlooks += _outlooks(
            contract, asked, strength, ways, trials[place * populations :][:populations]
        )
    return TablePlan(contract.name, count, simulated, signals, tuple(outlooks), refused)


def _outlooks(
    contract: Contract,
    epsilons: Sequence[float],
    signal: float | None,
    ways: Sequence[Candidate],
    trials: Sequence[Trial],
) -> list[Outlook]:
    """Of every way and epsilon, from all populations of one signal."""
    outlooks = []
    for place, way in enumerate(ways):
        releases = METHODS[way.method].releases(contract, way.unit(contract, epsilons))
        charged = {cell.epsilon: cost.charged.epsilon for cell, cost in releases.items()}
        for epsilon in epsilons:
            outcomes = [one.outcomes[place, epsilon] for one in trials]
            judged = [
                (one.truth, found.quality)
                for one, found in zip(trials, outcomes, strict=True)
                if one.truth and found.quality
            ]
            auc_loss = (
                Interval.of([truth.auc - quality.auc for truth, quality in judged])
                if judged
                else None
            )
            accuracy_loss = (
                Interval.of([truth.accuracy - quality.accuracy for truth, quality in judged])
                if judged
                else None
            )
            columns = {
                name: float(np.mean([one.columns[name] for one in outcomes]))
                for name in outcomes[0].columns
            }
            pairs = {
                both: float(np.mean([one.pairs[both] for one in outcomes]))
                for both in outcomes[0].pairs
            }
            how = way.method, way.options, way.shots
            outlooks.append(
                Outlook(
                    *how, epsilon, charged[epsilon], signal, auc_loss, accuracy_loss, columns, pairs
                )
            )
    return outlooks
