"""A predictor fitted on released rows only, on the bins of every column.

    classes    the mean of two models. Logistic regression on an indicator for each bin and, of
               numbers, where the value lies among the values and among the rows, of so little
               weight as a tenth of the rows there are: noise is learned by more, as rows that are
               drawn cost nothing. Boosted trees on the bins' order, which find what several columns
               say together; of eight leaves, and with half the weight, where there are few rows.
               Where releases simulated from this one do not show that the answers are right about
               as often as the most frequent label, that is what is answered, with probabilities in
               the same order
    numbers    boosted trees of eight leaves on the bins' order, of the mean of each of the label's
               bins. They are fitted on every row, though many are alike: scikit-learn's least size
               of a leaf counts rows, whatever they weigh

On nine public sets at epsilon 1 and 10 the AUC is as high, on average, as the better one of two
models has that are fitted on `release.table()` (`make bench TOPIC=accuracy`).

What is predicted is of the contract's type: a category as the contract writes it, the answer where
a rule puts several values together, a number or a date. Labels that are given to `score` or `fit`
are converted to that, one by one.

Guarantee   none spent: post-processing of released rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import Tags, check_array, column_or_1d, get_tags

from dpicl.contract.columns.base import is_text
from dpicl.contract.models import Contract
from dpicl.data.reading.encode import UNKNOWN
from dpicl.data.reading.typed_columns import as_arrow, column_of
from dpicl.data.values import Meaning, RowForm
from dpicl.ground.errors import DataError, DpiclError
from dpicl.ground.types import ReleasedRows

_FEW_LEAVES, _LEAVES, _FEW_TREES, _TREES, _FEW_ROWS = 8, 31, 60, 100, 2000
_WEIGHT, _BIN, _LINEAR = 0.1, 0.3, 3.0
"""Of logistic regression: its rows for each row there is; and how easily what a bin of a number
adds is learned, and a slope, where a category has 1.
"""
_SHOWN = 9
GIVEN_ROWS = "rows that were given to `fit`, as private as these"
_STEPS = (1.0, 0.8, 0.6, 0.45, 0.35, 0.25, 0.18, 0.12, 0.08, 0.05, 0.03, 0.02, 0.01)
_UNLIKE, _LEAST = 1 / 500, 1e-9
"""Of `Cautious`: t, the rows that may have another answer, and the least probability."""


class RowsError(DataError, ValueError):
    """Rows or labels that a predictor cannot take; scikit-learn expects a ValueError."""


class Bins(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """From rows with the contract's columns (others are not looked at) to bins, as numbers: 2.5 is
    the middle of the third.

    Rows are a data frame of pandas, polars or Arrow, or an array with these columns, in this order,
    and no others.
    """

    def __init__(self, meanings: Sequence[Meaning]) -> None:
        self.meanings = meanings

    @property
    def feature_names_in_(self) -> np.ndarray:
        """The columns."""
        return np.array(
            list(dict.fromkeys(meaning.column for meaning in self.meanings)), dtype=object
        )

    @property
    def n_features_in_(self) -> int:
        """Their number."""
        return len(self.feature_names_in_)

    def fit(self, rows: Any, labels: Any = None) -> Bins:
        """There is nothing to learn: bins are public."""
        return self

    def transform(self, rows: Any) -> np.ndarray:
        """Shape (rows, columns), float64; nan where a column cannot hold the value.

        Raises:
            RowsError: there are no rows, a column is missing, or one is of another kind than the
                contract's.
        """
        try:
            table = self._table(rows)
            found = np.stack(
                [meaning.positions(table.column(meaning.column)) for meaning in self.meanings],
                axis=1,
            )
            return np.where(found == UNKNOWN, np.nan, found)
        except DataError as error:
            raise RowsError(error.where, error.rule, column=error.column) from None

    def _table(self, rows: Any) -> pa.Table:
        """Rows with all columns, and at least one row; of a frame other columns may be of any
        kind.
        """
        names = list(self.feature_names_in_)
        if not hasattr(rows, "columns") and not hasattr(rows, "__arrow_c_stream__"):
            array = None
            rule = ""
            try:
                array = check_array(rows, dtype=None, ensure_all_finite=False)
            except ValueError as error:  # which shows all values in its further lines
                rule = str(error).partition("\n")[0].rstrip(":.")
            if array is None:
                told = f"{rule}. Reshape your data; expected a table of shape (rows, columns)"
                raise RowsError("rows", told)
            if array.shape[1] != len(names):
                shape = (
                    f"X has {array.shape[1]} features, but Bins is expecting {len(names)} "
                    f"features as input"
                )
                raise RowsError("rows", f"{shape}: {', '.join(names)}, in this order")
            rows = pd.DataFrame(array, columns=names)
        elif all(name in getattr(rows, "columns", ()) for name in names):
            rows = rows[names]
        table = as_arrow(rows)
        missing = [name for name in names if name not in table.column_names]
        if missing:
            raise RowsError(
                "rows",
                f"is not among the columns; expected all of {', '.join(names)}",
                column=missing[0],
            )
        if doubled := [name for name in names if table.column_names.count(name) > 1]:
            raise RowsError(
                "rows", "stands there twice; expected columns of distinct names", column=doubled[0]
            )
        if not table.num_rows:
            raise RowsError("rows", "Found array with 0 sample(s); expected at least one row")
        return table

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"Bins({', '.join(meaning.column for meaning in self.meanings)})"


class BinFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """From `Bins` to features of a linear model: an indicator of each bin and, of a number, lines
    that are straight from end to end of a bin; zeros of nan.

    Args:
        counts: bins of every column.
        lines: of every column, at the ends of a number's bins: shape (ends, lines).
    """

    def __init__(self, counts: Sequence[int], lines: Sequence[np.ndarray]) -> None:
        self.counts = counts
        self.lines = lines

    def fit(self, bins: np.ndarray, labels: Any = None) -> BinFeatures:
        """There is nothing to learn."""
        return self

    def transform(self, bins: np.ndarray) -> np.ndarray:
        """Shape (rows, features), float64."""
        features = []
        for count, lines, column in zip(self.counts, self.lines, bins.T, strict=True):
            codes = np.nan_to_num(column, nan=count).astype(np.int64)
            height = _BIN if lines.size else 1.0
            features.append(np.eye(count + 1, count)[codes] * height)
            inner = len(lines) - 1
            for line in lines.T:
                along = np.interp(column, np.arange(inner + 1), line)
                features.append(np.where(codes < inner, along, 0)[:, np.newaxis])
        return np.hstack(features)

    def __sklearn_is_fitted__(self) -> bool:
        return True


@dataclass(frozen=True)
class Labels:
    """What a label is predicted as.

    Attributes:
        meaning: of its codes.
        of_code: what each code is predicted as, a category, an answer or a number; None of a
            missing label.
        is_number: whether it is predicted as a number.
    """

    meaning: Meaning
    of_code: tuple[Any, ...]
    is_number: bool

    @staticmethod
    def of(meaning: Meaning, contract: Contract) -> Labels:
        """Of the contract's label."""
        is_number = contract.target.kind == "number"
        if is_number:
            middles = contract.numbers[meaning.column].middles()
            return Labels(
                meaning,
                tuple(None if isinstance(middle, str) else middle for middle in middles),
                is_number,
            )
        if meaning.categories and all(len(some) == 1 for some in meaning.categories):
            return Labels(
                meaning,
                tuple(meaning.value(category) for (category,) in meaning.categories),
                is_number,
            )
        return Labels(meaning, contract.target.answers, is_number)

    @cached_property
    def classes(self) -> np.ndarray:
        """What can be predicted, sorted, in its own type; nothing of a number."""
        return np.unique(
            np.array([value for value in self.of_code if value is not None and not self.is_number])
        )

    @cached_property
    def targets(self) -> np.ndarray:
        """What the model learns for each code: the number, or the place of its class; NaN or
        `UNKNOWN` of a missing label.
        """
        if self.is_number:
            return np.array([np.nan if value is None else value for value in self.of_code])
        return np.array(
            [
                UNKNOWN if value is None else np.searchsorted(self.classes, value)
                for value in self.of_code
            ]
        )

    def read(self, labels: Any) -> np.ndarray:
        """What the model learns for labels, of values of the column or of answers, each converted
        by itself: shape (rows,).

        Raises:
            RowsError: one is missing, or neither of the two.
        """
        name = self.meaning.column
        try:
            values = pa.chunked_array([_label_column(name, labels)])
            if self.is_number:
                targets = self.meaning.numbers(values)
                known = ~np.isnan(targets)
            else:
                codes = self._codes(values)
                targets = np.where(codes == UNKNOWN, UNKNOWN, self.targets[codes])
                known = targets != UNKNOWN
        except DataError as error:
            raise RowsError("labels", error.rule, column=name) from None
        if not known.all():
            stated = ", ".join(map(str, self.classes[:_SHOWN])) + (
                ", …" if len(self.classes) > _SHOWN else ""
            )
            raise RowsError(
                "labels",
                f"is missing or unknown in some rows; expected {stated or 'a number'}",
                column=name,
            )
        return targets

    def _codes(self, values: pa.ChunkedArray) -> np.ndarray:
        """Of values of the column, and of answers where it has no such value; of a number that is
        cut, a text that is an answer is one.
        """
        answers = {
            answer: code for code, answer in enumerate(self.of_code) if isinstance(answer, str)
        }
        texts = (
            values.to_pylist() if is_text(getattr(values.type, "value_type", values.type)) else []
        )
        worded = np.array(
            [answers.get(str(text), UNKNOWN) for text in texts or [None] * len(values)],
            dtype=np.int64,
        )
        if self.meaning.categories:
            codes = self.meaning.codes(values)
            return np.where(codes == UNKNOWN, worded, codes)
        rest = pc.if_else(worded == UNKNOWN, values.cast(pa.string()), None) if texts else values
        return np.where(worded == UNKNOWN, self.meaning.codes(rest), worded)


def _label_column(name: str, labels: Any) -> pa.Array:
    """Labels of pandas, polars, Arrow, numpy or a list, of shape (rows,) or (rows, 1)."""
    if isinstance(labels, pa.Array | pa.ChunkedArray) or (
        hasattr(labels, "__arrow_c_stream__") and not hasattr(labels, "iloc")
    ):
        column = pa.chunked_array(labels).combine_chunks()
        # a table of one column
        if pa.types.is_struct(column.type) and column.type.num_fields == 1:
            return column.field(0)
        return column
    if not isinstance(labels, pd.Series):
        labels = pd.Series(column_or_1d(labels, warn=True))
    return column_of(name, labels)


class Cautious(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose answers are the most frequent label for all but a few rows, in the order
    of its own probabilities: where what it has learned may be noise.

    Shares of labels times (p / share)^t, t as large as that allows.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: np.ndarray, y: np.ndarray) -> Cautious:
        """Fit the model, and find t by these rows."""
        self.model.fit(X, y)
        self.classes_ = self.model.classes_
        self.shares_ = np.array([np.mean(y == one) for one in self.classes_])
        self.step_ = 0.0
        logs = self._logs(X)
        for step in _STEPS:
            answers = (step * logs + np.log(self.shares_)).argmax(axis=1)
            if np.mean(answers != self.shares_.argmax()) <= _UNLIKE:
                self.step_ = step
                break
        return self

    def _logs(self, X: np.ndarray) -> np.ndarray:
        chances = np.maximum(self.model.predict_proba(X), _LEAST)
        return np.asarray(np.log(chances) - np.log(self.shares_))

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Shape (rows, labels)."""
        leaning = self.step_ * self._logs(X) + np.log(self.shares_)
        return np.asarray(softmax(leaning, axis=1))

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Shape (rows,)."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])


class Predictor(Pipeline):  # type: ignore[misc]
    """`Bins`, and a model of them that learns places of classes, whose values scikit-learn may take
    for numbers; labels may come in any type that the contract reads.
    """

    def __init__(self, steps: list[tuple[str, Any]], labels: Labels) -> None:
        super().__init__(steps)
        self.labels = labels

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """What it predicts, what it was fitted on, and from which columns; scikit-learn's own
        shows every array.
        """
        columns = ", ".join(meaning.column for meaning in self.steps[0][1].meanings)
        fitted_on = getattr(self, "_fitted_on", "nothing yet")
        return (f"Predictor of {self.labels.meaning.column}, fitted on {fitted_on}, by {columns}")[
            :N_CHAR_MAX
        ]

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """What a notebook shows: the same above the steps."""
        shown = super()._repr_mimebundle_(**options)
        if "text/html" in shown:
            shown["text/html"] = f"<p>{escape(repr(self))}</p>{shown['text/html']}"
        return shown

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.steps[0][1]).input_tags
        return tags

    def __getitem__(self, place: Any) -> Any:
        """A step, or a plain pipeline of some."""
        if isinstance(place, slice):
            return Pipeline(self.steps[place])
        return super().__getitem__(place)

    def fit(self, X: Any, y: Any = None, **params: Any) -> Predictor:
        """Fit the model to other rows than the released ones, which says of itself that it may
        then be as private as these.
        """
        self._fitted_on = GIVEN_ROWS
        super().fit(X, None if y is None else self.labels.read(y), **params)
        return self

    @property
    def classes_(self) -> np.ndarray:
        """What is predicted, in the order of `predict_proba`."""
        return self.labels.classes[self.steps[-1][1].classes_]

    def predict(self, X: Any) -> np.ndarray:
        """Numbers, days or seconds as numpy's datetime64, or classes."""
        predicted = np.asarray(super().predict(X))
        if not self.labels.is_number:
            return self.labels.classes[predicted]
        number = self.labels.meaning.number
        return predicted if number.plain else number.restored(np.rint(predicted))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy, or R2 of a number."""
        return float(
            super().score(
                X, None if y is None else self.labels.read(y), sample_weight=sample_weight
            )
        )


def fitted(
    rows: ReleasedRows,
    form: RowForm,
    contract: Contract,
    count: float | None = None,
    *,
    is_sure: bool = True,
) -> Predictor:
    """A pipeline of `Bins` and a model, which predicts values of the label's column, or else its
    answers.

    Args:
        count: how many rows there are, as far as the release says; those given if None.
        is_sure: whether what is learned may name other labels than the most frequent one.

    Raises:
        DpiclError: the contract has no label.
    """
    if form.label is None or not form.features:
        raise DpiclError(
            f"{contract.name}: states no label, or nothing to predict it from; expected `label` "
            f"and one more column"
        )
    seen = form.seen(rows.codes)
    assert seen.label is not None
    labels = Labels.of(form.label, contract)
    bins = form.encoding.decode(rows.codes)
    targets = labels.targets
    if labels.is_number:
        targets = np.where(np.isnan(targets), np.nan, seen.label.means(len(targets)))
        bins = bins[~np.isnan(targets[bins[:, -1]])]
    else:
        bins = bins[targets[bins[:, -1]] != UNKNOWN]
    if not len(bins):
        raise DpiclError(
            f"{contract.name}: no released row has a label; expected a larger epsilon, or "
            f"`release.table()`"
        )
    count = len(bins) if count is None else count
    learned = targets[bins[:, -1]]
    shown = np.stack(
        [
            np.append(meaning.mean_positions, np.nan)[codes]
            for meaning, codes in zip(seen.features, bins[:, :-1].T, strict=True)
        ],
        axis=1,
    )
    if labels.is_number:
        model: Any = make_pipeline(
            FunctionTransformer(np.floor),
            HistGradientBoostingRegressor(
                max_leaf_nodes=_FEW_LEAVES, early_stopping=False, random_state=0
            ),
        )
    elif len(np.unique(learned)) > 1:
        both = _linear_and_trees(seen.features, count, len(bins))
        model = both if is_sure else Cautious(both)
    else:
        model = DummyClassifier()
    model.fit(shown, learned)
    predictor = Predictor([("bins", Bins(form.features)), ("model", model)], labels)
    predictor._fitted_on = "released rows only"
    return predictor


def _linear_and_trees(features: Sequence[Meaning], count: float, drawn: int) -> VotingClassifier:
    """The two models of classes, for so many rows of which so many are drawn."""
    in_bins = BinFeatures(
        [meaning.count for meaning in features], [_lines(meaning) for meaning in features]
    )
    linear = LogisticRegression(C=_WEIGHT * count / drawn, max_iter=1000)
    is_small = count < _FEW_ROWS
    trees = HistGradientBoostingClassifier(
        max_leaf_nodes=_FEW_LEAVES if is_small else _LEAVES,
        max_iter=_FEW_TREES if is_small else _TREES,
        early_stopping=False,
        random_state=0,
    )
    return VotingClassifier(
        [
            ("linear", make_pipeline(in_bins, linear)),
            ("trees", make_pipeline(FunctionTransformer(np.floor), trees)),
        ],
        voting="soft",
        weights=[2, 1] if is_small else None,
    )


def _lines(meaning: Meaning) -> np.ndarray:
    """At the ends of the bins of a number, standardised: the value, and the rank among the rows."""
    if meaning.categories:
        return np.empty((0, 0))
    shares = np.array(meaning.shares)
    until = np.cumsum(shares)
    lines = []
    for at_ends, of_bins in (
        (np.array(meaning.ends), meaning.means(len(shares))),
        (np.append(0, until), until - shares / 2),
    ):
        mean = shares @ of_bins
        # of bins, and of what lies anywhere in them
        variance = shares @ ((of_bins - mean) ** 2 + np.diff(at_ends) ** 2 / 12)
        spread = float(np.sqrt(variance)) or np.inf
        lines.append(_LINEAR * (at_ends - mean) / spread)
    return np.stack(lines, axis=1)
