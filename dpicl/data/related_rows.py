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
from dpicl.contract.relations import Never, Order, Relation, Sum, sums_of
from dpicl.data.conditions import Asked, Condition
from dpicl.data.values import RowForm
from dpicl.ground.errors import DpiclError, ParameterError

_GROWTH, _TRIES, _MOST = 4, 8, 1 << 22
"""Rows are drawn anew, so many times as many each time, as long as there are too few; at most."""
_PLACES = 9
"""Decimal places of sums: 0.1 + 0.2 is 0.3."""


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


def summed(form: RowForm, contract: Contract) -> list[str]:
    """Columns of these rows whose numbers are the sums of others."""
    return [relation.total for relation in sums_of(_relations(form, contract))]


def _relations(form: RowForm, contract: Contract) -> list[Relation]:
    """Those whose columns are all released."""
    released = {meaning.column for meaning in form.meanings}
    return [relation for relation in contract.relations if {*relation.columns} <= released]


def kept(
    form: RowForm,
    codes: np.ndarray,
    shares: np.ndarray,
    contract: Contract,
    *,
    shown: bool,
    asked: Mapping[str, Asked] | None = None,
) -> RelatedRows:
    """Those rows that keep all relations; `shown`: with the decimal places of demonstrations;
    `asked`: of rows on a condition, which sums meet too.
    """
    meanings = form.meanings
    # of parts of one column the first is given out
    places = {meaning.column: place for place, meaning in reversed([*enumerate(meanings)])}
    bins = form.encoding.decode(codes)
    relations = _relations(form, contract)
    keeps = np.ones(len(codes), dtype=bool)
    totals: dict[int, np.ndarray] = {}

    def digits(name: str) -> int:
        at_most = contract.numbers[name].decimals if shown else _PLACES
        return min(meanings[places[name]].digits, at_most)

    def numbers(name: str) -> np.ndarray:
        """As they are given out."""
        place = places[name]
        drawn = meanings[place].placed(
            bins[:, place], shares[:, place], digits(name) if shown else meanings[place].digits
        )
        total = totals.get(place)
        return drawn if total is None else np.where(np.isnan(total), drawn, total)

    for sum_ in sums_of(relations):
        place = places[sum_.total]
        meaning, edges = meanings[place], meanings[place].edges
        total = np.round(
            np.sum([numbers(name) for name in sum_.parts], axis=0),
            max(map(digits, sum_.parts)),
        )
        known = ~np.isnan(total) & (bins[:, place] < len(edges) - 1)
        code = np.searchsorted(edges[1:-1], np.nan_to_num(total), side="right")
        fits = (code == bins[:, place]) & (total >= edges[0]) & (total <= edges[-1])
        if meaning.number.grain:
            fits &= total == np.rint(total)
        keeps &= fits | ~known
        totals[place] = np.where(known, total, np.nan)
        if asked and sum_.total in asked:
            keeps &= asked[sum_.total].meets(numbers(sum_.total))

    def has(name: str, category: str) -> np.ndarray:
        named = [category in some for some in meanings[places[name]].categories]
        return np.append(named, False)[bins[:, places[name]]]

    for relation in relations:
        if not isinstance(relation, Sum):
            keeps &= ~_breaks(relation, numbers, has)
    return RelatedRows(codes, shares, totals).some(np.flatnonzero(keeps))


def _breaks(
    relation: Order | Never,
    numbers: Callable[[str], np.ndarray],
    has: Callable[[str, str], np.ndarray],
) -> np.ndarray:
    if isinstance(relation, Never):
        return np.all([has(*stated) for stated in relation.never.items()], axis=0)
    beyond = np.greater if relation.or_equal else np.greater_equal
    rising = [numbers(name) for name in relation.rising]
    return np.any([beyond(low, high) for low, high in pairwise(rising)], axis=0)


def drawn_rows(
    form: RowForm,
    contract: Contract,
    count: int,
    draw: Callable[[int], np.ndarray],
    chance: np.random.Generator,
    *,
    shown: bool = False,
    condition: Condition | None = None,
) -> RelatedRows:
    """So many rows that keep all relations; where few of very many do, some of them several times.

    Args:
        draw: gives codes of so many rows, others for another number.
        shown: whether numbers are those of demonstrations.
        condition: what the rows that are drawn meet.

    Raises:
        DpiclError: none does.
    """
    size = count
    asked = None if condition is None else condition.asked
    for _ in range(_TRIES):
        codes = draw(size)
        shares = chance.random((len(codes), len(form.features) + 1))
        found = kept(form, codes, shares, contract, shown=shown, asked=asked)
        if len(found.codes) >= count or size >= _MOST:
            break
        size = min(_MOST, size * _GROWTH)
    if not len(found.codes) and condition:
        raise ParameterError(
            "where",
            condition.words,
            f"a condition that a row can meet: of {size:,} rows that were drawn for it none keeps "
            f"all `relations` of {contract.name}",
        )
    if not len(found.codes):
        raise DpiclError(
            f"{contract.name}: no row of the release keeps all `relations`; expected a larger "
            f"epsilon, or relations that most rows keep"
        )
    return found.some(np.arange(count) % len(found.codes))
