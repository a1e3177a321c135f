"""What is said of a model of numbers, which may be worse than the mean: its intervals hold that."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.metrics import mean_absolute_error, r2_score

import dpicl
from dpicl.contract import parse_contract
from dpicl.data.values import number_word
from dpicl.quality import Score
from dpicl.quality.measures import fitted, indicators, scores
from dpicl.report.quality import quality_page
from tests.library.quality.made_up import coded, parted, quality

COLUMNS = {
    "first": {"type": "integer", "bounds": [0, 100]},
    "second": {"type": "integer", "bounds": [0, 100]},
    "kind": {"type": "category", "categories": ["a", "b", "c"]},
    "sold": {"type": "integer", "bounds": [0, 60]},
}
CONTRACT = parse_contract(
    {
        "name": "made_up",
        "source": {"file": "none.csv"},
        "columns": COLUMNS,
        "label": "sold",
        "privacy": {"budget": {"benchmark": True}},
        "split": {"test_fraction": 0.5},
    },
    "made_up.yaml",
)


def values(count: int, seed: int, strength: float) -> dict[str, np.ndarray]:
    """Most of what is sold is little, so that noise makes the label's variance larger."""
    chance = np.random.default_rng(seed)
    first, second = chance.integers(0, 101, (2, count))
    kind = chance.integers(0, 3, count)
    signal = strength * ((first - 50) / 29 + 0.7 * (kind - 1))
    sold = np.exp(2 + 0.5 * signal + 0.6 * chance.normal(size=count)).clip(0, 60).round()
    return {"first": first, "second": second, "kind": kind, "sold": sold.astype(int)}


def scores_of(
    method: str, epsilon: float, seed: int, strength: float, count: int = 10
) -> tuple[Score, ...]:
    rows = parted(coded(CONTRACT, values(5500, 100 + seed, strength)), 1500)
    found = quality(rows, method, epsilon, seed=seed, count=count, declared=CONTRACT)
    return found.scores


def test_scores_of_numbers_are_those_of_scikit_learn_below_zero_too() -> None:
    chance = np.random.default_rng(0)
    sizes, means = (3, 4, 3), np.array([1.0, 5.0, 50.0])
    bins = np.stack([chance.integers(0, size, 400) for size in sizes], axis=1)
    model = fitted(_linear(), bins, sizes)
    others = np.stack([chance.integers(0, size, 400) for size in sizes], axis=1)
    others[:, 2] = chance.random(400) < 0.3
    predicted = model.predict_proba(indicators(others[:, :2], sizes[:2])) @ means
    r2, error = scores(model, others, sizes, means=means)
    assert r2 == pytest.approx(r2_score(means[others[:, 2]], predicted)) and r2 < -1
    assert error == pytest.approx(mean_absolute_error(means[others[:, 2]], predicted) / 49)


def _linear() -> object:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression()


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_an_r2_below_zero_is_in_its_interval_and_is_said_to_be_no_gain(epsilon: float) -> None:
    found = [scores_of("mst_tabicl", epsilon, seed, 0.0)[0] for seed in range(4)]
    true = [score.true or 0.0 for score in found]
    assert min(true) < 0
    assert sum(score.low <= (score.true or 0.0) <= score.high for score in found) >= 3
    for score in found:
        assert score.low < 0 and score.doubt == "not surely better than the mean, which has 0"


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["mst_tabicl", "aim_tabicl"])
def test_intervals_of_r2_hold_what_is_true(method: str) -> None:
    """Tables that nothing was chosen on, of no to a strong signal, at a small and a large ε."""
    held = [
        score.low <= (score.true or 0.0) <= score.high
        for epsilon in (0.5, 3.0)
        for seed in range(16)
        for score in scores_of(method, epsilon, 50 + seed, seed / 10, 20)
    ]
    assert np.mean(held) >= 0.85


def test_a_strong_signal_is_surely_better_than_the_mean() -> None:
    for score in scores_of("mst_tabicl", 8.0, 1, 3.0, 20):
        assert score.is_sure and not score.doubt, score


@pytest.mark.parametrize(("strength", "is_sure"), [(0.0, False), (3.0, True)])
def test_a_predictor_says_whether_it_is_surely_better_than_the_mean(
    tmp_path: Path, strength: float, is_sure: bool
) -> None:
    rows = values(3000, 3, strength)
    table = pd.DataFrame(rows | {"kind": np.array(["a", "b", "c"])[rows["kind"]]})
    schema = {"columns": COLUMNS, "label": "sold"}
    release = dpicl.protect(
        pa.table(table), schema, epsilon=4, account="made_up", population=3000, home=tmp_path
    )
    with warnings.catch_warnings(record=True) as warned:
        release.predictor()
    said = [str(one.message) for one in warned]
    sentence = "made_up: nothing in the release shows that what it predicts is better than the mean"
    assert [one.partition(";")[0] for one in said] == ([] if is_sure else [sentence])
    found = release.quality()
    assert ("not surely better than the mean" in str(found)) is not is_sure
    assert ("not surely better than the mean" in quality_page(found)) is not is_sure


SKEWED = parse_contract(
    {
        "name": "made_up",
        "source": {"file": "none.csv"},
        "columns": {
            "age": {"type": "integer", "bounds": [18, 90]},
            "cost": {"type": "integer", "bounds": [0, 100_000]},
        },
        "privacy": {"budget": {"benchmark": True}},
        "split": {"test_fraction": 0.5},
    },
    "made_up.yaml",
)


def skewed(count: int, seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    rows = {
        "age": chance.integers(18, 91, count),
        "cost": np.exp(chance.normal(7.7, 0.8, count)).clip(0, 100_000).astype(int),
    }
    return pa.table(rows)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_intervals_of_means_hold_the_true_ones(epsilon: float) -> None:
    held = []
    for seed in range(6):
        rows = skewed(2500, seed)
        table = parted(rows, 2000)
        found = quality(table, "aim_tabicl", epsilon, seed=seed, count=20, declared=SKEWED)
        means = {one.column: one.mean for one in found.numbers}
        for name in ("age", "cost"):
            mean = means[name]
            assert mean is not None and mean.low <= mean.value <= mean.high
            true = float(np.mean(rows.column(name).to_numpy()[:2000]))
            held.append(mean.low <= true <= mean.high)
            assert 0 < mean.looseness < 1
    assert np.mean(held) >= 0.75


def test_of_a_column_that_is_missing_in_some_simulations_no_mean_is_said(tmp_path: Path) -> None:
    """Noise clears the one bin that has a row, in one of them at least."""
    table = pa.table({"age": range(1000), "x": [7.5, *999 * [None]]})
    columns = {
        "age": {"type": "integer", "bounds": [0, 1000]},
        "x": {"type": "real", "bounds": [0, 100], "nullable": True},
    }
    release = dpicl.protect(
        table, {"columns": columns}, epsilon=20, account="x", budget=20, home=tmp_path
    )
    found = release.quality(10)
    assert "nan" not in str(found) and "nan" not in quality_page(found)
    assert {one.column: one.mean is None for one in found.numbers} == {"age": False, "x": True}


def test_of_columns_that_are_even_whatever_the_rows_are_no_mean_is_said() -> None:
    table = parted(coded(CONTRACT, values(5500, 1, 1.0)), 1500)
    found = quality(table, "tab_pate", 1.0, count=4, declared=CONTRACT)
    assert [one.column for one in found.numbers if one.mean is None][:2] == ["first", "second"]


def test_the_mean_that_is_least_sure_stands_in_sentences_page_and_frame() -> None:
    table = parted(skewed(2500, 1), 2000)
    found = quality(table, "aim_tabicl", 0.5, count=8, declared=SKEWED)
    (line,) = [one for one in found.sentences() if "means of numbers, with" in one]
    means = [one.mean for one in found.numbers if one.mean is not None]
    first = found.numbers[int(np.argmax([mean.looseness for mean in means]))].column
    assert line.startswith(f"true means of numbers, with 90%: {first} ")
    lines = found.to_frame().set_index(["of", "name"])
    (cost,) = [one.mean for one in found.numbers if one.column == "cost"]
    assert cost is not None
    stated = lines.loc[("mean of a number", "cost")]
    assert (stated["expected"], stated["low"], stated["high"]) == (cost.value, cost.low, cost.high)
    assert f"cost {number_word(cost.low)} to {number_word(cost.high)}" in line
    assert number_word(cost.value) in quality_page(found)
