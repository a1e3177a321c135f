"""The graphical model that explains noisy counts best, and rows drawn from it.

Guarantee   none spent: post-processing of noisy counts.
Paper       [MSM19] McKenna, Sheldon and Miklau, private-pgm (arXiv 1901.09136): the problem, and
            belief propagation for it; [Tse08] Tseng, On accelerated proximal gradient methods for
            convex-concave optimization: the steps.

    (1)  P = argmin over distributions that factor over the counted columns of
             f(P) = 1/2 sum over counts c of | n P_c - c |^2 / v_c
    (2)  y <- (1 - t) x + t P(theta);  theta <- theta - a f'(y);  x <- (1 - t) x + t P(theta)
             with t = a / A, A the sum of all a until now, and L a^2 = A for a curvature L of f,
             found by doubling
    (3)  P(theta) by belief propagation
         `junction_tree`

Symbols     P_c marginal of P over the columns of c; v_c variance of the noise in c; n rows, the
            estimate of least variance from the counts; theta potentials, one for each number that
            is counted.
Not covered columns that nobody counted: P has them uniform, apart from all others.

Marginals of a graphical model over columns that no clique has together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import numpy as np

from dpicl.data.central.junction_tree import JunctionTree, Luck, Scope

STEPS = 400
"""At most, of equation (2)."""
_LEAST_DEVIATION = 0.5
"""Of counts without noise."""
_LEAST_START = 0.3
"""Below so many deviations no count is taken to start from: potentials are finite."""
_BLOCK, _LEAST_FALL = 10, 1e-3
"""So many steps that lower f by less than this for each number counted are the last: f's own noise
is far larger.
"""
_AT_ONCE = 1 << 15
"""Numbers of fits side by side: of more a call takes no longer than its sums."""


@dataclass(frozen=True)
class NoisyMarginal:
    """Counts over some columns in rising order, shape (sizes of the columns), with noise of this
    scale (0: none): discrete Laplace noise, or discrete Gaussian noise of which it is the standard
    deviation.
    """

    columns: Scope
    counts: np.ndarray
    scale: float
    gaussian: bool = False

    @property
    def variance(self) -> float:
        """Of the noise in every count, about."""
        return max((1 if self.gaussian else 2) * self.scale**2, _LEAST_DEVIATION**2)

    @property
    def noise(self) -> float:
        """The mean size of the noise in every count, about."""
        return self.scale * (math.sqrt(2 / math.pi) if self.gaussian else 1)

    def noise_again(self, chance: np.random.Generator) -> np.ndarray:
        """Noise of this kind and scale for every count, for what is derived."""
        return (chance.normal if self.gaussian else chance.laplace)(
            0, self.scale, self.counts.shape
        )


@dataclass(frozen=True)
class NoisyCounts:
    """Noisy counts of a release, and the edges of bins that it has chosen, by column."""

    marginals: Sequence[NoisyMarginal]
    bins: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class GraphicalModel:
    """Equation (1): the shares of every cell of a junction tree's scopes, and potentials that come
    near them.
    """

    tree: JunctionTree
    shares: np.ndarray
    theta: np.ndarray

    @property
    def counted(self) -> dict[Scope, np.ndarray]:
        """Shares over the columns of every count, and of every clique with the label."""
        label = self.tree.label
        return {
            scope: np.moveaxis(table, 0, -1) if label in scope else table
            for scope, table in self.tree.views(self.shares).items()
        }

    def rows(self, count: int, chance: np.random.Generator) -> np.ndarray:
        """Rows drawn from P: shape (count, columns), int64."""
        return self.rows_by(self.tree.luck(count, chance))

    def rows_by(self, luck: Luck) -> np.ndarray:
        """The same, with randomness that was drawn before."""
        return self.tree.rows(self.shares, luck)

    def label_chances(self, rows: np.ndarray) -> np.ndarray:
        """How likely P says each label is, given the other columns: shape (rows, labels)."""
        return self.tree.label_chances(self.shares, rows)


def graphical_model(
    sizes: Sequence[int],
    marginals: Sequence[NoisyMarginal],
    *,
    earlier: GraphicalModel | None = None,
    steps: int | None = None,
) -> GraphicalModel:
    """Equation (1), by counts of any columns with or without the label, which is the last; the
    largest clique must fit into memory. `earlier`: the model of fewer counts, to start from;
    `steps`: at most, else `STEPS`.
    """
    counts = _Counts.of(sizes, added(marginals))
    theta = _start(counts) if earlier is None else _continued(counts.tree, earlier)
    return _fit([counts], theta[np.newaxis], steps or STEPS)[0]


def graphical_models(
    sizes: Sequence[int], again: Sequence[Sequence[NoisyMarginal]], *, steps: int
) -> list[GraphicalModel]:
    """Equation (1) by each of several counts of the same columns: `graphical_model` of each, all at
    once where they are small.
    """
    counts = [_Counts.of(sizes, added(marginals)) for marginals in again]
    at_once = max(1, _AT_ONCE // counts[0].tree.starts[-1])
    models = list[GraphicalModel]()
    for first in range(0, len(counts), at_once):
        some = counts[first : first + at_once]
        models += _fit(some, np.stack([_start(problem) for problem in some]), steps)
    return models


def _continued(tree: JunctionTree, earlier: GraphicalModel) -> np.ndarray:
    """An earlier model's potentials; 0 of what was not counted then."""
    known = earlier.tree.views(earlier.theta)
    theta = np.zeros(tree.starts[-1])
    for scope, view in tree.views(theta).items():
        view += known.get(scope, 0.0)
    return theta


@dataclass(frozen=True)
class _Counts:
    """All that is counted, as one vector over the scopes of a junction tree.

    Attributes:
        shares: c / n; 0 of a clique that was not counted.
        weights: n^2 / v_c; 0 of such a clique.
        most_curved: at most the curvature of f along any way, since no |P - Q|^2 over a marginal
            exceeds 2 KL(P, Q).
    """

    tree: JunctionTree
    shares: np.ndarray
    weights: np.ndarray
    most_curved: float

    @staticmethod
    def of(sizes: Sequence[int], marginals: Sequence[NoisyMarginal]) -> _Counts:
        tree = JunctionTree.of(sizes, [marginal.columns for marginal in marginals])
        rows = row_count(marginals)
        tables = [
            np.moveaxis(marginal.counts, -1, 0)
            if tree.label in marginal.columns
            else marginal.counts
            for marginal in marginals
        ]
        weights = np.array([rows**2 / marginal.variance for marginal in marginals])
        more = np.zeros(tree.starts[-1] - tree.starts[len(tables)])
        return _Counts(
            tree,
            np.concatenate([*(table.ravel() / rows for table in tables), more]),
            np.concatenate([np.repeat(weights, [table.size for table in tables]), more]),
            float(weights.sum()),
        )


def added(marginals: Sequence[NoisyMarginal]) -> list[NoisyMarginal]:
    """Counts of the same columns as one: their mean, weighted by how exact they are;
    post-processing.
    """
    means: dict[Scope, NoisyMarginal] = {}
    for marginal in marginals:
        other = means.setdefault(marginal.columns, marginal)
        if other is marginal or not other.scale:
            continue
        means[marginal.columns] = marginal
        if marginal.scale:
            weight = marginal.scale**2 / (marginal.scale**2 + other.scale**2)
            counts = weight * other.counts + (1 - weight) * marginal.counts
            means[marginal.columns] = replace(
                marginal,
                counts=counts,
                scale=marginal.scale * other.scale / float(np.hypot(marginal.scale, other.scale)),
            )
    return list(means.values())


def row_count(marginals: Sequence[NoisyMarginal]) -> float:
    """The estimate of least variance of how many rows were counted, at least 1."""
    totals = [marginal.counts.sum() for marginal in marginals]
    return max(
        1.0,
        float(
            np.average(
                totals,
                weights=[1 / (marginal.variance * marginal.counts.size) for marginal in marginals],
            )
        ),
    )


def _fit(counts: Sequence[_Counts], theta: np.ndarray, steps: int) -> list[GraphicalModel]:
    """Equation (2) from potentials of shape (fits, numbers), for counts of the same columns: each
    fit takes steps of its own.
    """
    tree = counts[0].tree
    counted = int((counts[0].weights > 0).sum())
    models = dict[int, GraphicalModel]()
    shares = np.stack([count.shares for count in counts])
    weights = np.stack([count.weights for count in counts])
    most = np.array([count.most_curved for count in counts])
    z, normaliser = tree.marginals(theta)
    x = z
    total = np.zeros(len(counts))
    curvature = most / 100
    before = _loss(weights, x - shares)
    made = np.zeros(len(counts), dtype=np.int64)
    left = np.arange(len(counts))
    while len(left):
        a = (1 + np.sqrt(1 + 4 * curvature * total)) / (2 * curvature)
        t = (a / (total + a))[:, np.newaxis]
        slope = weights * (x + t * (z - x) - shares)
        new_theta = theta - a[:, np.newaxis] * slope
        new_z, new_normaliser = tree.marginals(new_theta)
        divergence = -a * (slope * new_z).sum(axis=1) - (new_normaliser - normaliser)
        taken = (curvature >= most) | (_loss(weights, new_z - z) <= curvature * divergence)
        new: tuple[np.ndarray, ...] = (
            new_theta,
            new_z,
            new_normaliser,
            x + t * (new_z - x),
            total + a,
        )
        if not taken.all():
            new = tuple(
                _where(taken, fresh, old)
                for fresh, old in zip(new, (theta, z, normaliser, x, total), strict=True)
            )
        theta, z, normaliser, x, total = new
        made, curvature = made + taken, np.where(taken, 0.8, 2.0) * curvature
        done = made == steps
        at_block = taken & (made % _BLOCK == 0)
        if at_block.any():
            now = _loss(weights, x - shares)
            done |= at_block & (before - now < _LEAST_FALL * counted)
            before = np.where(at_block, now, before)
        if done.any():
            models |= {
                int(left[place]): GraphicalModel(tree, x[place], theta[place])
                for place in np.flatnonzero(done)
            }
            states = (
                left,
                shares,
                weights,
                most,
                theta,
                z,
                normaliser,
                x,
                total,
                curvature,
                before,
                made,
            )
            left, shares, weights, most, theta, z, normaliser, x, total, curvature, before, made = (
                state[~done] for state in states
            )
    return [models[place] for place in range(len(counts))]


def _loss(weights: np.ndarray, difference: np.ndarray) -> np.ndarray:
    """What f is of shares that are so far from those counted. No product of BLAS: its threads cost
    more than they save here.
    """
    return np.asarray(0.5 * (weights * difference**2).sum(axis=1))


def _where(taken: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """The new state of fits that took a step."""
    return np.where(taken.reshape(-1, *(1,) * (new.ndim - 1)), new, old)


def _start(counts: _Counts) -> np.ndarray:
    """Potentials under which every clique that was counted is, given what its parent has of it and
    the label, as it was counted.
    """
    tree = counts.tree
    theta = np.zeros_like(counts.shares)
    least = np.divide(
        _LEAST_START, np.sqrt(counts.weights), out=np.zeros_like(theta), where=counts.weights > 0
    )
    views = tree.views(theta)
    tables = tree.views(np.maximum(counts.shares, least))
    counted = {scope: (table, views[scope]) for scope, table in tables.items() if table.any()}
    for clique in tree.cliques:
        whole = (*clique.columns, tree.label)
        parts = (
            [whole]
            if whole in counted
            else [scope for column in clique.rest for scope in ((column, tree.label), (column,))]
        )
        for scope in parts:
            if scope in counted:
                table, view = counted[scope]
                apart = tuple(
                    axis for axis, column in enumerate(tree.axes(scope)) if column in clique.rest
                )
                view += np.log(table / table.sum(axis=apart, keepdims=True))
    table, view = next(counted[scope] for scope in counted if tree.label in scope)
    of_label = table.reshape(len(table), -1).sum(axis=1)
    view += np.log(of_label / of_label.sum()).reshape(-1, *(1 for _ in view.shape[1:]))
    return theta


Factor = tuple[np.ndarray, Scope]
"""A table, and the column of each of its axes."""


class ModelMarginals:
    """Those of one model, whose conditional shares are computed once."""

    def __init__(self, model: GraphicalModel) -> None:
        self.tree = tree = model.tree
        tables = tree.views(model.shares)
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
        self._lines: list[tuple[int, ...]] = []
        """Each clique and all above it."""
        for place, clique in enumerate(tree.cliques):
            above = () if clique.parent is None else self._lines[clique.parent]
            self._lines.append((place, *above))
        self._messages = dict[tuple[int, Scope], Factor]()

    def over(self, columns: Sequence[int]) -> np.ndarray:
        """Shares over these columns and the label, shape (sizes of the columns, the label's):
        equation (1). A column of no clique is uniform.
        """
        label = self.tree.label
        known = [column for column in columns if column in self._brought_in]
        lines = [self._lines[self._brought_in[column]] for column in known] or [(0,)]
        top = max(set.intersection(*map(set, lines)))
        below: dict[int, list[int]] = {}
        for column, line in zip(known, lines, strict=False):
            for place in line:
                if place > top:
                    below.setdefault(place, []).append(column)
        parts: dict[int, list[Factor]] = {}
        for place in sorted(below, reverse=True):
            parent = self.tree.cliques[place].parent
            assert parent is not None
            message = self._message(place, tuple(below[place]), parts.pop(place, []))
            parts.setdefault(parent, []).append(message)
        table, kept = _summed(self._shares[top], parts.pop(top, []), {label, *known})
        order = [kept.index(column) for column in (*known, label)]
        sizes = [self.tree.sizes[column] for column in (*columns, label)]
        shape = [
            size if column in (*known, label) else 1
            for size, column in zip(sizes, (*columns, label), strict=True)
        ]
        free = math.prod(sizes) // math.prod(shape)
        return np.broadcast_to(table.transpose(order).reshape(shape) / free, sizes)

    def _message(self, place: int, known: Scope, parts: Sequence[Factor]) -> Factor:
        """Of a clique to its parent, with these columns that it and those below bring in; computed
        once, as many columns are asked for with many others.
        """
        message = self._messages.get((place, known))
        if message is None:
            kept = {self.tree.label, *known, *self.tree.cliques[place].separator}
            message = self._messages[place, known] = _summed(self._given[place], parts, kept)
        return message


def _given(table: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Shares of what is along these axes given the others; 0 where these have no share, which is
    their part of any product.
    """
    sums = table.sum(axis=axes, keepdims=True)
    return np.divide(table, sums, out=np.zeros_like(table), where=sums > 0)


def _summed(factor: Factor, parts: Sequence[Factor], kept: AbstractSet[int]) -> Factor:
    """The product with all parts, over the columns that are kept."""
    for part in parts:
        factor = _product(factor, part)
    table, axes = factor
    summed = tuple(axis for axis, column in enumerate(axes) if column not in kept)
    return table.sum(axis=summed), tuple(column for column in axes if column in kept)


def _product(factor: Factor, other: Factor) -> Factor:
    """Of two tables whose first axes are the label's."""
    axes = (*factor[1], *(column for column in other[1] if column not in factor[1]))
    return _spread(*factor, axes) * _spread(*other, axes), axes


def _spread(table: np.ndarray, axes: Scope, wanted: Scope) -> np.ndarray:
    """The table with axes in this order, those that it lacks of size 1."""
    held = [column for column in wanted if column in axes]
    sizes = iter(table.transpose([axes.index(column) for column in held]).shape)
    return table.transpose([axes.index(column) for column in held]).reshape(
        [next(sizes) if column in axes else 1 for column in wanted]
    )
