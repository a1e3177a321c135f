"""Marginals of a graphical model over columns that no clique has together.

Guarantee   none spent: post-processing of what was released.
Paper       [KF09] Koller and Friedman, Probabilistic Graphical Models, 10.3.3: queries outside a
            clique.

    (1)  P(x_W, y) = sum over the others of P(x_C, y) prod over k of P(x_Rk | x_Sk, y),   C the
         lowest clique above all those that bring in a column of W, k those between; from the lowest
         k up, and what is not asked for is summed at once

Symbols     of `junction_tree`; W the columns asked for, R_k those that clique k brings in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpicl.tabular.central.graphical_model import GraphicalModel
from dpicl.tabular.central.junction_tree import Scope

Factor = tuple[np.ndarray, Scope]
"""A table, and the column of each of its axes."""


class ModelMarginals:
    """Those of one model, whose conditional shares are computed once."""

    def __init__(self, model: GraphicalModel) -> None:
        self.tree = tree = model.tree
        tables = dict(zip(tree.scopes, tree.views(model.shares), strict=True))
        self._shares: list[Factor] = [
            (tables[*clique.columns, tree.label], (tree.label, *clique.columns))
            for clique in tree.cliques
        ]
        self._given = [
            (_given(table, tuple(axes.index(column) for column in clique.rest)), axes)
            for clique, (table, axes) in zip(tree.cliques, self._shares, strict=True)
        ]
        self._brought_in = {
            column: place for place, clique in enumerate(tree.cliques) for column in clique.rest
        }

    def over(self, columns: Sequence[int]) -> np.ndarray:
        """Shares over these columns and the label, shape (sizes of the columns, the label's):
        equation (1). A column of no clique is uniform.
        """
        label, known = self.tree.label, [column for column in columns if column in self._brought_in]
        lines = [self._line(self._brought_in[column]) for column in known] or [[0]]
        top = max(set.intersection(*map(set, lines)))
        parts: dict[int, list[Factor]] = {
            place: [] for line in lines for place in line if place >= top
        }
        for place in sorted(parts, reverse=True):
            table, axes = self._shares[top] if place == top else self._given[place]
            for more in parts[place]:
                table, axes = _product((table, axes), more)
            clique = self.tree.cliques[place]
            kept = (
                label,
                *(
                    column
                    for column in axes
                    if column in known or (place != top and column in clique.separator)
                ),
            )
            table = table.sum(
                axis=tuple(axis for axis, column in enumerate(axes) if column not in kept)
            )
            if place != top and clique.parent is not None:
                parts[clique.parent].append((table, kept))
        order = [kept.index(column) for column in (*known, label)]
        sizes = [self.tree.sizes[column] for column in (*columns, label)]
        shape = [
            size if column in (*known, label) else 1
            for size, column in zip(sizes, (*columns, label), strict=True)
        ]
        free = math.prod(sizes) // math.prod(shape)
        return np.broadcast_to(table.transpose(order).reshape(shape) / free, sizes)

    def _line(self, place: int) -> list[int]:
        """A clique and all above it."""
        line = [place]
        while (parent := self.tree.cliques[line[-1]].parent) is not None:
            line.append(parent)
        return line


def _given(table: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Shares of what is along these axes given the others; 0 where these have no share, which is
    their part of any product.
    """
    sums = table.sum(axis=axes, keepdims=True)
    return np.divide(table, sums, out=np.zeros_like(table), where=sums > 0)


def _product(one: Factor, other: Factor) -> Factor:
    """Of two tables whose first axes are the label's."""
    axes = (*one[1], *(column for column in other[1] if column not in one[1]))
    return _spread(*one, axes) * _spread(*other, axes), axes


def _spread(table: np.ndarray, axes: Scope, wanted: Scope) -> np.ndarray:
    """The table with axes in this order, those that it lacks of size 1."""
    held = [column for column in wanted if column in axes]
    sizes = iter(table.transpose([axes.index(column) for column in held]).shape)
    return table.transpose([axes.index(column) for column in held]).reshape(
        [next(sizes) if column in axes else 1 for column in wanted]
    )
