"""What the model is held against: a kernel vote and logistic regression on the same shots."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression


def vote(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """For every row the weighted share of label 1 among the rows before it: shape (rows,).

    The weight of a row at distance d is exp(-d^2 / 2), so that each differing part counts e times
    less. The first row gets 0.5.
    """
    squares = ((features[:, None] - features[None]) ** 2).sum(-1)
    nearest = np.where(np.tri(len(labels), k=-1, dtype=bool), squares, np.inf)
    weights = np.exp(-(nearest - np.minimum(nearest.min(axis=1, keepdims=True), 1e9)) / 2)
    return np.asarray((weights @ labels + 1e-9) / (weights.sum(axis=1) + 2e-9))


def logistic(features: np.ndarray, labels: np.ndarray) -> float:
    """Log-odds of the last row by logistic regression on those before it."""
    shown = labels[:-1]
    if shown.min() == shown.max():
        return float(20 * shown[0] - 10)
    return float(LogisticRegression().fit(features[:-1], shown).decision_function(features[-1:])[0])
