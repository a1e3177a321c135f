"""From randomised reports to rows that look like the population's.

Guarantee   none spent: post-processing of epsilon-LDP reports.
Paper       DP-TabICL section III-B1: pi = (P_1 (x) ... (x) P_y)^-1 lambda. The Kronecker
            product is never formed: its inverse is applied a few attributes at a time.

    (1)  P_i = (p_i - q_i) I + q_i J,    P_i^-1 = (I - q_i J) / (p_i - q_i)
    (2)  pi~ = argmin ||pi - x||_2  over the probability simplex       estimator `simplex`
    (3)  pi~ = max(pi, 0) / sum max(pi, 0)                             estimator `clip`, the paper's
    (4)  rows: largest-remainder rounding of N pi~, exactly N in all   (the paper rounds up)

Symbols     lambda shares of reports per cell, pi estimated shares, J all ones, N rows.
Not covered domains of more than 2^26 cells; (1) amplifies noise by prod 1 / (p_i - q_i).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from math import prod
from typing import Literal

import numpy as np

from dpicl.errors import ParameterError, PrivacyError
from dpicl.mechanisms.randomised_response import Response
from dpicl.types import LocalReports, ReleasedRows

Estimator = Literal["simplex", "clip", "none"]
_GROUPED_CELLS = 64
"""Attributes are inverted together up to this many cells: small dense products run fastest."""


def report_counts(reports: LocalReports, sizes: Sequence[int]) -> np.ndarray:
    """How many reports fall into each cell: shape (prod sizes,), int64, last answer fastest."""
    cells = np.zeros(len(reports.codes), dtype=np.int64)
    for column, size in enumerate(sizes):
        cells *= size
        cells += reports.codes[:, column]
    return np.bincount(cells, minlength=prod(sizes))


def inverse_matrix(law: Response) -> np.ndarray:
    """Equation (1): shape (categories, categories).
    Raises PrivacyError: a lie is as likely as the truth, so that nothing can be recovered.
    """
    p, q, k = law.truth_probability, law.lie_probability, law.categories
    if p <= q:
        raise PrivacyError(
            f"keep_probability={p}: expected more than {q}; the reports carry no information"
        )
    return (np.eye(k) - q) / (p - q)


def invert(shares: np.ndarray, laws: Sequence[Response]) -> np.ndarray:
    """Equation (1) for all columns: the inverse of the Kronecker product of their matrices times
    shares of cells, last answer fastest. Shape (cells,), float64; sums to the same total, may be
    negative. Works in the memory of two such vectors.
    """
    values, result, before = np.array(shares, dtype=np.float64), np.empty(len(shares)), 1
    for matrix in _grouped(tuple(laws)):
        shape = (before, len(matrix), -1)
        # the last answers: one product instead of many with a column
        if before * len(matrix) == len(values):
            np.matmul(
                values.reshape(before, len(matrix)),
                matrix.T,
                out=result.reshape(before, len(matrix)),
            )
        else:
            np.matmul(matrix, values.reshape(shape), out=result.reshape(shape))
        values, result, before = result, values, before * len(matrix)
    return values


@lru_cache(maxsize=256)
def _grouped(laws: tuple[Response, ...]) -> list[np.ndarray]:
    groups: list[list[np.ndarray]] = [[]]
    cells = 1
    for law in laws:
        if groups[-1] and cells * law.categories > _GROUPED_CELLS:
            groups.append([])
            cells = 1
        groups[-1].append(inverse_matrix(law))
        cells *= law.categories
    return [reduce(np.kron, group) for group in groups]


def project_on_simplex(values: np.ndarray) -> np.ndarray:
    """The nearest point of the probability simplex; equation (2)."""
    # A common shift changes nothing, and one must not drown in 10^18. What is nothing at a level
    # too low stays so (Michelot 1986).
    kept = values = values - values.max()
    while True:
        level = max((kept.sum() - 1) / len(kept), -1.0)
        above = kept[kept > level]
        if len(above) == len(kept):
            break
        kept = above
    values -= level
    return np.maximum(values, 0, out=values)


def clip_and_renormalise(values: np.ndarray) -> np.ndarray:
    """Negatives to zero, then divided by the sum; equation (3)."""
    clipped = np.maximum(values, 0)
    return np.asarray(clipped / clipped.sum())


def exact_row_counts(
    shares: np.ndarray, row_count: int, *, total: float | None = None
) -> np.ndarray:
    """Whole numbers of rows per cell that add up to `row_count`; equation (4). `total`: of the
    shares, those that are left out included.
    """
    ideal = shares * (row_count / (shares.sum() if total is None else total))
    counts = np.floor(ideal).astype(np.int64)
    missing = row_count - int(counts.sum())
    if missing:
        ideal -= counts
        least = np.partition(ideal, -missing)[-missing]
        counts[ideal > least] += 1
        ties = np.flatnonzero(ideal == least)  # the first cells, as many as are left
        counts[ties[: row_count - int(counts.sum())]] += 1
    return counts


def reconstruct(
    reports: LocalReports, laws: Sequence[Response], *, estimator: Estimator
) -> ReleasedRows:
    """As many rows as reports, ordered by cell, distributed as the population is estimated to be;
    `none` returns the reports themselves. There is at least one report. Raises ParameterError:
    unknown estimator.
    """
    if estimator == "none":
        return ReleasedRows(reports.codes)
    row_count = len(reports.codes)
    project = {"simplex": project_on_simplex, "clip": clip_and_renormalise}.get(estimator)
    if project is None:
        raise ParameterError("estimator", estimator, "simplex, clip or none")
    sizes = [law.categories for law in laws]
    estimate = project(invert(report_counts(reports, sizes) / row_count, laws))
    cells = np.flatnonzero(estimate)
    repeats = exact_row_counts(estimate[cells], row_count, total=float(estimate.sum()))
    cells, repeats = cells[repeats > 0], repeats[repeats > 0]
    levels = np.empty((len(cells), len(sizes)), dtype=np.uint8)
    for column, size in reversed([*enumerate(sizes)]):
        cells, levels[:, column] = np.divmod(cells, size)
    return ReleasedRows(np.repeat(levels, repeats, axis=0))
