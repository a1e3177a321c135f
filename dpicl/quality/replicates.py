"""A release simulated again: how far its rows are from the rows they stand for, and what a
classifier promises and keeps.

Guarantee   none spent: rows are drawn from what was released, and released again with the same law
            of noise.
Paper       parametric bootstrap: Efron 1979; the regression of what is true on what is seen:
            Beaumont, Zhang and Balding 2002.

    1  Z   <- rows of the release's model, as many as there are rows
    2  D   <- a release of Z with the same epsilon and law of noise;  R <- rows of D's model
    3  error of a marginal: its total variation between R (or the model's own shares) and Z, where
       it is counted
    4  Z'  <- of a share 1 - s of Z, labels are shuffled:   s even from nothing to all that the
       release shows
    5  a classifier fitted on R' of Z' scores p on R', where it is promised, and t on Z', where it
       is true

Step 4 is there because noise looks like signal: at a small epsilon rows of a model show a strong
one whether or not there is any.

Symbols     s strength of the signal.
Not covered dependence between columns that nothing counted: Z has none.

What a release is worth by the rows themselves: where these are public only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from dpicl.contract.models import Contract
from dpicl.contract.pipeline import Point
from dpicl.data.reading.encode import UNKNOWN, LocalEncoding
from dpicl.ground.errors import PrivacyError
from dpicl.ground.randomness import Draws, stream
from dpicl.ground.types import PrivateCodes, SplitTable
from dpicl.methods.evaluation import rank_auc
from dpicl.methods.tabular_method import TabularMethod

REPLICATES = 40
_FITTED_ROWS = 1 << 12
"""More teach a linear classifier next to nothing."""
_MOST_ROWS = 1 << 17
"""More clients are not simulated: what a larger collection gains on so many, nobody sees."""
Columns = tuple[int, ...]
MEASURES = ("AUC", "accuracy")
Features = Callable[[np.ndarray, Sequence[int]], np.ndarray]
"""What a classifier sees of rows of bins of columns of such sizes."""


def marginal(bins: np.ndarray, columns: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
    """Shares of the cells of some columns among rows of bins, shape (sizes of these columns); rows
    that name no bin are in none.
    """
    shape = tuple(sizes[column] for column in columns)
    known = (bins[:, list(columns)] != UNKNOWN).all(axis=1)
    cells = np.ravel_multi_index(tuple(bins[known, column] for column in columns), shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape) / max(len(bins), 1)


def total_variation(one: np.ndarray, other: np.ndarray) -> float:
    """Half of the sum of differences, 0 to 1."""
    return float(np.abs(one - other).sum() / 2)


def sampling_variation(shares: np.ndarray) -> float:
    """What total variation times the root of n is expected to be between these shares and those of
    n rows drawn from them, n large.
    """
    inside = np.clip(shares, 0, 1)
    return float(np.sqrt(2 * inside * (1 - inside) / np.pi).sum() / 2)


def indicators(bins: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """One column for each bin of all columns given: shape (rows, bins)."""
    return np.hstack([bins[:, [i]] == np.arange(size) for i, size in enumerate(sizes)]).astype(
        np.float64
    )


def as_numbers(bins: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Bins as they are numbered: what trees split."""
    return bins.astype(np.float64)


def fitted(
    model: Any, bins: np.ndarray, sizes: Sequence[int], features: Features = indicators
) -> Any:
    """A classifier of the label, which is the last column; None where the rows have one label
    only.
    """
    labels = bins[:, -1]
    return (
        model.fit(features(bins[:, :-1], sizes[:-1]), labels)
        if len(np.unique(labels)) > 1
        else None
    )


def scores(
    model: Any, bins: np.ndarray, sizes: Sequence[int], features: Features = indicators
) -> tuple[float, float]:
    """AUC, of several classes the mean over one against the rest, and accuracy of a fitted
    classifier on these rows.
    """
    labels, classes = bins[:, -1], sizes[-1]
    if model is None:
        return 0.5, float(np.bincount(labels, minlength=classes).max() / len(labels))
    odds = np.zeros((len(bins), classes))
    odds[:, model.classes_] = model.predict_proba(features(bins[:, :-1], sizes[:-1]))
    return rank_auc(odds, labels), float(np.mean(odds.argmax(axis=1) == labels))


@dataclass(frozen=True)
class Modelled:
    """Bins of rows that are derived from a release, and the model's own shares of what it
    counted.
    """

    bins: np.ndarray
    counted: Mapping[Columns, np.ndarray]


@dataclass(frozen=True)
class SimulatedRelease:
    """One release of a method, and what is derived from it."""

    method: TabularMethod[Any]
    contract: Contract
    point: Point[Any]
    drawn: Any

    @property
    def encoding(self) -> LocalEncoding:
        """Of rows, the label last."""
        return self.method.form(self.contract, self.point).encoding

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bins of all columns, the label last."""
        return self.encoding.bin_counts

    def tells(self, columns: Columns) -> bool:
        """Whether it says anything of each of these columns."""
        return not self.method.uncounted(self.drawn, self.contract) & {*columns}

    def modelled(self, drawn: Any, draws: Draws) -> Modelled:
        """Of this release, or of a replicate."""
        rows = self.method.rows(drawn, self.contract, self.point, draws)
        return Modelled(self.encoding.decode(rows.codes), self.method.counted(drawn, self.contract))


def classifier(classes: int = 2) -> Any:
    """The one that is judged: logistic regression on indicators of bins."""
    # a second to import: only where it is called
    from sklearn.linear_model import (
        LogisticRegression,
    )

    return LogisticRegression(
        solver="newton-cholesky" if classes <= 2 else "lbfgs", max_iter=100, tol=1e-3
    )


def learned(bins: np.ndarray, sizes: Sequence[int], draws: Draws) -> Any:
    """The classifier, fitted on some of the rows."""
    some = draws.public("quality-fit", "").generator().permutation(len(bins))[:_FITTED_ROWS]
    return fitted(classifier(sizes[-1]), bins[some], sizes)


def shares_of(modelled: Modelled, columns: Columns, sizes: Sequence[int]) -> np.ndarray:
    """The model's own shares where it has them, those of its rows otherwise."""
    if columns in modelled.counted:
        return modelled.counted[columns]
    if len(columns) == 1:  # counted with the label
        above = next(
            (wider for wider in modelled.counted if len(wider) == 2 and columns[0] in wider), None
        )
        if above is not None:
            return modelled.counted[above].sum(axis=1 - above.index(columns[0]))
    return marginal(modelled.bins, columns, sizes)


class Replicates:
    """Releases of made-up rows; the same seed gives the same ones."""

    def __init__(self, release: SimulatedRelease, bins: np.ndarray, seed: int) -> None:
        self.release, self.bins, self.sizes, self.seed = release, bins, release.sizes, seed
        self.rows = max(1, round(release.method.row_count(release.drawn)))

    def _released(self, population: np.ndarray, draws: Draws) -> tuple[np.ndarray, Modelled]:
        """Rows that stand for all rows, and what a release of them is made into."""
        chance = draws.public("quality-rows", self.release.point.key).generator()
        table = population[chance.permutation(len(population))[: min(self.rows, len(population))]]
        truth = PrivateCodes(self.release.encoding.encode(table))
        stood_for = min(self.rows, max(_MOST_ROWS, len(table)))
        drawn = self.release.method.replicate(
            truth, stood_for, self.release.contract, self.release.point, draws
        )
        return table, self.release.modelled(drawn, draws)

    def _draws(self, number: int, count: int, which: str) -> Draws:
        return Draws(
            self.seed * count + number, f"{self.release.contract.name} {which}", simulated=True
        )

    def errors(self, marginals: Sequence[Columns], count: int) -> np.ndarray:
        """Steps 2 and 3 so many times: shape (marginals,), the mean over replicates that count a
        marginal, or over all if none does.

        Where the release says nothing of a column it is 1, the most: Z has such columns uniform, as
        every release of it has.
        """
        errors = np.empty((count, len(marginals)))
        counted = np.ones((count, len(marginals)), dtype=bool)
        for number in range(count):
            table, modelled = self._released(self.bins, self._draws(number, count, "errors"))
            for place, columns in enumerate(marginals):
                errors[number, place] = total_variation(
                    shares_of(modelled, columns, self.sizes), marginal(table, columns, self.sizes)
                )
                counted[number, place] = (
                    not modelled.counted or len(columns) < 3 or columns in modelled.counted
                )
        counted |= ~counted.any(axis=0)
        told = [self.release.tells(columns) for columns in marginals]
        return np.where(told, (errors * counted).sum(axis=0) / counted.sum(axis=0), 1.0)

    def scores(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Steps 4 and 5 so many times: what a classifier promises and keeps, each of shape (count,
        measures).
        """
        promised, kept = [], []
        for number in range(count):
            draws = self._draws(number, count, "scores")
            chance, made_up = (
                draws.public("quality-signal", self.release.point.key).generator(),
                self.bins.copy(),
            )
            shuffled = np.flatnonzero(chance.random(len(made_up)) >= (number + 1) / count)
            made_up[shuffled, -1] = made_up[chance.permutation(shuffled), -1]
            bins = self._released(made_up, draws)[1].bins
            model = learned(bins, self.sizes, draws)
            promised.append(scores(model, bins, self.sizes))
            kept.append(scores(model, made_up, self.sizes))
        return np.array(promised), np.array(kept)


_MOST_SETS = 200


@dataclass(frozen=True)
class Trained:
    """What a classifier scores on held-out rows if it is fitted on released rows, and if on real
    ones.
    """

    model: str
    measure: str
    released: float
    real: float


@dataclass(frozen=True)
class Actual:
    """Equations (1) to (3): mean total variation by number of columns, pMSE, and classifiers."""

    total_variation: Mapping[int, float]
    pmse: float
    trained: tuple[Trained, ...]


def actual(release: SimulatedRelease, bins: np.ndarray, split: SplitTable) -> Actual:
    """Compare released rows, given as bins, with real ones.

    Raises:
        PrivacyError: the rows are no benchmark.
    """
    contract, sizes = release.contract, release.sizes
    if not contract.privacy.budget.benchmark:
        raise PrivacyError(
            f"{contract.name}: true errors of a release are an unpaid release; expected a "
            f"contract with `benchmark: true`"
        )
    train, test = (release.method.bins(table, contract) for table in (split.train, split.test))
    chance = stream(0, "quality-benchmark", contract.name, "").generator()
    variation = {}
    for count in range(1, min(3, len(sizes)) + 1):
        if comb(len(sizes), count) <= _MOST_SETS:
            sets = list(combinations(range(len(sizes)), count))
        else:
            sets = [
                tuple(sorted(chance.permutation(len(sizes))[:count].tolist()))
                for _ in range(_MOST_SETS)
            ]
        variation[count] = float(
            np.mean(
                [
                    total_variation(marginal(bins, some, sizes), marginal(train, some, sizes))
                    for some in sets
                ]
            )
        )
    rows = min(len(bins), len(train))
    both = np.vstack(
        [indicators(part[chance.permutation(len(part))[:rows]], sizes) for part in (bins, train)]
    )
    says = classifier().fit(both, np.repeat([1, 0], rows)).predict_proba(both)[:, 1]
    trained = []
    if sizes[-1] > 1 and len(test):
        # a second to import: only where it is called
        from sklearn.ensemble import (
            HistGradientBoostingClassifier,
        )

        trees = max(20, 120 // sizes[-1])
        boosting = HistGradientBoostingClassifier(
            max_iter=trees, max_leaf_nodes=15, early_stopping=False, random_state=0
        )
        for name, model, features in (
            ("logistic regression", classifier(sizes[-1]), indicators),
            ("gradient boosting", boosting, as_numbers),
        ):
            ours, theirs = (
                scores(fitted(model, part, sizes, features), test, sizes, features)
                for part in (bins, train)
            )
            trained += [
                Trained(name, measure, ours[i], theirs[i]) for i, measure in enumerate(MEASURES)
            ]
    return Actual(variation, float(np.mean((says - 0.5) ** 2)), tuple(trained))
