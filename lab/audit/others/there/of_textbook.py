"""Mechanisms as textbooks print them, with what is known to be wrong in three of them. Needs numpy.

laplace     value + b sign(u) ln(1 - 2|u|), all in doubles
geometric   value + difference of two geometric numbers, in whole numbers
sparse      above-threshold queries; without noise on the queries, and with neither a stop nor
            more noise after the first
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_QUERIES = 200


def laplace(which: bool, count: int, seed: int) -> Array:
    """Of no row, and one."""
    uniform = np.random.default_rng(seed).random(count) - 0.5
    return float(which) - np.sign(uniform) * np.log(1 - 2 * np.abs(uniform))


def geometric(which: bool, count: int, seed: int) -> Array:
    """Of no row, and one."""
    rng, stop = np.random.default_rng(seed), 1 - np.exp(-1.0)
    return int(which) + rng.geometric(stop, count) - rng.geometric(stop, count)


def sparse_without_query_noise(which: bool, count: int, seed: int) -> Array:
    """Answers 0 and 1 of two queries against 1 and 0: shape (runs, 2)."""
    threshold = np.random.default_rng(seed).laplace(0.0, 2.0, (count, 1))
    return np.array([[1, 0] if which else [0, 1]]) >= threshold


def sparse_without_stop(which: bool, count: int, seed: int) -> Array:
    """How many more of the second half of the queries are above than of the first: their answers
    are 1 and 0, or 0 and 1.
    """
    rng = np.random.default_rng(seed)
    threshold = rng.laplace(0.0, 2.0, (count, 1))
    half = _QUERIES // 2
    answers = np.array([[int(which)] * half + [int(not which)] * half])
    above = answers + rng.laplace(0.0, 2.0, (count, _QUERIES)) >= threshold
    return above[:, half:].sum(axis=1) - above[:, :half].sum(axis=1)


STATED = dict.fromkeys(
    ("laplace", "geometric", "sparse_without_query_noise", "sparse_without_stop"),
    lambda: (1.0, 0.0),
)
DRAWN = {
    "laplace": laplace,
    "geometric": geometric,
    "sparse_without_query_noise": sparse_without_query_noise,
    "sparse_without_stop": sparse_without_stop,
}
