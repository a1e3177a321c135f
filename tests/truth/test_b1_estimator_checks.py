"""scikit-learn's own checks of estimators, on predictors of contracts as wide as the checks' data.

A predictor takes the columns of its contract and nothing else, while every check has data of
another width: `OfItsData` makes the contract that the data would have, which is public, and hands
everything on to a `Predictor`. Checks that cannot apply stand in `NOT_APPLICABLE`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.utils import Tags, check_array, column_or_1d
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from dpicl.contract.base import as_written
from dpicl.contract.columns.category import ValueType
from dpicl.data.values import Meaning
from dpicl.release.predictor import Bins, Labels, Predictor

_TYPES: dict[str, ValueType] = {"i": "integer", "u": "integer", "f": "real", "b": "boolean"}
NOT_APPLICABLE = {
    "check_dtype_object": "a cell that is a mapping is refused as a ValueError in a sentence without it; the check "  # noqa: E501
    "expects a TypeError of float()",
}
"""{check: why it cannot apply}."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield


class OfItsData(BaseEstimator):  # type: ignore[misc]
    """A predictor of the columns that the data have."""

    def fit(self, X: Any, y: Any) -> Any:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        self.n_features_in_ = check_array(X, dtype=None, ensure_all_finite=False).shape[1]
        if hasattr(X, "columns") and all(isinstance(name, str) for name in X.columns):
            self.feature_names_in_ = np.array(X.columns, dtype=object)
        names = getattr(
            self, "feature_names_in_", [str(place) for place in range(self.n_features_in_)]
        )
        meanings = tuple(
            Meaning(name, "real", True, edges=tuple(np.linspace(-5, 5, 33))) for name in names
        )
        labels, model = self._labels(column_or_1d(np.asarray(y)))
        self.predictor_ = Predictor([("bins", Bins(meanings)), ("model", model)], labels).fit(X, y)
        return self

    def predict(self, X: Any) -> Any:
        check_is_fitted(self)
        return self.predictor_.predict(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        return self.predictor_.score(X, y, sample_weight)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class Classes(ClassifierMixin, OfItsData):  # type: ignore[misc]
    def _labels(self, y: Any) -> tuple[Labels, Any]:
        check_classification_targets(y)
        kind = _TYPES.get(y.dtype.kind, "category")
        meaning = Meaning(
            "y", kind, categories=tuple((as_written(one),) for one in np.unique(y).tolist())
        )
        return Labels(
            meaning, tuple(meaning.value(one) for (one,) in meaning.categories), False
        ), LogisticRegression(max_iter=1000)

    @property
    def classes_(self) -> Any:
        return self.predictor_.classes_

    def predict_proba(self, X: Any) -> Any:
        check_is_fitted(self)
        return self.predictor_.predict_proba(X)


class Numbers(RegressorMixin, OfItsData):  # type: ignore[misc]
    def _labels(self, y: Any) -> tuple[Labels, Any]:
        model = HistGradientBoostingRegressor(
            max_iter=20, max_leaf_nodes=8, early_stopping=False, random_state=0, min_samples_leaf=5
        )
        return Labels(
            Meaning("y", "real", edges=tuple(np.linspace(-500, 500, 33))), (), True
        ), model


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([Classes(), Numbers()], expected_failed_checks=lambda _: NOT_APPLICABLE)
def test_the_checks_of_scikit_learn_hold(estimator: Any, check: Any) -> None:
    check(estimator)
