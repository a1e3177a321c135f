"""A junction tree of columns, with the label in every clique: marginals of a distribution that
factors over it, and rows from it.

Guarantee   none spent: post-processing of what was released.
Paper       [KF09] Koller and Friedman, Probabilistic Graphical Models, 9.4 and 10.2: elimination
            and belief propagation.

    (1)  C_1, C_2, ..  <- columns eliminated, that which joins the fewest others first; the tree
         joins the largest separators
    (2)  P(x, y) = exp(sum over scopes s of theta_s(x_s)) / Z,   every scope in a clique
    (3)  m_k(x_S, y) = log sum over x_R of exp(theta_k + messages of children),   from leaves to the
         root, R = C_k - S
         P(x_Ck, y) = exp(theta_k + messages - m_k) P(x_S, y),                    from the root to
         leaves

Symbols     a scope is the columns of one table; S those that a clique shares with its parent; y the
            label, one category where there is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from types import MappingProxyType

import numpy as np

from dpicl.data.local.estimate import drawn

Scope = tuple[int, ...]
"""Columns in rising order; the label is the last of all."""


@dataclass(frozen=True)
class Clique:
    """Columns but the label in rising order, the place of the parent, and which columns both have;
    the root's parent is None.
    """

    columns: Scope
    parent: int | None
    separator: Scope

    @property
    def rest(self) -> Scope:
        """Columns that the parent has not."""
        return tuple(column for column in self.columns if column not in self.separator)


@dataclass(frozen=True)
class JunctionTree:
    """Cliques, parents first, and the scopes whose potentials and marginals are one vector, table
    after table: those that were asked for, then every other clique with the label.

    A table's axes are the label's, where the scope has it, then those of its other columns. A
    column of no scope is in no clique.
    """

    sizes: tuple[int, ...]
    scopes: tuple[Scope, ...]
    cliques: tuple[Clique, ...]

    @staticmethod
    def of(sizes: Sequence[int], scopes: Iterable[Scope]) -> JunctionTree:
        """Equation (1)."""
        return _tree(tuple(sizes), tuple(scopes))

    @property
    def label(self) -> int:
        """The label's column."""
        return len(self.sizes) - 1

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of every scope's table."""
        return [tuple(self.sizes[column] for column in self.axes(scope)) for scope in self.scopes]

    def axes(self, scope: Scope) -> Scope:
        """The column of every axis of a scope's table."""
        return tuple(sorted(scope, key=lambda column: (column != self.label, column)))

    @cached_property
    def starts(self) -> list[int]:
        """Where each table begins in the vector, and where the last one ends."""
        return [0, *np.cumsum([math.prod(shape) for shape in self.shapes]).tolist()]

    def views(self, vector: np.ndarray) -> dict[Scope, np.ndarray]:
        """The tables of such a vector."""
        return {
            scope: vector[start : start + math.prod(shape)].reshape(shape)
            for scope, start, shape in zip(self.scopes, self.starts, self.shapes, strict=False)
        }

    @cached_property
    def homes(self) -> list[int]:
        """The smallest clique that has each scope."""
        sizes = [
            math.prod(self.sizes[column] for column in clique.columns) for clique in self.cliques
        ]
        order = sorted(range(len(sizes)), key=sizes.__getitem__)
        return [
            next(k for k in order if {*scope} - {self.label} <= {*self.cliques[k].columns})
            for scope in self.scopes
        ]

    def broadcast(self, scope: Scope, clique: Clique) -> tuple[int, ...]:
        """The shape in which a scope's table fits that of a clique."""
        columns = (self.label, *clique.columns)
        return tuple(self.sizes[column] if column in scope else 1 for column in columns)

    def _axes(self, scope: Scope, clique: Clique) -> tuple[int, ...]:
        """Axes of a clique's tables, of which there are as many as fits, that are summed for one
        over this scope.
        """
        return tuple(
            axis
            for axis, column in enumerate((self.label, *clique.columns), 1)
            if column not in scope
        )

    @cached_property
    def _plan(self) -> _Plan:
        up = []
        for clique in self.cliques:
            above = self.cliques[clique.parent] if clique.parent is not None else clique
            shared = (*clique.separator, self.label)
            up.append(
                (
                    self._axes(shared, clique),
                    self.broadcast(shared, above),
                    self._axes(shared, above),
                    self.broadcast(shared, clique),
                )
            )
        tables = [
            (
                slice(start, end),
                home,
                self.broadcast(scope, self.cliques[home]),
                self._axes(scope, self.cliques[home]),
            )
            for (start, end), scope, home in zip(
                pairwise(self.starts), self.scopes, self.homes, strict=True
            )
        ]
        return _Plan(
            [self.broadcast((*clique.columns, self.label), clique) for clique in self.cliques],
            tables,
            up,
        )

    def marginals(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Equation (3) of each of some potentials, shape (fits, numbers): shares of every scope
        likewise, and log Z, shape (fits,). Of small tables calls take longer than sums: one for
        all.
        """
        plan, fits = self._plan, len(theta)
        tables = [np.zeros((fits, *shape)) for shape in plan.shapes]
        for part, home, shape, _ in plan.tables:
            tables[home] += theta[:, part].reshape(fits, *shape)
        of_label = np.zeros((fits, self.sizes[-1]))
        for place in range(len(tables) - 1, -1, -1):
            out, shape, _, _ = plan.up[place]
            parent = self.cliques[place].parent
            most = np.maximum.reduce(tables[place], axis=out, keepdims=True)
            weights = np.exp(tables[place] - most)
            sums = np.add.reduce(weights, axis=out, keepdims=True)
            tables[place] = weights / sums  # of the rest given the separator and the label
            message = most + np.log(sums)
            if parent is None:
                of_label += message.reshape(fits, -1)
            else:
                tables[parent] += message.reshape(fits, *shape)
        normaliser = np.logaddexp.reduce(of_label, axis=1)
        of_label = np.exp(of_label - normaliser[:, np.newaxis])
        for place, clique in enumerate(self.cliques):
            _, _, out, shape = plan.up[place]
            above = (
                of_label
                if clique.parent is None
                else np.add.reduce(tables[clique.parent], axis=out)
            )
            tables[place] *= above.reshape(fits, *shape)
        shares = np.empty_like(theta)
        for part, home, _, out in plan.tables:
            shares[:, part] = (
                np.add.reduce(tables[home], axis=out) if out else tables[home]
            ).reshape(fits, -1)
        return shares, normaliser

    def luck(self, count: int, chance: np.random.Generator) -> Luck:
        """What decides so many rows beside the shares."""
        uniform = [chance.random(count) for _ in range(1 + len(self.cliques))]
        apart = {*range(self.label)}.difference(*self.scopes)
        return Luck(
            uniform, {column: chance.integers(self.sizes[column], size=count) for column in apart}
        )

    def rows(self, shares: np.ndarray, luck: Luck) -> np.ndarray:
        """Rows drawn from the distribution that has these shares, clique after clique from the
        label on: shape (count, columns), int64. A column of no scope is drawn uniformly.
        """
        tables = self.views(shares)
        of_root, *of_cliques = luck.uniform
        rows = np.zeros((len(of_root), len(self.sizes)), dtype=np.int64)
        root = tables[*self.cliques[0].columns, self.label]
        of_label = np.cumsum(root.reshape(len(root), -1).sum(axis=1))
        rows[:, self.label] = drawn(
            of_label[np.newaxis], np.zeros(len(rows), dtype=np.int64), of_root
        )
        for clique, uniform in zip(self.cliques, of_cliques, strict=True):
            given = (self.label, *clique.separator)
            axes = [
                (self.label, *clique.columns).index(column) for column in (*given, *clique.rest)
            ]
            shape = [self.sizes[column] for column in given]
            sizes = [self.sizes[column] for column in clique.rest]
            table = (
                tables[*clique.columns, self.label].transpose(axes).reshape(math.prod(shape), -1)
            )
            cells = np.ravel_multi_index(tuple(rows[:, column] for column in given), shape)
            drawn_cells = drawn(np.cumsum(table, axis=1), cells, uniform)
            for column, codes in zip(
                clique.rest, np.unravel_index(drawn_cells, sizes), strict=True
            ):
                rows[:, column] = codes
        for column, codes in luck.apart.items():
            rows[:, column] = codes
        return rows

    def label_chances(self, shares: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """How likely each label is, given the other columns of rows, shape (rows, columns): shape
        (rows, labels).
        """
        tables = self.views(shares)
        logs = np.zeros((len(rows), self.sizes[-1]))
        for clique in self.cliques:
            table = np.maximum(tables[*clique.columns, self.label], np.finfo(float).tiny)
            rest = tuple(1 + clique.columns.index(column) for column in clique.rest)
            given = (
                table / table.sum(axis=rest, keepdims=True) if clique.parent is not None else table
            )
            logs += np.moveaxis(np.log(given), 0, -1)[
                tuple(rows[:, column] for column in clique.columns)
            ]
        return in_proportion(logs)


def in_proportion(heights: np.ndarray) -> np.ndarray:
    """In proportion to their powers of e, of every row; scipy's takes several times as long for few
    rows.
    """
    weights = np.exp(heights - heights.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Luck:
    """Randomness of rows: for the label and each clique numbers in 0..1 of shape (rows,), and codes
    of columns that are in none.
    """

    uniform: Sequence[np.ndarray]
    apart: Mapping[int, np.ndarray]


@dataclass(frozen=True)
class _Plan:
    """Shapes and axes of equation (3), which are the same for all potentials.

    Attributes:
        shapes: of every clique's table.
        tables: of every scope its part of the vector, its clique, its shape there, and the axes
            that are summed for it.
        up: of every clique the axes of its own table that are summed for the parent, the shape of
            these sums there, the axes of the parent's table that are summed for it, and the shape
            of these sums here.
    """

    shapes: list[tuple[int, ...]]
    tables: list[tuple[slice, int, tuple[int, ...], tuple[int, ...]]]
    up: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]]


@lru_cache(64)
def _tree(sizes: tuple[int, ...], scopes: tuple[Scope, ...]) -> JunctionTree:
    """Equation (1): the same one again where the same columns are counted again, as in fits to
    other noise.
    """
    cliques = _joined(
        [_members(clique) for clique in _eliminated(sizes, together(len(sizes) - 1, scopes))]
    )
    whole = ((*clique.columns, len(sizes) - 1) for clique in cliques)
    return JunctionTree(
        sizes, (*scopes, *(scope for scope in whole if scope not in scopes)), cliques
    )


def largest_clique(sizes: Sequence[int], beside: dict[int, int]) -> int:
    """Cells of the largest table of equation (1), the label's categories among them; empties
    `beside`.

    Columns that join no others go before any that do, in whatever order they come: they need no
    costs.
    """
    cliques, left = list[int](), list(beside)
    while left:
        column = left.pop()
        if column in beside and all(
            beside[column] & ~beside[other] == 1 << other for other in _members(beside[column])
        ):
            cliques.append(1 << column | beside[column])
            left.extend(_members(beside[column]))
            _remove(column, beside)
    cliques += _eliminated(sizes, beside)
    return sizes[-1] * max(
        (math.prod([sizes[column] for column in _members(clique)]) for clique in cliques), default=1
    )


def fits(sizes: Sequence[int], scope: Scope, beside: Mapping[int, int], most: int) -> bool:
    """Whether the largest table of equation (1) has at most so many cells once the columns of this
    scope are together too; in the others', `beside`, it has.

    Columns that none of the scope's leads to stay as they are. All columns that are led to make the
    largest clique at most: where that fits, nothing has to be eliminated.
    """
    label = len(sizes) - 1
    joined = together(label, [scope], beside)
    reached, left = 0, [column for column in scope if column != label]
    while left:
        column = left.pop()
        if not reached >> column & 1:
            reached |= 1 << column
            left.extend(_members(joined[column] & ~reached))
    columns = _members(reached)
    if sizes[-1] * math.prod([sizes[column] for column in columns]) <= most:
        return True
    return largest_clique(sizes, {column: joined[column] for column in columns}) <= most


def together(
    label: int, scopes: Iterable[Scope], before: Mapping[int, int] = MappingProxyType({})
) -> dict[int, int]:
    """Which columns a column is together with in some scope, or was before; sets of columns are
    bits of a number.
    """
    beside = dict(before)
    for scope in scopes:
        columns = sum(1 << column for column in scope if column != label)
        for column in _members(columns):
            beside[column] = (beside.get(column, 0) | columns) & ~(1 << column)
    return beside


def _remove(column: int, beside: dict[int, int]) -> int:
    """Join the others that a column is beside; returns them."""
    near = beside.pop(column)
    for other in _members(near):
        beside[other] = (beside[other] | near) & ~(1 << column | 1 << other)
    return near


def _eliminated(sizes: Sequence[int], beside: dict[int, int]) -> list[int]:
    """Cliques of a triangulated graph, none inside another; empties `beside`."""

    def cost(column: int) -> tuple[int, int, int]:
        """Twice the pairs that it joins, cells of its clique."""
        near = beside[column]
        others = _members(near)
        pairs = sum((near & ~beside[other]).bit_count() - 1 for other in others)
        return pairs, sizes[column] * math.prod([sizes[other] for other in others]), column

    cliques: list[int] = []
    costs = {column: cost(column) for column in beside}
    while beside:
        pairs, _, first = min(costs.values())
        del costs[first]
        changed = near = _remove(first, beside)
        # where it joins none, others' neighbours are joined as before
        for other in _members(near if pairs else 0):
            changed |= beside[other]
        costs |= {column: cost(column) for column in _members(changed)}
        clique = near | 1 << first
        if not any(clique & known == clique for known in cliques):
            cliques.append(clique)
    return cliques


@lru_cache(1 << 16)
def _members(columns: int) -> Scope:
    """Places of bits, in rising order."""
    members = []
    while columns:
        lowest = columns & -columns
        members.append(lowest.bit_length() - 1)
        columns ^= lowest
    return tuple(members)


def _joined(cliques: Sequence[Scope]) -> tuple[Clique, ...]:
    """A spanning tree of the largest separators, parents first; of no clique one without columns,
    for the label.
    """
    left = [set(clique) for clique in cliques[1:]]
    joined = [Clique(cliques[0] if cliques else (), None, ())]
    best = [(len(clique & {*joined[0].columns}), 0) for clique in left]
    while left:
        at = max(range(len(left)), key=lambda place: (best[place][0], -place))
        clique = left.pop(at)
        _, parent = best.pop(at)
        joined.append(
            Clique(tuple(sorted(clique)), parent, tuple(sorted(clique & {*joined[parent].columns})))
        )
        best = [
            max(known, (len(other & clique), len(joined) - 1), key=lambda pair: pair[0])
            for known, other in zip(best, left, strict=True)
        ]
    return tuple(joined)
