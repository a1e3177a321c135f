"""What a plan says: the expected worth of every way to release a table, and the one that is
recommended.

Guarantee   none needed: works on made-up rows.

    (1)  expected AUC     the signal less the mean loss over populations
    (2)  90 % interval    that mean +- t sqrt(1 + 1/P) deviations over P populations, a release
         each, where one more would fall;
                          no less than two deviations, since tables differ more than populations do
    (3)  useful           what keeps half of what the signal has above chance
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from dpicl.methods import METHODS, tabular
from dpicl.planning.noise import HOPELESS

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
