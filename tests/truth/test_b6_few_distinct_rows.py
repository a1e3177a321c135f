"""A number is predicted right from few distinct rows: how often a row occurs counts, and not that
it is one of few.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

import dpicl.release.predictor as predictors
from tests.truth.no_noise import Plain

COUNT = 2000


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield


def whole(high: int) -> dict[str, Any]:
    return {"type": "integer", "bounds": [0, high]}


def real(low: float, high: float, *bins: float) -> dict[str, Any]:
    return {"type": "real", "bounds": [low, high], **({"bins": list(bins)} if bins else {})}


def world(name: str) -> tuple[pd.DataFrame, dict[str, Any], float]:
    """Rows, columns, and the R2 that the mean of each row's kind has: what can be reached."""
    rng = np.random.default_rng(3)
    x, z, flag = rng.integers(0, 10, COUNT), rng.integers(0, 3, COUNT), rng.random(COUNT) < 0.02
    worlds: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "two values": ({"x": x // 5, "y": x // 5}, {"x": whole(1), "y": whole(1)}),
        "ten values and a yes or no": (
            {"x": x, "y": rng.random(COUNT) < x / 9},
            {"x": whole(9), "y": whole(1)},
        ),
        "ten values and ten numbers": ({"x": x, "y": x}, {"x": whole(9), "y": whole(9)}),
        "ten values, falling": ({"x": x, "y": 9 - x}, {"x": whole(9), "y": whole(9)}),
        "ten values, up and down": ({"x": x, "y": (x % 3) * 3}, {"x": whole(9), "y": whole(9)}),
        "categories": (
            {"x": np.array(["a", "b", "c"])[z], "y": z * z},
            {"x": {"type": "category", "categories": ["a", "b", "c"]}, "y": whole(4)},
        ),
        "a boolean": (
            {"x": x > 4, "y": 1.0 * (x > 4)},
            {"x": {"type": "boolean"}, "y": real(0, 1)},
        ),
        "two columns": (
            {"x": x // 3, "z": z, "y": x // 3 + z},
            {"x": whole(3), "z": whole(2), "y": whole(6)},
        ),
        "a rare value": ({"x": flag, "y": 5 * flag}, {"x": {"type": "boolean"}, "y": whole(5)}),
        "few bins of a real number": (
            {"x": x / 10, "y": 0.5 + (x > 4)},
            {"x": real(0, 1, 0.25, 0.5, 0.75), "y": real(0, 2, 1)},
        ),
        "gaps": (
            {"x": pd.array(np.where(z == 0, None, x), "Int64"), "y": np.where(z == 0, 9, x // 3)},
            {"x": {**whole(9), "nullable": True}, "y": whole(9)},
        ),
        "gaps in the label": (
            {"x": x, "y": pd.array(np.where(z == 0, None, x), "Int64")},
            {"x": whole(9), "y": {**whole(9), "nullable": True}},
        ),
        "an effect of one in two columns": (
            {"x": x // 5, "z": z // 2, "y": (x // 5) * (z // 2)},
            {"x": whole(1), "z": whole(1), "y": whole(1)},
        ),
    }
    values, columns = worlds[name]
    rows = pd.DataFrame(values)
    rows["y"] = pd.to_numeric(rows["y"]) * 1 if rows["y"].dtype == bool else rows["y"]
    known = rows[rows["y"].notna()].astype({"y": float})
    means = known.groupby([one for one in columns if one != "y"], dropna=False)["y"].transform(
        "mean"
    )
    return (
        rows,
        columns,
        1
        - float(((known["y"] - means) ** 2).sum() / ((known["y"] - known["y"].mean()) ** 2).sum()),
    )


WORLDS = (
    "two values",
    "ten values and a yes or no",
    "ten values and ten numbers",
    "ten values, falling",
    "ten values, up and down",
    "categories",
    "a boolean",
    "two columns",
    "a rare value",
    "few bins of a real number",
    "gaps",
    "gaps in the label",
    "an effect of one in two columns",
)


def short_of(name: str) -> float:
    """How far a predictor's R2 stays behind what can be reached."""
    rows, columns, best = world(name)
    predictor = Plain.of(rows, columns).predictor()
    known = rows[rows["y"].notna()]
    return best - predictor.score(known, known["y"])


@pytest.mark.parametrize("name", WORLDS)
def test_few_distinct_rows_are_predicted_as_well_as_their_means(name: str) -> None:
    assert short_of(name) < 0.08


def test_a_row_that_occurs_often_weighs_as_much_as_so_many_rows() -> None:
    """On 16 kinds of rows of very different frequency, of which a leaf by kinds could hold none."""
    kinds = pd.DataFrame({"x": np.arange(16), "y": np.arange(16) % 2})
    rows = kinds.loc[np.repeat(np.arange(16), np.arange(16) * 10 + 60)]
    predicted = Plain.of(rows, {"x": whole(15), "y": whole(1)}).predictor().predict(kinds)
    assert (predicted.round() == kinds["y"]).mean() > 0.85
    rare = pd.concat([rows, pd.DataFrame({"x": [15] * 3, "y": [0] * 3})])
    assert (
        abs(Plain.of(rare, {"x": whole(15), "y": whole(1)}).predictor().predict(kinds)[15] - 1)
        < 0.2
    ), "three rows of 213 change little"


def test_classes_of_few_distinct_rows_are_told_apart_by_how_often_they_occur() -> None:
    rng = np.random.default_rng(4)
    x = rng.integers(0, 2, COUNT)
    rows = pd.DataFrame({"x": x, "y": (rng.random(COUNT) < 0.1 + 0.8 * x) * 1})
    predictor = Plain.of(
        rows, {"x": whole(1), "y": {"type": "category", "categories": [0, 1]}}
    ).predictor()
    shares = predictor.predict_proba(pd.DataFrame({"x": [0, 1]}))[:, 1]
    assert np.abs(shares - rows.groupby("x")["y"].mean()).max() < 0.02


class ByKinds(HistGradientBoostingRegressor):  # type: ignore[misc]
    """The fault of before: each kind of row once, with a weight, of which the size of a leaf knows
    nothing.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        kinds, weights = np.unique(np.column_stack([X, y]), axis=0, return_counts=True)
        return super().fit(kinds[:, :-1], kinds[:, -1], sample_weight=weights)


def test_leaves_by_kinds_of_rows_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictors, "HistGradientBoostingRegressor", ByKinds)
    worse = [name for name in WORLDS if short_of(name) > 0.08]
    assert len(worse) > 8, worse
