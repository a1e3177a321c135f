"""Released rows that keep the relations of a contract.

Rows are drawn until enough of them keep all relations. Of a sum the total is what its parts add up
to, in rows whose total, as it was drawn, lies in the same bin. To leave out the other rows alone
would shift the shares of every column, which were released: so rows are taken by (2), whose weights
bring these back.

Guarantee   none spent: post-processing, by public relations; and of a private row by itself.
Paper       raking: Deming and Stephan 1940; of all distributions with these shares (1) is nearest
            to the released one: Csiszar 1975.

    (1)  Q(x) ~ P(x) [x keeps all relations] prod over columns j of f_j(x_j)
    (2)  a row that keeps them is taken with the probability min(1, prod f_j(x_j) / m)
    (3)  f_j   so that the shares of Q's bins of every column are those of P, of a pool of rows, by
         iterative proportional fitting

Symbols     P the released model; m the largest product in the pool, at most 8 times its mean.
Not covered shares that no rows which keep the relations can have: they are as near as f_j in
            [1/20, 20] brings them. What columns have in common beyond (1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dpicl.contract.models import Contract
from dpicl.contract.relations import Never, Order, Relation, Sum, sums_of
from dpicl.data.conditions import Asked, Condition
from dpicl.data.reading.encode import UNKNOWN
from dpicl.data.values import RowForm
from dpicl.ground.errors import DpiclError, ParameterError
from dpicl.ground.types import MADE_ROWS

_GROWTH, _TRIES, _MOST, _SPARE = 4, 12, 1 << 22, 1.1
"""Rows are drawn anew, more each time, as long as there are too few; at most."""
_POOL = 1 << 19
"""Rows of a pool, at most."""
_SWEEPS, _NEAR = 40, 5e-4
"""Of equation (3): so many at most, until no share is off by more."""
_FURTHEST, _RAREST = 20.0, 8.0
"""Limits of f, and of m."""
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


Draw = Callable[[int], np.ndarray]
"""Codes of so many rows of a model, others for another number."""


@dataclass(frozen=True)
class Raking:
    """Equation (2): by column f, shape (codes,), and m; and the rows of the pool that keep all
    relations.
    """

    factors: Sequence[np.ndarray]
    most: float
    pool: RelatedRows
    share: float
    """Of the pool, what keeps them."""

    @staticmethod
    def of(
        form: RowForm,
        contract: Contract,
        draw: Draw,
        chance: np.random.Generator,
        aims: Mapping[int, np.ndarray],
        *,
        least: int = MADE_ROWS,
        largest: int = _POOL,
        shown: bool = False,
    ) -> Raking:
        """Equation (3).

        Args:
            aims: by column the model's own shares; of others those of the pool.
            least: of the pool so many rows keep the relations, or it is the largest.
            shown: whether numbers are those of demonstrations.
        """
        size = MADE_ROWS
        while True:
            codes = draw(size)
            shares = chance.random((len(codes), len(form.features) + 1))
            pool = kept(form, codes, shares, contract, shown=shown)
            if len(pool.codes) >= least or size >= largest:
                break
            size = min(largest, size * _GROWTH)
        # what is unknown has a place of its own
        bins, before = (form.encoding.decode(rows) + 1 for rows in (pool.codes, codes))
        counts = [
            np.append(0, aims[place]) if place in aims else np.bincount(column)
            for place, column in enumerate(before.T)
        ]
        factors, weights = _raked(bins, counts)
        most = min(weights.max(), _RAREST * weights.mean()) if len(bins) else 1.0
        return Raking(factors, float(most), pool, len(bins) / len(codes))

    def weights(self, bins: np.ndarray) -> np.ndarray:
        """How much rows of bins, shape (rows, columns), count."""
        weights = np.ones(len(bins))
        for place, factor in enumerate(self.factors):
            # of a code that the pool has not, nothing is known
            weights *= np.append(factor, [1.0] * 256)[bins[:, place] + 1]
        return np.minimum(weights, self.most)

    def taken(self, bins: np.ndarray, chance: np.random.Generator) -> np.ndarray:
        """Which rows of bins are taken."""
        return np.flatnonzero(chance.random(len(bins)) * self.most < self.weights(bins))


def _raked(bins: np.ndarray, counts: Sequence[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
    """By column f, and the products of these, so that rows of bins have shares like these counts
    or shares by column.
    """
    factors = [np.ones(len(count)) for count in counts]
    weights = np.ones(len(bins))
    for _ in range(_SWEEPS if len(bins) else 0):
        off = 0.0
        for place, count in enumerate(counts):
            column = bins[:, place]
            now = np.bincount(column, weights, minlength=len(count))
            # bins that no row has which keeps the relations get none
            aim = np.where(now > 0, count, 0.0)
            if not aim.sum() > 0:
                continue
            aim, now = aim / aim.sum(), now / now.sum()
            off = max(off, float(np.abs(aim - now).max()))
            by = np.divide(aim, now, out=np.ones(len(now)), where=now > 0)
            nearer = np.clip(factors[place] * by, 1 / _FURTHEST, _FURTHEST)
            weights *= (nearer / factors[place])[column]
            factors[place] = nearer
        if off < _NEAR:
            break
    return factors, weights


def aims_of(counted: Mapping[tuple[int, ...], np.ndarray]) -> dict[int, np.ndarray]:
    """By column its shares, of a model's shares of what was counted together."""
    aims: dict[int, np.ndarray] = {}
    for columns, shares in counted.items():
        for axis, column in enumerate(columns):
            others = tuple(other for other in range(len(columns)) if other != axis)
            aims.setdefault(column, np.maximum(shares.sum(axis=others), 0.0))
    return aims


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
    related = [places[name] for relation in relations for name in relation.columns]
    # a value that is not known is any one, when it is given out
    keeps = (bins[:, related] != UNKNOWN).all(axis=1)
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
    draw: Draw,
    chance: np.random.Generator,
    *,
    raking: Raking,
    shown: bool = False,
    condition: Condition | None = None,
) -> RelatedRows:
    """So many rows that keep all relations; where few of very many do, some of them several times.

    Args:
        raking: of the release.
        shown: whether numbers are those of demonstrations.
        condition: what the rows that are drawn meet.

    Raises:
        DpiclError: none does.
    """
    size = count
    asked = None if condition is None else condition.asked
    for _ in range(_TRIES):
        codes = draw(size)
        codes = codes[raking.taken(form.encoding.decode(codes), chance)]
        shares = chance.random((len(codes), len(form.features) + 1))
        found = kept(form, codes, shares, contract, shown=shown, asked=asked)
        if len(found.codes) >= count or size >= _MOST:
            break
        needed = math.ceil(size * count / max(1, len(found.codes)) * _SPARE)
        size = min(_MOST, max(size * 2, min(needed, size * _GROWTH**2)))
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
    order = chance.permutation(len(found.codes))  # a model's rows may be sorted
    return found.some(order[np.arange(count) % len(order)])
