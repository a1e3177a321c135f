"""The graphical model that explains noisy counts best, and rows drawn from it.

Guarantee   none spent: post-processing of noisy counts.
Paper       [MSM19] McKenna, Sheldon and Miklau, private-pgm (arXiv 1901.09136): the problem, and belief propagation for it;
            [Tse08] Tseng, On accelerated proximal gradient methods for convex-concave optimization: the steps.

    (1)  P = argmin over distributions that factor over the counted columns of
             f(P) = 1/2 sum over counts c of | n P_c - c |^2 / v_c
    (2)  y <- (1 - t) x + t P(theta);  theta <- theta - a f'(y);  x <- (1 - t) x + t P(theta)
             with t = a / A, A the sum of all a until now, and L a^2 = A for a curvature L of f, found by doubling
    (3)  P(theta) by belief propagation: the pairs of columns make a forest, and every count is also over the label.
             Messages over (column, label) go from leaves to roots, then shares from roots to leaves
    (4)  rows from P, column after column from the label on

Work and memory grow with the counts, not with the cells of the table.

Symbols     P_c marginal of P over the columns of c; v_c variance of the noise in c; n rows, the estimate of least
            variance from the counts; theta potentials, one for each number that is counted.
Not covered pairs that make a circle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpicl.tabular.central.spanning_tree import NoisyMarginal, added
from dpicl.tabular.local.tree import Tree, forest

STEPS = 400
"""At most, of equation (2)."""
_LEAST_DEVIATION = 0.5
"""Of counts without noise."""
_LEAST_START = 0.3
"""Below so many deviations no count is taken to start from: potentials are finite."""
_BLOCK, _LEAST_FALL = 10, 1e-3
"""So many steps that lower f by less than this for each number counted are the last: f's own noise is far larger."""


def graphical_model(sizes: Sequence[int], marginals: Sequence[NoisyMarginal]) -> Tree:
    """Equation (1), by counts over every column and the label, and over pairs of columns that make no circle and the label: a forest of
    columns below the label, which is the last.
    """
    counts = _Counts.of(len(sizes) - 1, added(marginals))
    alone, pairs = counts.tables(_fit(counts))
    shares = {column: (pairs[column] if column in pairs else alone[column][:, np.newaxis]).transpose(1, 2, 0) for column in counts.parents}
    return Tree(len(sizes) - 1, counts.parents, shares)


@dataclass(frozen=True)
class _Counts:
    """All that is counted, as one vector: first of every column, then of every column with its parent.

    Attributes:
        parents: of every column, parents first; a root is its own.
        shapes: (label, column) of every column, then (label, parent, column) of those with a parent.
        shares: c / n.
        weights: n^2 / v_c.
        most_curved: at most the curvature of f along any way, since no |P - Q|^2 over a marginal exceeds 2 KL(P, Q).
    """

    parents: Mapping[int, int]
    shapes: Sequence[tuple[int, ...]]
    shares: np.ndarray
    weights: np.ndarray
    most_curved: float

    @staticmethod
    def of(label: int, marginals: Sequence[NoisyMarginal]) -> _Counts:
        by_columns = {one.columns[:-1]: one for one in marginals}
        parents = forest(label, [columns for columns in by_columns if len(columns) == 2])
        children = [(column, parent) for column, parent in parents.items() if column != parent]
        measured = [by_columns[(column,)] for column in parents] + [by_columns[min(pair), max(pair)] for pair in children]
        tables = [np.moveaxis(one.counts, -1, 0) for one in measured]
        for place, (column, parent) in enumerate(children, len(parents)):
            tables[place] = tables[place] if parent < column else tables[place].swapaxes(1, 2)
        variances, sizes, rows = _variances(measured), [table.size for table in tables], row_count(measured)
        return _Counts(
            parents,
            [table.shape for table in tables],
            np.concatenate([table.ravel() for table in tables]) / rows,
            np.repeat(rows**2 / variances, sizes),
            float((rows**2 / variances).sum()),
        )

    def tables(self, vector: np.ndarray) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
        """Views of such a vector: of every column, and of every column with a parent."""
        views, start = [], 0
        for shape in self.shapes:
            views.append(vector[start : start + math.prod(shape)].reshape(shape))
            start += math.prod(shape)
        children = [column for column, parent in self.parents.items() if column != parent]
        return dict(zip(self.parents, views, strict=False)), dict(zip(children, views[len(self.parents) :], strict=True))


def _variances(marginals: Sequence[NoisyMarginal]) -> np.ndarray:
    return np.array([max(2 * one.scale**2, _LEAST_DEVIATION**2) for one in marginals])


def row_count(marginals: Sequence[NoisyMarginal]) -> float:
    """The estimate of least variance of how many rows were counted, at least 1."""
    totals, sizes = [one.counts.sum() for one in marginals], np.array([one.counts.size for one in marginals])
    return max(1.0, float(np.average(totals, weights=1 / (_variances(marginals) * sizes))))


def _fit(counts: _Counts) -> np.ndarray:
    """Equation (2): the marginals of P."""
    theta = _start(counts)
    z, normaliser = _marginals(theta, counts)
    x, total, curvature = z, 0.0, counts.most_curved / 100
    losses = [_norm(x - counts.shares, counts)]
    for step in range(1, STEPS + 1):
        while True:
            a = (1 + math.sqrt(1 + 4 * curvature * total)) / (2 * curvature)
            t = a / (total + a)
            slope = counts.weights * (x + t * (z - x) - counts.shares)
            new_theta = theta - a * slope
            new_z, new_normaliser = _marginals(new_theta, counts)
            divergence = -a * float((slope * new_z).sum()) - (new_normaliser - normaliser)
            if curvature >= counts.most_curved or _norm(new_z - z, counts) <= curvature * divergence:
                break
            curvature *= 2
        theta, z, normaliser = new_theta, new_z, new_normaliser
        x, total, curvature = x + t * (z - x), total + a, 0.8 * curvature
        losses.append(_norm(x - counts.shares, counts))
        if step % _BLOCK == 0 and losses[-_BLOCK - 1] - losses[-1] < _LEAST_FALL * len(x):
            break
    return x


def _norm(difference: np.ndarray, counts: _Counts) -> float:
    """What f is of x - counts / n. No product of BLAS: its threads cost more than they save here."""
    return 0.5 * float((counts.weights * difference**2).sum())


def _start(counts: _Counts) -> np.ndarray:
    """Potentials under which every column is, given its parent and the label, as it was counted."""
    theta = np.zeros_like(counts.shares)
    of_column, with_parent = counts.tables(theta)
    tables = counts.tables(np.maximum(counts.shares, _LEAST_START / np.sqrt(counts.weights)))
    for column, parent in counts.parents.items():
        if column == parent:
            of_column[column][:] = np.log(tables[0][column] / tables[0][column].sum(axis=1, keepdims=True))
        else:
            with_parent[column][:] = np.log(tables[1][column] / tables[1][column].sum(axis=2, keepdims=True))
    first = next(iter(counts.parents))
    of_column[first] += np.log(tables[0][first].sum(axis=1, keepdims=True))
    return theta


def _marginals(theta: np.ndarray, counts: _Counts) -> tuple[np.ndarray, float]:
    """Equation (3): marginals of P(theta), and the logarithm of what normalises it."""
    alone, pairs = counts.tables(theta)
    messages = {column: table.copy() for column, table in alone.items()}
    of_label, conditional = np.zeros(len(alone[0])), {}
    for column, parent in reversed(list(counts.parents.items())):
        table = messages[column][:, np.newaxis] if column == parent else messages[column][:, np.newaxis] + pairs[column]
        most = table.max(axis=2, keepdims=True)
        weights = np.exp(table - most)
        sums = weights.sum(axis=2, keepdims=True)
        conditional[column] = weights / sums
        message = (most + np.log(sums))[:, :, 0]
        if column == parent:
            of_label += message[:, 0]
        else:
            messages[parent] += message
    normaliser = float(np.logaddexp.reduce(of_label))
    shares = np.empty_like(theta)
    alone, pairs = counts.tables(shares)
    for column, parent in counts.parents.items():
        if column == parent:
            alone[column][:] = np.exp(of_label - normaliser)[:, np.newaxis] * conditional[column][:, 0]
        else:
            pairs[column][:] = alone[parent][:, :, np.newaxis] * conditional[column]
            alone[column][:] = pairs[column].sum(axis=1)
    return shares, normaliser
