"""What a release says of its columns and of pairs of them: shares of rows by bin, and how far they
may be off.

Guarantee   none spent: post-processing of what was released.

    (1)  bar of a bin   +- t root mean square of (share released - share of the rows), of releases
         simulated from this one (`replicates`), t of as many degrees of freedom: 90 %, if errors
         are normal
    (2)  pairs          those with the largest mutual information among released rows

Symbols     a bin is one category, a range of numbers, or a missing value.
Not covered averages, which have no shares; what binning and the model leave out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import stdtrit

from dpicl.data.values import Meaning
from dpicl.ground.errors import ParameterError, one_of
from dpicl.ground.progress import Update, counter
from dpicl.quality.measures import Columns, marginal
from dpicl.quality.replicates import Replicates
from dpicl.quality.worth import LEVEL, ReleasePoint


@dataclass(frozen=True)
class Shown:
    """Shares of rows in the bins of a column, or in the cells of two.

    Attributes:
        columns: their names.
        bins: names of the bins of each column.
        shares: of released rows, of every cell, those of the last column's bins beside each other.
        errors: equation (1), in the same order.
        ends: of a column of numbers where its bins begin, and where the last one ends.
        end_names: the same as people write them.
        true: of benchmarks the shares of the true rows, in the order of `shares`.
    """

    columns: tuple[str, ...]
    bins: tuple[tuple[str, ...], ...]
    shares: tuple[float, ...]
    errors: tuple[float, ...]
    ends: tuple[float, ...] = ()
    end_names: tuple[str, ...] = ()
    true: tuple[float, ...] = ()

    def table(self, values: Sequence[float]) -> np.ndarray:
        """Shares or errors in the shape of the columns."""
        return np.reshape(values, [len(bins) for bins in self.bins])


@dataclass(frozen=True)
class Fitted:
    """How good a classifier is on held-out rows that is fitted on released or on true rows."""

    auc: float | None
    accuracy: float


@dataclass(frozen=True)
class Truth:
    """Of a release of a benchmark, whose rows are public: a few true rows, logistic regression on
    released and on true rows, and how many held-out rows it was asked.
    """

    rows: tuple[dict[str, str], ...]
    on_released: Fitted
    on_true: Fitted
    held_out: int


@dataclass(frozen=True)
class Worth:
    """Of one release: a few of its rows as texts, sentences on its quality, its columns, and what
    is true where that is public.
    """

    rows: tuple[dict[str, str], ...]
    told: tuple[str, ...]
    columns: tuple[Shown, ...]
    truth: Truth | None = None


def shown(
    point: ReleasePoint,
    drawn: Any,
    columns: Sequence[str] | None,
    pairs: int,
    simulations: int,
    progress: Update = lambda done, total: None,
) -> list[Shown]:
    """Columns in the contract's order, then pairs.

    Args:
        drawn: as the method's `decode` gives it.
        columns: their names; all if None, and the label.
        pairs: so many at most, among these columns.
        progress: is given how many simulations are done, and of how many.

    Raises:
        ParameterError: a name is no column of released rows.
    """
    again = Replicates(point, drawn, counter(progress, simulations))
    form = point.method.form(again.binned.contract, point.asked)
    meanings = form.meanings
    names = [meaning.column for meaning in meanings]
    for name in columns or ():
        if name not in names:
            raise ParameterError("columns", name, one_of(name, names, " (columns of the release)"))
    chosen = [place for place, name in enumerate(names) if columns is None or name in columns]
    scored = {pair: _information(again, pair) for pair in combinations(chosen, 2)}
    best = sorted(scored, key=lambda pair: -scored[pair])[:pairs]
    some: list[Columns] = [*((place,) for place in chosen), *best]
    far = float(stdtrit(simulations, (1 + LEVEL) / 2))
    return [
        Shown(
            tuple(names[column] for column in cells),
            tuple(meanings[column].names for column in cells),
            tuple(again.shares(cells).ravel().tolist()),
            tuple((far * error).ravel().tolist()),
            *_ends([meanings[column] for column in cells]),
        )
        for cells, error in zip(some, again.deviations(some, simulations), strict=True)
    ]


def beside_truth(
    point: ReleasePoint, drawn: Any, columns: Sequence[str], true: np.ndarray
) -> list[Shown]:
    """Some columns of a release of a benchmark, whose true rows are given as bins: no errors, as
    what is true stands beside.
    """
    again = Replicates(point, drawn)
    sizes = again.sizes
    return [
        Shown(
            (meaning.column,),
            (meaning.names,),
            tuple(again.shares((place,)).tolist()),
            (0.0,) * sizes[place],
            *_ends([meaning]),
            tuple(marginal(true, (place,), sizes).tolist()),
        )
        for place, meaning in enumerate(again.form.meanings)
        if meaning.column in columns
    ]


def _ends(meanings: Sequence[Meaning]) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Of the bins of a single column of numbers; none of others."""
    if len(meanings) > 1 or meanings[0].categories:
        return (), ()
    return tuple(map(float, meanings[0].ends)), meanings[0].end_names


def _information(again: Replicates, pair: Columns) -> float:
    """Of one column about another, in nats, among released rows."""
    shares = marginal(again.model.bins, pair, again.sizes)
    apart = shares.sum(axis=1, keepdims=True) * shares.sum(axis=0, keepdims=True)
    logs = np.log(shares / np.where(apart, apart, 1), out=np.zeros_like(shares), where=shares > 0)
    return float((shares * logs).sum())
