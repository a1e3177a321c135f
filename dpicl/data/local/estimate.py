"""From reports to rows like the population's, by the estimator that a pipeline names.

Guarantee   none spent: post-processing of epsilon-LDP reports.

    simplex, clip, none    the inverse of the distortion, and the paper's way: `reconstruct`
    log-linear, em, tree   a model of the population, from which rows are drawn

Rows of a model are drawn by a public stream, as many as there are clients, no fewer than 16,384,
where a small sample of the model would add an error that no privacy asks for, and no more than a
million, of which a larger one would take away next to nothing.

Paper       `em`: [ABK13] iterative Bayesian update, accelerated and stopped early: [VR08] Varadhan
            and Roland 2008, squared steps (SQUAREM, S3)

    (1)  M(pi) = pi * gradient of the log-likelihood / reports       one step of expectation
         maximisation
    (2)  r = M(pi) - pi,  v = M(M(pi)) - M(pi) - r,  a = -|r| / |v|
         pi <- M( max(pi - 2 a r + a^2 v, 0) )                       where that is no less likely,
         else M(M(pi))

Converged estimates explain the noise too. So there is an end, not a tolerance.

Symbols     pi shares of cells, started from equal ones.

A penalised log-linear model of the population: which shares of cells, with terms of few columns
only, explain the reports best.

A tree of columns below the label: a model of tables with many columns, from three columns at a
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log10, prod

import numpy as np

from dpicl.data.local.observed import (
    Observed,
    Reported,
    analyse,
    observed_tally,
    orders,
    reconstruct,
    synthesise,
)
from dpicl.data.local.questions import Tally
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream
from dpicl.ground.types import MADE_ROWS, Estimator, ReleasedRows

MOST_ROWS = 1 << 20
MOST_CELLS = {
    "simplex": 1 << 26,
    "clip": 1 << 26,
    "log-linear": 1 << 20,
    "em": 1 << 20,
    "tree": 1 << 20,
}
"""Of what works on all cells at once; a tree takes any number of columns, and works on those of two
columns and the label.
"""
OF_ANY_DESIGN: tuple[Estimator, ...] = ("log-linear", "tree", "em")
"""Models of the population: they take reports of every design."""
SECONDS_OF_CELLS = 1 << 18
"""Most cells of a log-linear model that is fitted in a second or two."""
STEPS = 20
"""Squared steps of `em`, each of which counts three of (1)."""


def fits(estimator: Estimator, sizes: Sequence[int]) -> bool:
    """Whether the estimator takes columns of these sizes."""
    return estimator not in MOST_CELLS or prod(_together(estimator, sizes)) <= MOST_CELLS[estimator]


def _together(estimator: Estimator, sizes: Sequence[int]) -> list[int]:
    """Sizes of the columns, the label last, whose cells the estimator works on at once."""
    return [*sorted(sizes[:-1])[-2:], sizes[-1]] if estimator == "tree" else list(sizes)


def usual_estimator(sizes: Sequence[int]) -> Estimator:
    """The model for columns of these sizes where nobody names one: of all cells at once where these
    are few enough, else a tree.
    """
    return "log-linear" if prod(sizes) <= SECONDS_OF_CELLS else "tree"


def check_fits(estimator: Estimator, sizes: Sequence[int], where: str) -> None:
    """Refuse more cells than the estimator takes. Raises ParameterError: there are more."""
    if not fits(estimator, sizes):
        cells = (
            f"about 10^{sum(map(log10, _together(estimator, sizes))):.0f} cells, at most "
            f"{MOST_CELLS[estimator]}"
        )
        other = "tree" if fits("tree", sizes) else "fewer categories"
        raise ParameterError("estimator", estimator, f"{other} for {where}: {cells}")


def estimated_rows(
    collected: Reported | Tally, estimator: Estimator, chance: Stream, count: int | None = None
) -> ReleasedRows:
    """Rows of shape (rows, columns), uint8: so many, or the usual number; of no report any row is
    as likely as any other. Raises ParameterError: there are too many cells for this estimator.
    """
    if not collected.clients:
        sizes = (
            [law.categories for law in collected.laws]
            if isinstance(collected, Reported)
            else collected.questionnaire.sizes
        )
        return ReleasedRows(
            chance.generator().integers(
                sizes, size=(count or MADE_ROWS, len(sizes)), dtype=np.uint8
            )
        )
    if isinstance(collected, Reported) and estimator in ("simplex", "clip", "none"):
        rows = reconstruct(collected.reports, collected.laws, estimator=estimator)
        if count is None:
            return rows
        return ReleasedRows(rows.codes[chance.generator().integers(len(rows.codes), size=count)])
    observed = collected if isinstance(collected, Reported) else observed_tally(collected)
    count = count or min(max(collected.clients, MADE_ROWS), MOST_ROWS)
    generator = chance.generator()
    if estimator == "tree":
        return ReleasedRows(tree(observed).rows(count, generator).astype(np.uint8))
    check_fits(estimator, observed.sizes, "this table")
    whole = observed.on(tuple(range(len(observed.sizes))))
    shares = {"log-linear": log_linear, "em": maximum_likelihood}[estimator](whole)
    cells = np.repeat(np.arange(shares.size), generator.multinomial(count, shares.reshape(-1)))
    return ReleasedRows(np.stack(np.unravel_index(cells, observed.sizes), axis=1).astype(np.uint8))


def maximum_likelihood(observed: Observed, *, steps: int = STEPS) -> np.ndarray:
    """Equations (1) and (2): shares of cells, shape `sizes`, not negative, of sum 1. Work is that
    of all cells.
    """
    shares = np.full(observed.sizes, 1 / prod(observed.sizes))
    for _ in range(steps):
        once, _ = _step(shares, observed)
        twice, _ = _step(once, observed)
        first = once - shares
        second = twice - 2 * once + shares
        length = float(np.linalg.norm(second))
        if not length:
            shares = twice
            continue
        stride = -float(np.linalg.norm(first)) / length
        leapt = np.maximum(shares - 2 * stride * first + stride**2 * second, 0)
        after, likelihood = _step(leapt / leapt.sum(), observed)
        shares = after if likelihood >= _step(twice, observed)[1] else twice
    return shares


def _step(shares: np.ndarray, observed: Observed) -> tuple[np.ndarray, float]:
    """Equation (1), and the log-likelihood before it."""
    value, slope = observed.likelihood(analyse(shares).reshape(-1))
    # restated counts may be negative
    after = np.maximum(shares * synthesise(slope.reshape(observed.sizes)) / observed.count, 0)
    return after / after.sum(), value


SPREADS = (1.5, 0.2, 0.07)
"""Standard deviations of theta before anything is observed, by number of columns; the same for
every table and epsilon.

They were chosen once, among four, where few clients report at epsilon = 1: on blood, calhousing,
car, diabetes and heart.
"""
_STEPS = 200


def log_linear(observed: Observed) -> np.ndarray:
    """Equations (1) and (2): shares of cells, shape `sizes`, positive, of sum 1."""
    order = orders(observed.sizes)
    free = (order > 0) & (order <= len(SPREADS)) & observed.covered
    weights = 1 / np.array([1.0, *SPREADS])[order[free]] ** 2

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        shares = _shares(theta, free)
        value, slope = observed.likelihood(analyse(shares).reshape(-1))
        by_cell = synthesise(slope.reshape(observed.sizes))
        by_cell = shares * (by_cell - (shares * by_cell).sum())
        return (weights * theta**2).sum() / 2 - value, weights * theta - analyse(by_cell)[free]

    from scipy.optimize import minimize  # a third of a second to import: only where it is called

    optimum = minimize(
        loss,
        np.zeros(int(free.sum())),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _STEPS, "maxcor": 20},
    )
    return _shares(optimum.x, free)


def _shares(theta: np.ndarray, free: np.ndarray) -> np.ndarray:
    weights = np.zeros(free.shape)
    weights[free] = theta
    heights = synthesise(weights)
    shares = np.exp(heights - heights.max())
    return np.asarray(shares / shares.sum())


TREE_MOST_CELLS = 1 << 12
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
    if prod(observed.sizes[column] for column in columns) > TREE_MOST_CELLS:
        return False
    return isinstance(observed, Reported) or any(
        {*columns[:2]} <= {*report.columns} for report in observed.reports
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
        ((column, other) for pair in pairs for column, other in (pair, pair[::-1])),
        key=lambda pair: (pair[1] < pair[0], pair[1]),
    )
    parents: dict[int, int] = {}
    for root in range(columns):
        if root not in parents:
            parents[root] = root
            queue = [root]
            for column in queue:
                children = [
                    other for parent, other in joined if parent == column and other not in parents
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
