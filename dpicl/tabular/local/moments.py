"""Shares of cells and moments of columns: two views of one distribution over categories.

Guarantee   none spent: algebra on released or made-up numbers.

A column of k categories has k functions: the constant 1, and k - 1 contrasts of mean 0 and mean
square 1 under equal shares (for two
categories: -1 and +1, its parity). A moment is the expectation of a product of one function for
every column.

    (1)  m = (B_1 (x) ... (x) B_d)^T pi           analyse     pi shares of cells
    (2)  pi = (B_1 (x) ... (x) B_d) m / cells     synthesise
    (3)  the marginal over some columns has the moments of the others' constants

Randomised response keeps every moment but for a factor, and (3) makes a marginal a choice of
entries: that is why estimation happens here. For binary columns (1) is a Walsh transform.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from math import prod

import numpy as np


@lru_cache(maxsize=256)
def contrasts(categories: int) -> np.ndarray:
    """B: functions of one column, shape (categories, functions), constant first."""
    start = np.eye(categories)
    start[:, 0] = 1
    orthonormal, upper = np.linalg.qr(start)
    return np.asarray(orthonormal * np.sign(np.diag(upper)) * np.sqrt(categories))


def synthesise(moments: np.ndarray, first: int = 0) -> np.ndarray:
    """The sum of functions weighted by `moments`, axis by axis from axis `first` on: equation (2)
    times the cells.
    """
    for axis in range(first, moments.ndim):
        moments = _along(contrasts(moments.shape[axis]), moments, axis)
    return moments


def analyse(values: np.ndarray, first: int = 0) -> np.ndarray:
    """Equation (1), axis by axis from axis `first` on."""
    for axis in range(first, values.ndim):
        values = _along(contrasts(values.shape[axis]).T, values, axis)
    return values


def _along(matrix: np.ndarray, values: np.ndarray, axis: int) -> np.ndarray:
    parts = values.reshape(-1, values.shape[axis], prod(values.shape[axis + 1 :]))
    mapped = parts[..., 0] @ matrix.T if parts.shape[2] == 1 else matrix @ parts
    return mapped.reshape(values.shape)


def orders(sizes: Sequence[int]) -> np.ndarray:
    """How many columns a moment speaks of, shape `sizes`."""
    return np.asarray(reduce(np.add.outer, [np.minimum(np.arange(size), 1) for size in sizes]))


def places(columns: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
    """Where the moments of these columns alone stand among all, flat: shape (cells of the
    columns,).
    """
    steps = [np.arange(sizes[column]) * prod(sizes[column + 1 :]) for column in columns]
    return np.asarray(reduce(np.add.outer, steps)).reshape(-1)
