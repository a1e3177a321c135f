"""Of each place, how many of its kind stand before it."""

from __future__ import annotations

import numpy as np


def rank_within(kinds: np.ndarray) -> np.ndarray:
    """Of each place, how many of its kind stand before it: shape (places,), int64."""
    order = np.argsort(kinds, kind="stable")
    _, starts, counts = np.unique(kinds[order], return_index=True, return_counts=True)
    ranks = np.empty(len(kinds), dtype=np.int64)
    ranks[order] = np.arange(len(kinds)) - np.repeat(starts, counts)
    return ranks
