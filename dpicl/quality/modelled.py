"""What a release, or one that is simulated, is made into for its quality: rows as they are given
out, and shares and means that are those of such rows.

Guarantee   none spent: post-processing of what was released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from dpicl.contract.models import Contract
from dpicl.contract.relations import Order, Sum
from dpicl.data.related_rows import Raking
from dpicl.data.values import RowForm
from dpicl.ground.errors import DpiclError
from dpicl.ground.types import MADE_ROWS, ReleasedRows
from dpicl.quality.measures import Columns, marginal, total_variation

_FEW = 0.1
"""Of a model's rows that keep all relations."""
ENOUGH, MOST_DRAWN = 1 << 12, 1 << 16
"""Rows of a simulated release that keep the contract's relations, and those they are taken from."""


@dataclass(frozen=True)
class Modelled:
    """Bins of rows that are derived from a release, as they are given out; shares of what it
    counted, the model's own where all of its rows are; and, where some are not, by column of a
    relation the means of its bins.
    """

    bins: np.ndarray
    counted: Mapping[Columns, np.ndarray]
    means: Mapping[Columns, np.ndarray] = field(default_factory=dict)


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


def related_model(
    form: RowForm,
    raking: Raking,
    counted: Mapping[Columns, np.ndarray],
    contract: Contract,
    chance: np.random.Generator,
) -> Modelled:
    """Of a contract with relations: rows of the pool, each as often as it counts.

    Args:
        counted: the model's own shares, of all of its rows.

    Raises:
        DpiclError: no row of the pool keeps the relations.
    """
    bins = form.encoding.decode(raking.pool.codes)
    if not len(bins):
        raise DpiclError(
            f"{contract.name}: no row of a release like this one keeps all `relations`; expected "
            f"a larger epsilon, or relations that most rows keep"
        )
    weights, sizes = raking.weights(bins), form.encoding.bin_counts
    until = np.cumsum(weights)
    count = min(MADE_ROWS, len(bins))
    at = (np.arange(count) + chance.random()) / count * until[-1]
    often = chance.permutation(np.searchsorted(until[:-1], at, side="right"))
    related = {name for relation in contract.relations for name in relation.columns}
    return Modelled(
        bins[often],
        {columns: _shares(bins, weights, columns, sizes) for columns in counted},
        {
            (place,): _means(form, raking, place)
            for place, meaning in enumerate(form.meanings)
            if meaning.column in related and not meaning.categories
        },
    )


def left_out(
    contract: Contract, form: RowForm, usual: ReleasedRows, given: ReleasedRows, raking: Raking
) -> str:
    """What relations do to the rows of a model, in a sentence.

    Args:
        usual, given: its rows, and those that are given out.
    """
    bins = [form.encoding.decode(rows) for rows in (usual.codes, given.codes)]
    sizes = form.encoding.bin_counts
    off, name = max(
        (total_variation(*(marginal(some, (place,), sizes) for some in bins)), meaning.column)
        for place, meaning in enumerate(form.meanings)
    )
    sums = [{*one.columns} for one in contract.relations if isinstance(one, Sum)]
    steps = (
        pair
        for one in contract.relations
        if isinstance(one, Order)
        for pair in pairwise(one.rising)
    )
    apart = next((pair for pair in steps if not any({*pair} <= some for some in sums)), None)
    advice = (
        f": rows do not keep how far {apart[1]} is from {apart[0]}. Where that matters state it as "
        f"a column of its own, in place of this order: `total: {apart[1]}, parts: [{apart[0]}, …]`"
        if apart
        else ""
    )
    few = " Few do: are they right for these columns?" * (raking.share < _FEW)
    return (
        f"Of the rows of its model {raking.share:.0%} keep the contract's `relations`.{few} Others "
        f"are left out, and shares of the bins of single columns are brought back, to within "
        f"{off:.3f} ({name}): `quality()` is about rows as they are given out. What columns have "
        f"in common may differ more{advice}."
    )


def _shares(
    bins: np.ndarray, weights: np.ndarray, columns: Sequence[int], sizes: Sequence[int]
) -> np.ndarray:
    """Shares of the cells of some columns among rows of bins that count so much."""
    shape = tuple(sizes[column] for column in columns)
    cells = np.ravel_multi_index(tuple(bins[:, column] for column in columns), shape)
    counts = np.bincount(cells, weights, minlength=int(np.prod(shape)))
    return (counts / weights.sum()).reshape(shape)


def _means(form: RowForm, raking: Raking, place: int) -> np.ndarray:
    """Of a column of numbers the mean of each bin among rows as they are given out, NaN of a
    missing one; that of any row where none of the pool is in it.
    """
    meaning, rows = form.meanings[place], raking.pool
    bins = form.encoding.decode(rows.codes)
    weights, column = raking.weights(bins), bins[:, place]
    means = meaning.means(meaning.count)
    numbers = meaning.placed(column, rows.shares[:, place], meaning.digits)
    if place in rows.totals:
        numbers = np.where(np.isnan(rows.totals[place]), numbers, rows.totals[place])
    counts = np.bincount(column, weights, minlength=len(means))
    sums = np.bincount(column, weights * np.nan_to_num(numbers), minlength=len(means))
    there = (counts > 0) & ~np.isnan(means)
    return np.where(there, sums / np.where(there, counts, 1.0), means)
