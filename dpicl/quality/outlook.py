"""Which method to release a table with, before anything is charged: all of them simulated on
made-up tables of its shape, and the one that is recommended.

Guarantee   none needed: works on made-up rows (`simulate`).

    (1)  expected AUC     the signal less the mean loss over populations
    (2)  90 % interval    that mean +- t sqrt(1 + 1/P) deviations over P populations, a release
         each, where one more would fall; no less than two deviations, since tables differ more than
         populations do

Not covered what a language model makes of the rows, and how the real population differs from
made-up ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import get_args

import numpy as np
from scipy.special import stdtrit

from dpicl.contract.models import Contract
from dpicl.contract.pipeline import parse_epsilon
from dpicl.ground.errors import ParameterError
from dpicl.ground.processes import fork_server
from dpicl.methods import METHODS, tabular
from dpicl.methods.base import Trust
from dpicl.methods.grid import points
from dpicl.methods.published import published_rows
from dpicl.quality.simulate import Candidate, Trial, candidates, trial
from dpicl.quality.worth import Marginal, Quality, ReleasePoint, Score

_GOOD, _LEAST_HALF, _LEAST_DEVIATIONS = 0.03, 0.01, 2.0


def half_width(values: Sequence[float]) -> float:
    """Half the width of a 90 % interval around the mean of one value for each population, at least
    two; equation (2).
    """
    factor = max(
        _LEAST_DEVIATIONS, float(stdtrit(len(values) - 1, 0.95)) * math.sqrt(1 + 1 / len(values))
    )
    return max(_LEAST_HALF, factor * float(np.std(values, ddof=1)))


@dataclass(frozen=True)
class Outlook:
    """What one way of release is expected to be worth.

    Attributes:
        quality: expected, on made-up tables of one signal.
        charged: epsilon that the account would be charged.
    """

    way: Candidate
    quality: Quality
    charged: float

    @property
    def epsilon(self) -> float:
        """Of the release."""
        return self.quality.epsilon

    def command(self, dataset: str) -> str:
        """The command line that makes this release."""
        options = "".join(f" --option {name}={value}" for name, value in self.way.options.items())
        how = f"--method {self.way.method} --epsilon {self.epsilon:g}{options}"
        if tabular(self.way.method).derive_stage:
            return f"dpicl synth {dataset} {how} --out {dataset}.parquet"
        return f"dpicl protect {dataset} {how} --shots {self.way.shots} --out {dataset}.jsonl"


@dataclass(frozen=True)
class TablePlan:
    """Every way to release a table, and the one that is recommended.

    Attributes:
        rows: as stated, and `simulated_rows` as many as were made up.
        signals: by name, the AUCs of a classifier on the raw rows that were simulated; none where
            nothing is predicted.
        outlooks: of every way, epsilon and signal.
        refused: methods that the contract rules out, and why.
    """

    dataset: str
    rows: int
    simulated_rows: int
    signals: Mapping[str, float]
    outlooks: tuple[Outlook, ...]
    refused: Mapping[str, str]

    @property
    def middle(self) -> float | None:
        """The signal that decides: the one that was stated, or the medium one."""
        values = sorted(self.signals.values())
        return values[len(values) // 2] if values else None

    def best(self, epsilon: float, signal: float | None) -> Outlook:
        """The best way at an epsilon, by this signal."""
        return max(
            (
                outlook
                for outlook in self.outlooks
                if (outlook.epsilon, outlook.quality.signal) == (epsilon, signal)
            ),
            key=lambda outlook: outlook.quality.value,
        )

    @property
    def recommended(self) -> Outlook | None:
        """The best way at the least epsilon at which it loses next to nothing, else at the best
        epsilon; None if that is not useful.
        """
        bests = [
            self.best(epsilon, self.middle)
            for epsilon in sorted({outlook.epsilon for outlook in self.outlooks})
        ]
        chosen = next(
            (best for best in bests if best.quality.value >= -_GOOD),
            max(bests, key=lambda best: best.quality.value),
        )
        return chosen if chosen.quality.is_useful else None

    @property
    def command(self) -> str | None:
        """What to type; None if nothing is useful."""
        return None if self.recommended is None else self.recommended.command(self.dataset)

    @property
    def sentence(self) -> str:
        """The recommendation."""
        if self.recommended is not None:
            chosen = self.recommended.quality
            return (
                f"Recommended: {chosen.method} at epsilon {chosen.epsilon:g}, which {chosen.worth}."
            )
        most = max(outlook.epsilon for outlook in self.outlooks)
        best = self.best(most, self.middle).quality
        return (
            f"Nothing useful at epsilon {most:g} and {self.rows:,} rows: the best, {best.method}, "
            f"{best.worth}; expected a larger epsilon, fewer columns or bins, or more rows."
        )


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
    if count is None and contract.is_benchmark:
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
    simulated = min(count, MOST_ROWS)
    populations = populations or (POPULATIONS // 2 if len(signals) > 1 else POPULATIONS)
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
    outlooks: list[Outlook] = []
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
) -> Iterator[Outlook]:
    """Of every way and epsilon, from all populations of one signal."""
    for place, way in enumerate(ways):
        method = tabular(way.method)
        releases = {
            point.epsilon: point for point in points(method, way.unit(contract, epsilons)).values()
        }
        for epsilon in epsilons:
            point = releases[epsilon]
            outcomes = [trial.outcomes[place, epsilon] for trial in trials]
            losses = [
                trial.truth.auc - outcome.quality.auc
                for trial, outcome in zip(trials, outcomes, strict=True)
                if trial.truth and outcome.quality
            ]
            scores: tuple[Score, ...] = ()
            if signal is not None and losses:
                auc = signal - float(np.mean(losses))
                half = half_width(losses)
                scores = (Score("AUC", auc, auc - half, min(1.0, auc + half)),)
            marginals = [
                Marginal(names, float(np.mean([outcome.errors[names] for outcome in outcomes])))
                for names in outcomes[0].errors
            ]
            quality = Quality(
                ReleasePoint(contract, method, point),
                columns=tuple(error for error in marginals if len(error.columns) == 1),
                pairs=tuple(error for error in marginals if len(error.columns) == 2),
                scores=scores,
                signal=signal,
            )
            yield Outlook(way, quality, method.cost(contract, point).charged.epsilon)
