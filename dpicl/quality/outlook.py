"""What a plan says: the expected worth of every way to release a table, and the one that is
recommended.

Guarantee   none needed: works on made-up rows.

    (1)  expected AUC     the signal less the mean loss over populations
    (2)  90 % interval    that mean +- t sqrt(1 + 1/P) deviations over P populations, a release
         each, where one more would fall;
                          no less than two deviations, since tables differ more than populations do
    (3)  useful           what keeps half of what the signal has above chance

Which method to release a table with: all of them simulated on made-up tables of its shape, before
anything is charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from dpicl.methods.grid import prices
from dpicl.methods.noise import HOPELESS
from dpicl.methods.published import published_rows
from dpicl.quality.simulate import Candidate, Trial, candidates, trial

_GOOD, _KEPT, _LEAST_HALF, _LEAST_DEVIATIONS = 0.03, 0.5, 0.01, 2.0


@dataclass(frozen=True)
class Interval:
    """A mean, and the half width of a 90 % interval around it; equation (2)."""

    mean: float
    half: float

    @staticmethod
    def of(values: Sequence[float]) -> Interval:
        """Of one value for each population, at least two."""
        factor = max(
            _LEAST_DEVIATIONS,
            float(stdtrit(len(values) - 1, 0.95)) * math.sqrt(1 + 1 / len(values)),
        )
        return Interval(
            float(np.mean(values)), max(_LEAST_HALF, factor * float(np.std(values, ddof=1)))
        )


@dataclass(frozen=True)
class Outlook:
    """What one way of release is expected to be worth.

    Attributes:
        signal: AUC of a classifier on the raw rows; None where nothing is predicted.
        auc_loss, accuracy_loss: of a classifier on what is released, under one on the true rows.
        charged: epsilon that the account would be charged.
        columns, pairs: expected errors by name (`simulate`); groups have no pairs.
    """

    method: str
    options: Mapping[str, str]
    shots: int
    epsilon: float
    charged: float
    signal: float | None
    auc_loss: Interval | None
    accuracy_loss: Interval | None
    columns: Mapping[str, float]
    pairs: Mapping[tuple[str, str], float]

    @property
    def auc(self) -> float | None:
        """Equation (1)."""
        return (
            None
            if self.signal is None or self.auc_loss is None
            else self.signal - self.auc_loss.mean
        )

    @property
    def auc_interval(self) -> tuple[float, float] | None:
        """Equation (2)."""
        if self.auc is None or self.auc_loss is None:
            return None
        return self.auc - self.auc_loss.half, min(1.0, self.auc + self.auc_loss.half)

    @property
    def column_error(self) -> float:
        """The mean over columns."""
        return float(np.mean(list(self.columns.values())))

    @property
    def pair_error(self) -> float | None:
        """The mean over pairs of columns."""
        return float(np.mean(list(self.pairs.values()))) if self.pairs else None

    @property
    def value(self) -> float:
        """The larger the better: of one table and signal, at any epsilon."""
        return -self.column_error if self.auc_loss is None else -self.auc_loss.mean

    @property
    def is_useful(self) -> bool:
        """Equation (3); where nothing is predicted, that columns are mostly right."""
        if self.signal is None or self.auc is None:
            return self.column_error < HOPELESS / 2
        return self.auc - 0.5 >= _KEPT * (self.signal - 0.5)

    def command(self, dataset: str) -> str:
        """The command line that makes this release."""
        options = "".join(f" --option {name}={value}" for name, value in self.options.items())
        how = f"--method {self.method} --epsilon {self.epsilon:g}{options}"
        if tabular(self.method).derive_stage:
            return f"dpicl synth {dataset} {how} --out {dataset}.parquet"
        return f"dpicl protect {dataset} {how} --shots {self.shots} --out {dataset}.jsonl"


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
            (one for one in self.outlooks if one.epsilon == epsilon and one.signal == signal),
            key=lambda one: one.value,
        )

    @property
    def recommended(self) -> Outlook | None:
        """The best way at the least epsilon at which it loses next to nothing, else at the best
        epsilon; None if that is not useful.
        """
        bests = [
            self.best(epsilon, self.middle)
            for epsilon in sorted({one.epsilon for one in self.outlooks})
        ]
        chosen = next(
            (one for one in bests if one.value >= -_GOOD), max(bests, key=lambda one: one.value)
        )
        return chosen if chosen.is_useful else None

    @property
    def command(self) -> str | None:
        """What to type; None if nothing is useful."""
        return None if self.recommended is None else self.recommended.command(self.dataset)

    @property
    def sentence(self) -> str:
        """The recommendation."""
        chosen = self.recommended
        if chosen is None:
            most = max(one.epsilon for one in self.outlooks)
            best = self.best(most, self.middle)
            return (
                f"Nothing useful at epsilon {most:g} and {self.rows:,} rows: the best, "
                f"{METHODS[best.method].title}, {_worth(best)}; "
                "expected a larger epsilon, fewer columns or bins, or more rows."
            )
        return (
            f"Recommended: {METHODS[chosen.method].title} at epsilon {chosen.epsilon:g}, which "
            f"{_worth(chosen)}."
        )


def _worth(outlook: Outlook) -> str:
    errors = f"gets a typical column wrong by {outlook.column_error:.2g}"
    interval = outlook.auc_interval
    if interval is None or outlook.signal is None:
        return errors
    return (
        f"has an expected AUC of {outlook.auc:.2f} ({interval[0]:.2f} to {interval[1]:.2f}) where "
        f"a classifier on the raw rows has "
        f"{outlook.signal:.2f}, and {errors}"
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
        releases = prices(METHODS[way.method], contract, way.unit(contract, epsilons))
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
