"""What a user would do instead of asking a model: logistic regression, naive Bayes and gradient
boosting.

Local      fitted on all rows of the same release (post-processing, nothing spent): `lr`, `gnb`, and
           `gb`, boosted trees of eight leaves, whose work is bounded: 100 rounds, fewer of more
           than four classes, on at most 32,768 distinct rows
Central    diffprivlib's models at the same epsilon, two ways:
           `lr`, `gnb`              public bounds, scaling, the full training set
           `lr-naive`, `gnb-naive`  the paper's setting: no scaling and the subsample. It left the
                                    bounds unset, so that diffprivlib read them from the private
                                    rows; here they are public, the one change that privacy needs
At epsilon = infinity all are scikit-learn's own. Group averages are no rows, and too few to fit
anything on: nothing stands for `gb` there.

Of several classes, scikit-learn's logistic regression is multinomial, diffprivlib's one against the
rest with an equal share of epsilon each. A number is predicted as the class of its bin, and
centrally not at all: diffprivlib's price of many classes leaves nothing. A missing number reads as
the middle of its bounds centrally, and as a category of its own locally. Without a label there is
nothing to fit.

Unit        one row.
Neighbours  as diffprivlib states them: replace-one of fixed-size tables.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpicl.contract.models import Contract
from dpicl.data.reading.encode import UNKNOWN, LocalEncoding, label_codes
from dpicl.ground.randomness import Stream
from dpicl.ground.types import EncodedQueries, LabelNumbers, ReleasedRows, Table
from dpicl.methods.evaluation import Metrics, measure, no_confidence

FITTED = ("lr", "gnb", "gb")
"""Classifiers on released rows."""
_MOST_CELLS = 1 << 22
_LEAVES, _ROUNDS, _TREES, _MOST_DISTINCT = 8, 100, 400, 1 << 15


@dataclass(frozen=True)
class Design:
    """Features with public bounds: matrix (rows, features), low and high (features,), norm of a
    row.
    """

    matrix: np.ndarray
    low: np.ndarray
    high: np.ndarray
    norm: float

    def scaled(self, column_count: int) -> Design:
        """Every feature clipped and mapped to [0, 1]; of a column's indicators only one is 1."""
        matrix = (np.clip(self.matrix, self.low, self.high) - self.low) / (self.high - self.low)
        return Design(
            matrix, np.zeros_like(self.low), np.ones_like(self.high), math.sqrt(column_count)
        )


def local_design(bins: np.ndarray, encoding: LocalEncoding) -> np.ndarray:
    """Indicator features of attribute bins (label left out): shape (rows, features)."""
    columns = []
    for index, count in enumerate(encoding.bin_counts[:-1]):
        codes = range(count) if count > 2 else [1]
        columns += [bins[:, index] == code for code in codes]
    return np.stack(columns, axis=1).astype(np.float64)


def central_design(table: Table, contract: Contract, *, one_hot: bool) -> Design:
    """Features of a typed table with the contract's bounds: categories as indicators (`one_hot`),
    else as codes in contract order.
    """
    columns, low, high = [], [], []
    for name in contract.features:
        design = contract.columns[name].design
        values, least, most = design(table.stored(name), one_hot=one_hot)
        columns.append(values)
        low += least
        high += most
    largest = np.maximum(np.abs(low), np.abs(high)).astype(np.float64)
    return Design(
        np.hstack(columns).astype(np.float64),
        np.array(low, dtype=float),
        np.array(high, dtype=float),
        float(np.linalg.norm(largest)),
    )


def _measured(
    model: Any,
    features: np.ndarray,
    truth: np.ndarray,
    classes: int,
    numbers: LabelNumbers | None = None,
) -> Metrics:
    """Of a model that knows two classes at least; one that it does not know is never likely."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        answered = model.predict(features)
        likely = np.nan_to_num(model.predict_proba(features), nan=1 / len(model.classes_))
    confidence = no_confidence(len(truth), classes)
    if classes == 2:
        confidence = likely[:, 1]
    else:
        confidence[:, model.classes_] = likely
    return measure(truth, answered, confidence, numbers=numbers)


def _constant(
    truth: np.ndarray, label: int, classes: int, numbers: LabelNumbers | None = None
) -> Metrics:
    """A training set of one class can teach nothing but that class."""
    return measure(
        truth, np.full_like(truth, label), no_confidence(len(truth), classes), numbers=numbers
    )


def _distinct(codes: np.ndarray, encoding: LocalEncoding) -> tuple[np.ndarray, np.ndarray]:
    """Bins of distinct rows, shape (distinct, attributes), and how many rows are so: models are
    fitted faster on these.
    """
    if math.prod(encoding.sizes) > _MOST_CELLS:
        distinct, weights = np.unique(codes, axis=0, return_counts=True)
    else:  # by the number of their cell, in the same order
        counts = np.bincount(np.ravel_multi_index(tuple(codes.T), encoding.sizes))
        cells = np.flatnonzero(counts)
        distinct = np.stack(np.unravel_index(cells, encoding.sizes), axis=1)
        weights = counts[cells]
    return encoding.decode(distinct), weights


def local_models(rows: ReleasedRows, encoding: LocalEncoding) -> dict[str, Any] | int:
    """LR* and GNB* of released rows; of one class only, that label."""
    bins, weights = _distinct(rows.codes, encoding)
    features = local_design(bins, encoding)
    labels = bins[:, -1]
    if len(np.unique(labels)) < 2:
        return int(labels[0])
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB

    models = {"lr": LogisticRegression(max_iter=1000), "gnb": GaussianNB()}
    return {
        name: model.fit(features, labels, sample_weight=weights) for name, model in models.items()
    }


def boosted(rows: ReleasedRows, encoding: LocalEncoding) -> Any:
    """Boosted trees on the order of the bins of released rows, of two labels at least."""
    # a second to import: only where something is fitted
    from sklearn.ensemble import (
        HistGradientBoostingClassifier,
    )

    bins, weights = _of_boosting(rows, encoding)
    rounds = min(_ROUNDS, max(_TREES // encoding.bin_counts[-1], 1))
    # a distinct row stands for many rows: a leaf needs few of them
    model = HistGradientBoostingClassifier(
        max_iter=rounds,
        max_leaf_nodes=_LEAVES,
        min_samples_leaf=5,
        early_stopping=False,
        random_state=0,
    )
    return model.fit(_ordered(bins), bins[:, -1], sample_weight=weights)


def _of_boosting(rows: ReleasedRows, encoding: LocalEncoding) -> tuple[np.ndarray, np.ndarray]:
    bins, weights = _distinct(rows.codes, encoding)
    if len(bins) <= _MOST_DISTINCT:
        return bins, weights
    # every so many, so that sorted rows are as good as shuffled ones, and one of each label
    _, first = np.unique(rows.codes[:, -1], return_index=True)
    some = np.arange(0, len(rows.codes), -(-len(rows.codes) // _MOST_DISTINCT))
    return _distinct(rows.codes[np.union1d(first, some)], encoding)


def _ordered(bins: np.ndarray) -> np.ndarray:
    """Bins of attributes as numbers, not a number where a report names none: shape (rows,
    attributes).
    """
    return np.where(bins[:, :-1] == UNKNOWN, np.nan, bins[:, :-1])


def local_baselines(
    rows: ReleasedRows,
    encoding: LocalEncoding,
    test: EncodedQueries,
    numbers: LabelNumbers | None = None,
) -> dict[str, Metrics]:
    """LR* and GNB* of tables II and XII, and boosting, on every row of the test part, whose
    `numbers` a label may be; none without a label.
    """
    classes = encoding.bin_counts[-1]
    if classes == 1:
        return {}
    test_features = local_design(test.codes, encoding)
    truth = test.codes[:, -1]
    models = local_models(rows, encoding)
    if isinstance(models, int):
        return dict.fromkeys(FITTED, _constant(truth, models, classes, numbers))
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # workers fit beside each other
        trees = _measured(boosted(rows, encoding), _ordered(test.codes), truth, classes, numbers)
    return {
        **{
            name: _measured(model, test_features, truth, classes, numbers)
            for name, model in models.items()
        },
        "gb": trees,
    }


def central_baselines(
    train: Table,
    subsample: Table,
    test: Table,
    contract: Contract,
    *,
    epsilon: float,
    stream: Stream,
) -> dict[str, Metrics]:
    """The LR and GNB columns of tables III and XIII, fair and naive, on the test part; none of a
    number, and without a label.
    """
    if contract.target.kind in ("number", "none"):
        return {}
    truth = label_codes(test, contract)
    classes = contract.target.count
    results = {}
    for name in ("lr", "gnb", "lr-naive", "gnb-naive"):
        naive = name.endswith("-naive")
        table = subsample if name.endswith("-naive") else train
        designs = [central_design(part, contract, one_hot=name == "lr") for part in (table, test)]
        fitted_on, tested_on = (
            designs if naive else [design.scaled(len(contract.features)) for design in designs]
        )
        labels = label_codes(table, contract)
        if len(np.unique(labels)) < 2:
            results[name] = _constant(truth, int(labels[0]) if len(labels) else 0, classes)
            continue
        model = _central_model(name.removesuffix("-naive"), fitted_on, epsilon, stream)
        results[name] = _measured(
            _fitted(model, fitted_on.matrix, labels), tested_on.matrix, truth, classes
        )
    return results


def _central_model(name: str, design: Design, epsilon: float, stream: Stream) -> Any:
    if math.isinf(epsilon):
        from sklearn.linear_model import LogisticRegression
        from sklearn.naive_bayes import GaussianNB

        return LogisticRegression(max_iter=1000) if name == "lr" else GaussianNB()
    from diffprivlib.models import GaussianNB as PrivateNB
    from diffprivlib.models import LogisticRegression as PrivateLR

    # A seed makes diffprivlib's noise repeatable and insecure: simulation only.
    seed = stream.below(2**31) if stream.simulated else None
    if name == "lr":
        return PrivateLR(epsilon=epsilon, data_norm=design.norm, max_iter=1000, random_state=seed)
    return PrivateNB(epsilon=epsilon, bounds=(design.low, design.high), random_state=seed)


def _fitted(model: Any, features: np.ndarray, labels: np.ndarray) -> Any:
    """A privacy leak is an error; convergence and deprecation warnings are not worth a line."""
    from diffprivlib.utils import PrivacyLeakWarning

    with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", category=PrivacyLeakWarning)
        return model.fit(features, labels)
