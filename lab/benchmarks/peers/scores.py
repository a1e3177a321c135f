"""How good classifiers are that were trained on released rows, or by a peer: of numpy and
scikit-learn alone, for any environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

Arrays = Mapping[str, np.ndarray]
"""A table as `list_of_tables` writes it."""


def one_hot(codes: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Indicators of every code, shape (rows, sum of sizes)."""
    return np.concatenate(
        [codes[:, [column]] == np.arange(size) for column, size in enumerate(sizes)], axis=1
    ).astype(float)


def of_rows(rows: np.ndarray, table: Arrays) -> dict[str, float]:
    """Of gradient boosting and of logistic regression on rows of bins, label last."""
    sizes, test = table["sizes"], table["test_codes"][:, :-1]
    if len(np.unique(rows[:, -1])) == 1:
        return {"gb": 0.5, "lr": 0.5}
    boosted = HistGradientBoostingClassifier(random_state=0).fit(rows[:, :-1], rows[:, -1])
    linear = LogisticRegression(max_iter=300).fit(one_hot(rows[:, :-1], sizes[:-1]), rows[:, -1])
    return {
        "gb": of_model(boosted, test, table),
        "lr": of_model(linear, one_hot(test, sizes[:-1]), table),
    }


def of_model(model: Any, test: np.ndarray, table: Arrays) -> float:
    """Of scikit-learn's kind of classifier; a class that it does not know is never likely."""
    chances = np.zeros((len(test), int(table["sizes"][-1])))
    likely = np.nan_to_num(np.asarray(model.predict_proba(test)), nan=1 / len(model.classes_))
    chances[:, np.asarray(model.classes_).astype(int)] = likely
    return auc(chances, table)


def auc(chances: np.ndarray, table: Arrays) -> float:
    """Of several classes the mean of each against the rest."""
    truth, classes = table["test_codes"][:, -1], chances.shape[1]
    if classes == 2:
        return float(roc_auc_score(truth, chances[:, 1]))
    present = [label for label in range(classes) if 0 < (truth == label).sum() < len(truth)]
    return float(np.mean([roc_auc_score(truth == label, chances[:, label]) for label in present]))
