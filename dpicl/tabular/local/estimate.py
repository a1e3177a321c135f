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
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log10, prod

import numpy as np

from dpicl.errors import ParameterError
from dpicl.randomness import Stream
from dpicl.tabular.local.log_linear import log_linear
from dpicl.tabular.local.moments import analyse, synthesise
from dpicl.tabular.local.observed import Observed, Reported, observed_tally
from dpicl.tabular.local.reconstruct import reconstruct
from dpicl.tabular.local.tally import Tally
from dpicl.tabular.local.tree import tree
from dpicl.types import MADE_ROWS, Estimator, ReleasedRows

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
        return (
            rows
            if count is None
            else ReleasedRows(rows.codes[chance.generator().integers(len(rows.codes), size=count)])
        )
    observed = collected if isinstance(collected, Reported) else observed_tally(collected)
    count, generator = (
        count or min(max(collected.clients, MADE_ROWS), MOST_ROWS),
        chance.generator(),
    )
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
        first, second = once - shares, twice - 2 * once + shares
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
