"""Rows of a graphical model that meet a condition, without drawing those that do not.

Guarantee   none spent: post-processing of what was released.
Paper       [KF09] Koller and Friedman, Probabilistic Graphical Models, 10.3: evidence reduces the
            factors of its columns.

    (1)  Q(x) = P(x) prod over columns j of w_j(x_j) / m      m its sum over all rows
    (2)  cliques, parents first, hold P(rest | separator, label), and the weights of some; Q by
         belief propagation

Symbols     w_j(c) how likely a row whose column j has code c meets what is asked of that column; m
            the share of rows that meet all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpicl.data.central.graphical_model import GraphicalModel
from dpicl.ground.errors import ParameterError

Weights = Mapping[int, np.ndarray]
"""w by column, shape (codes,), in [0, 1]; a column that is not asked about has none."""
_NEVER = -1e4
"""log 0, which sums stand."""


@dataclass(frozen=True)
class Conditional:
    """Equation (1); `apart` are cumulative shares of columns that are in no clique."""

    model: GraphicalModel
    apart: Mapping[int, np.ndarray]

    @staticmethod
    def of(model: GraphicalModel, weights: Weights) -> Conditional:
        """Raises ParameterError: no row meets the condition."""
        tree, label = model.tree, model.tree.label
        tables = tree.views(model.shares)
        theta = np.zeros(tree.starts[-1])
        views = tree.views(theta)
        asked = dict(weights)
        logs = {column: _log(weight) for column, weight in weights.items()}
        for place, clique in enumerate(tree.cliques):
            scope = (*clique.columns, label)
            axes = tree.axes(scope)
            table = tables[scope]
            if place:
                rest = tuple(axes.index(column) for column in clique.rest)
                sums = table.sum(axis=rest, keepdims=True)
                table = np.divide(table, sums, out=np.zeros_like(table), where=sums > 0)
            views[scope] += _log(table)
            for column in {*axes} & {*asked}:
                shape = [-1 if axis == column else 1 for axis in axes]
                views[scope] += logs[column].reshape(shape)
                del asked[column]
        shares, normaliser = tree.marginals(theta[np.newaxis])
        apart = {column: np.cumsum(weight) for column, weight in asked.items()}
        if normaliser[0] < _NEVER / 2 or any(not sums[-1] > 0 for sums in apart.values()):
            raise no_row()
        return Conditional(GraphicalModel(tree, shares[0], theta), apart)

    def rows(self, count: int, chance: np.random.Generator) -> np.ndarray:
        """Rows drawn from Q: shape (count, columns), int64."""
        rows = self.model.rows(count, chance)
        for column, sums in self.apart.items():
            rows[:, column] = np.searchsorted(sums, chance.random(count) * sums[-1], side="right")
        return rows


def no_row() -> ParameterError:
    """What a condition is refused by that has no mass."""
    met = "one that some rows of it meet"
    return ParameterError("where", "a condition that no row of the released model meets", met)


def _log(shares: np.ndarray) -> np.ndarray:
    return np.log(shares, out=np.full(shares.shape, _NEVER), where=shares > 0)
