"""A tree of columns below the label: a model of tables with many columns, from three columns at a
time.

Guarantee   none spent: post-processing of what was released.
Paper       [FGG97] Friedman, Geiger and Goldszmidt 1997 (tree-augmented naive Bayes); [CL68] Chow
            and Liu.

    (1)  pi_ij = log-linear estimate over columns i, j and the label y
    (2)  T = maximum spanning tree over I(i; j | y) under (1)
    (3)  P(x, y) = P(y) prod over i of P(x_i | x_parent(i), y),   parent in T, none for its root

Where no report covers two columns, or they have more than 4,096 cells with the label, (1) makes
them independent given the label, I is 0, and (3) is naive Bayes. Work and memory grow with the
pairs of columns, not with the cells of the table.

Symbols     I mutual information of columns i and j within a label, in nats; y has one category
            where there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np

from dpicl.tabular.local.log_linear import log_linear
from dpicl.tabular.local.observed import Observed, Reported

MOST_CELLS = 1 << 12
"""Of two columns and the label: of more, whose estimate is long in the making, local reports say
next to nothing.
"""
_EDGE = 1.0
"""Added to all mutual informations: a spanning tree of a sparse matrix takes next to nothing for no
edge.
"""


@dataclass(frozen=True)
class Tree:
    """The parent of every column, parents first, and shares over (parent, column, label); a root is
    its own parent.
    """

    label: int
    parents: Mapping[int, int]
    shares: Mapping[int, np.ndarray]

    def rows(self, count: int, chance: np.random.Generator) -> np.ndarray:
        """Rows drawn from equation (3), column after column: shape (count, columns), int64."""
        rows = np.zeros((count, self.label + 1), dtype=np.int64)
        of_label = self.shares[next(iter(self.parents))].sum(axis=(0, 1))
        rows[:, self.label] = drawn(
            np.cumsum(of_label)[np.newaxis], np.zeros(count, dtype=np.int64), chance.random(count)
        )
        for column, parent in self.parents.items():
            cumulative = np.cumsum(self.shares[column], axis=1).swapaxes(1, 2)
            above = 0 if parent == column else rows[:, parent]
            cells = above * cumulative.shape[1] + rows[:, self.label]
            rows[:, column] = drawn(
                cumulative.reshape(-1, cumulative.shape[2]), cells, chance.random(len(cells))
            )
        return rows


def tree(observed: Observed | Reported) -> Tree:
    """Equations (1) to (3)."""
    # a third of a second to import: only where it is called
    from scipy.sparse.csgraph import (
        minimum_spanning_tree,
    )

    label = len(observed.sizes) - 1
    features = range(label)
    alone = [log_linear(observed.on((column, label))) for column in features]
    pairs = {
        (i, j): log_linear(observed.on((i, j, label)))
        if _is_asked(observed, (i, j, label))
        else _apart(alone[i], alone[j])
        for i, j in combinations(features, 2)
    }
    costs = np.zeros((label, label))
    for (i, j), shares in pairs.items():
        of_label, of_first, of_second = (
            shares.sum(axis=axes, keepdims=True) for axes in ((0, 1), (1,), (0,))
        )
        # I(i; j | y)
        information = float((shares * np.log(shares * of_label / (of_first * of_second))).sum())
        costs[i, j] = -(_EDGE + max(0.0, information))
    chosen = [(int(i), int(j)) for i, j in np.argwhere(minimum_spanning_tree(costs).toarray())]
    parents = forest(label, chosen)  # one tree, whose root is the first column
    tables = {0: alone[0][np.newaxis]}
    for column, parent in parents.items():
        if column != parent:
            tables[column] = (
                pairs[parent, column] if parent < column else pairs[column, parent].swapaxes(0, 1)
            )
    return Tree(label, parents, tables)


def _is_asked(observed: Observed | Reported, columns: tuple[int, ...]) -> bool:
    """Whether some report covers both columns, and they have few cells."""
    if prod(observed.sizes[column] for column in columns) > MOST_CELLS:
        return False
    return isinstance(observed, Reported) or any(
        {*columns[:2]} <= {*one.columns} for one in observed.reports
    )


def _apart(of_first: np.ndarray, of_second: np.ndarray) -> np.ndarray:
    """Shares over both columns and the label, where they are independent given the label."""
    joint = (
        of_first[:, np.newaxis]
        * of_second[np.newaxis]
        / ((of_first.sum(axis=0) + of_second.sum(axis=0)) / 2)
    )
    return np.asarray(joint / joint.sum())


def forest(columns: int, pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """The parent of every column, parents first: breadth first from the first column of every tree,
    which is its own parent.
    """
    joined = sorted(
        ((one, other) for pair in pairs for one, other in (pair, pair[::-1])),
        key=lambda pair: (pair[1] < pair[0], pair[1]),
    )
    parents: dict[int, int] = {}
    for root in range(columns):
        if root not in parents:
            parents[root] = root
            queue = [root]
            for column in queue:
                children = [
                    other for one, other in joined if one == column and other not in parents
                ]
                parents.update(dict.fromkeys(children, column))
                queue += children
    return parents


def drawn(cumulative: np.ndarray, given: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """One category for each of `given`, rows of these cumulative shares of shape (rows,
    categories), which need not end at 1; decided by numbers in 0..1.
    """
    rows, categories = cumulative.shape
    # of what has no share nothing is drawn
    whole = np.maximum(cumulative[:, -1:], np.finfo(float).tiny)
    steps = (cumulative / whole + np.arange(rows)[:, np.newaxis]).ravel()  # rising over all rows
    cells = np.searchsorted(steps, uniform + given, side="right") - given * categories
    return np.asarray(np.clip(cells, 0, categories - 1))
