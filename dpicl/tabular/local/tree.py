"""A tree of columns below the label: a model of tables with many columns, from three columns at a time.

Guarantee   none spent: post-processing of what was released.
Paper       [FGG97] Friedman, Geiger and Goldszmidt 1997 (tree-augmented naive Bayes); [CL68] Chow and Liu.

    (1)  pi_ij = log-linear estimate over columns i, j and the label y
    (2)  T = maximum spanning tree over I(i; j | y) under (1)
    (3)  P(x, y) = P(y) prod over i of P(x_i | x_parent(i), y),   parent in T, none for its root

Where no report speaks of two columns, (1) makes them independent given the label, I is 0, and (3) is naive
Bayes. Work and memory grow with the pairs of columns, not with the cells of the table.

Symbols     I mutual information of columns i and j within a label, in nats.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from dpicl.tabular.local.log_linear import log_linear
from dpicl.tabular.local.observed import Observed, Reported

CITATIONS = ("friedman1997bayesian",)
_EDGE = 1.0
"""Added to all mutual informations: a spanning tree of a sparse matrix takes next to nothing for no edge."""


@dataclass(frozen=True)
class Tree:
    """Columns in an order in which parents come first, with shares over (parent, column, label); the root is its own parent."""

    label: int
    order: tuple[int, ...]
    parents: Mapping[int, int]
    shares: Mapping[int, np.ndarray]

    def rows(self, count: int, chance: np.random.Generator) -> np.ndarray:
        """Rows drawn from equation (3), column after column: shape (count, columns), int64."""
        found = np.zeros((count, self.label + 1), dtype=np.int64)
        of_label = self.shares[self.order[0]].sum(axis=(0, 1))
        found[:, self.label] = _drawn(np.cumsum(of_label)[np.newaxis], np.zeros(count, dtype=np.int64), chance)
        for column in self.order:
            upto = np.cumsum(self.shares[column], axis=1).swapaxes(1, 2)
            parent = 0 if self.parents[column] == column else found[:, self.parents[column]]
            found[:, column] = _drawn(upto.reshape(-1, upto.shape[2]), parent * upto.shape[1] + found[:, self.label], chance)
        return found


def tree(seen: Observed | Reported) -> Tree:
    """Equations (1) to (3)."""
    from scipy.sparse.csgraph import minimum_spanning_tree  # a third of a second to import: only where it is called

    label = len(seen.sizes) - 1
    features = range(label)
    pairs = {(i, j): log_linear(seen.on((i, j, label))) for i, j in combinations(features, 2)}
    bonds = np.zeros((label, label))
    for (i, j), shares in pairs.items():
        bonds[i, j] = -(_EDGE + max(0.0, _conditional_information(shares)))
    chosen = {(int(i), int(j)): pairs[int(i), int(j)] for i, j in np.argwhere(minimum_spanning_tree(bonds).toarray())}
    return rooted(label, chosen, {0: log_linear(seen.on((0, label)))})


def rooted(label: int, pairs: Mapping[tuple[int, int], np.ndarray], alone: Mapping[int, np.ndarray]) -> Tree:
    """Pairs of columns that make a forest as an order from roots on.

    Args:
        pairs: shares over (i, j, label).
        alone: shares over (column, label), at least of the first column of every tree.
    """
    parents = forest(label, pairs)
    shares = {column: _shares(column, parent, pairs, alone) for column, parent in parents.items()}
    return Tree(label, tuple(parents), parents, shares)


def forest(columns: int, pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """The parent of every column, parents first: breadth first from the first column of every tree, which is its own parent."""
    joined = sorted(((one, other) for pair in pairs for one, other in (pair, pair[::-1])), key=lambda pair: (pair[1] < pair[0], pair[1]))
    parents: dict[int, int] = {}
    for root in range(columns):
        if root not in parents:
            parents[root] = root
            queue = [root]
            for column in queue:
                children = [other for one, other in joined if one == column and other not in parents]
                parents.update(dict.fromkeys(children, column))
                queue += children
    return parents


def _shares(column: int, parent: int, pairs: Mapping[tuple[int, int], np.ndarray], alone: Mapping[int, np.ndarray]) -> np.ndarray:
    """Over (parent, column, label); of a root with one level of a parent."""
    if parent == column:
        return alone[column][np.newaxis]
    return pairs[parent, column] if (parent, column) in pairs else pairs[column, parent].swapaxes(0, 1)


def _conditional_information(shares: np.ndarray) -> float:
    """I(i; j | y) of shares over (i, j, y)."""
    of_label, of_first, of_second = (shares.sum(axis=axes, keepdims=True) for axes in ((0, 1), (1,), (0,)))
    return float((shares * np.log(shares * of_label / (of_first * of_second))).sum())


def _drawn(upto: np.ndarray, cells: np.ndarray, chance: np.random.Generator) -> np.ndarray:
    """One category for each cell, by cumulative shares of shape (cells, categories), which need not end at 1: shape of `cells`."""
    upto = upto[cells]
    found = (chance.random(len(cells))[:, np.newaxis] * upto[:, -1:] >= upto).sum(axis=1)
    return np.asarray(np.minimum(found, upto.shape[1] - 1))
