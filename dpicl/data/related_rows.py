"""Released rows that keep the relations of a contract.

Rows are drawn until enough of them keep all relations, so that they are those of the released
model given that. Of a sum the total is what its parts add up to, in rows whose total, as it was
drawn, lies in the same bin.

Guarantee   none spent: post-processing, by public relations; and of a private row by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dpicl.contract.models import Contract
from dpicl.contract.relations import Order, Sum
from dpicl.data.values import RowForm
from dpicl.ground.errors import DpiclError

_GROWTH, _TRIES, _MOST = 4, 8, 1 << 22
"""Rows are drawn anew, so many times as many each time, as long as there are too few; at most."""


@dataclass(frozen=True)
class RelatedRows:
    """Rows before they are values.

    Attributes:
        codes, shares: of shape (rows, columns), the label last; of each number what share of its
            bin is below it.
        totals: numbers that are sums, by column, NaN where there is none.
    """

    codes: np.ndarray
    shares: np.ndarray
    totals: Mapping[int, np.ndarray]

    def some(self, which: np.ndarray) -> RelatedRows:
        """Some of the rows, as numpy would take them."""
        totals = {place: total[which] for place, total in self.totals.items()}
        return RelatedRows(self.codes[which], self.shares[which], totals)


def kept(
    form: RowForm, codes: np.ndarray, shares: np.ndarray, contract: Contract, *, shown: bool
) -> RelatedRows:
    """Those rows that keep all relations; `shown`: with the decimal places of demonstrations."""
    meanings = form.meanings
    places = {meaning.column: place for place, meaning in enumerate(meanings)}
    bins = form.encoding.decode(codes)

    def numbers(name: str) -> np.ndarray:
        meaning = meanings[places[name]]
        digits = min(meaning.digits, contract.numbers[name].decimals) if shown else meaning.digits
        return meaning.placed(bins[:, places[name]], shares[:, places[name]], digits)

    keeps = np.ones(len(codes), dtype=bool)
    totals: dict[int, np.ndarray] = {}
    for relation in contract.relations:
        if not {*relation.columns} <= places.keys():
            continue
        if isinstance(relation, Order):
            rising = [totals.get(places[name], numbers(name)) for name in relation.rising]
            beyond = np.greater if relation.or_equal else np.greater_equal
            for low, high in pairwise(rising):
                keeps &= ~beyond(low, high)
        elif isinstance(relation, Sum):
            place = places[relation.total]
            total = np.sum([numbers(name) for name in relation.parts], axis=0)
            edges = meanings[place].edges
            known = ~np.isnan(total) & (bins[:, place] < len(edges) - 1)
            code = np.searchsorted(edges[1:-1], np.nan_to_num(total), side="right")
            fits = (code == bins[:, place]) & (total >= edges[0]) & (total <= edges[-1])
            keeps &= fits | ~known
            totals[place] = np.where(known, total, np.nan)
        else:
            together = np.ones(len(codes), dtype=bool)
            for name, category in relation.never.items():
                meaning = meanings[places[name]]
                named = [category in some for some in meaning.categories]
                together &= np.append(named, False)[bins[:, places[name]]]
            keeps &= ~together
    return RelatedRows(codes, shares, totals).some(np.flatnonzero(keeps))


def drawn_rows(
    form: RowForm,
    contract: Contract,
    count: int,
    draw: Callable[[int], np.ndarray],
    chance: np.random.Generator,
    *,
    shown: bool = False,
) -> RelatedRows:
    """So many rows that keep all relations; where few of very many do, some of them several times.

    Args:
        draw: gives codes of so many rows, others for another number.
        shown: whether numbers are those of demonstrations.

    Raises:
        DpiclError: none does.
    """
    size = count
    for _ in range(_TRIES):
        codes = draw(size)
        shares = chance.random((len(codes), len(form.features) + 1))
        found = kept(form, codes, shares, contract, shown=shown)
        if len(found.codes) >= count or size >= _MOST:
            break
        size = min(_MOST, size * _GROWTH)
    if not len(found.codes):
        raise DpiclError(
            f"{contract.name}: no row of the release keeps all `relations`; expected a larger "
            f"epsilon, or relations that most rows keep"
        )
    return found.some(np.arange(count) % len(found.codes))
