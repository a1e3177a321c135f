"""What is said of a model of numbers, which may be worse than the mean: its intervals hold that."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import mean_absolute_error, r2_score

from dpicl.contract import Contract, parse_contract
from dpicl.data.values import Meaning, number_word
from dpicl.ground.types import SplitTable
from dpicl.quality import Score
from dpicl.quality.measures import fitted, indicators, scores
from dpicl.quality.number_quality import of_any_numbers
from dpicl.report.quality import quality_page
from tests.library.noise import protect_alike
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


@pytest.mark.quick("0.5")
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
    sold = COLUMNS["sold"] | {"bins": [2, 5, 10, 20, 40]}  # half of them lie in the first of eight
    schema = {"columns": COLUMNS | {"sold": sold}, "label": "sold"}
    release = protect_alike(
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
    release = protect_alike(
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


def money(top: float, *, predicted: bool) -> Contract:
    """Amounts up to a bound that is far away."""
    columns = {
        "age": {"type": "integer", "bounds": [18, 90]},
        "kind": {"type": "category", "categories": ["a", "b", "c"]},
        "spent": {"type": "real", "bounds": [0, top]},
    }
    content = {
        "name": "made_up",
        "source": {"file": "none.csv"},
        "columns": columns,
        "privacy": {"budget": {"benchmark": True}},
        "split": {"test_fraction": 0.5},
    }
    return parse_contract(content | ({"label": "spent"} if predicted else {}), "made_up.yaml")


def spending(declared: Contract, seed: int) -> SplitTable:
    chance = np.random.default_rng(seed)
    values = {
        "age": chance.integers(18, 91, 4000),
        "kind": chance.integers(0, 3, 4000),
        "spent": np.exp(chance.normal(6.6, 1.0, 4000)),
    }
    return parted(coded(declared, values), 3000)


@pytest.mark.quick("True-3.0-20000", "False-0.5-10000000")
@pytest.mark.parametrize("top", [20_000, 10_000_000])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize("predicted", [True, False])
def test_the_mean_of_money_below_far_bounds_is_in_its_interval(
    top: float, epsilon: float, predicted: bool
) -> None:
    """As a label all of it lies in one of eight equal bins; as a feature noise has rows of millions
    that nobody has spent.
    """
    declared = money(top, predicted=predicted)
    held = []
    for seed in range(5):
        rows = spending(declared, seed)
        found = quality(rows, "aim_tabicl", epsilon, seed=seed, count=10, declared=declared)
        (mean,) = [one.mean for one in found.numbers if one.column == "spent"]
        assert mean is not None and mean.low <= mean.value <= mean.high
        true = float(np.mean(rows.train.data.column("spent").to_numpy()))
        held.append(mean.low <= true <= mean.high)
    assert sum(held) >= 4


def held_of_five(
    declared: Contract, epsilon: float, spent: Callable[[np.random.Generator], np.ndarray]
) -> int:
    """Of five releases, in how many the interval of what is spent holds its true mean."""
    count = 0
    for seed in range(5):
        chance = np.random.default_rng(seed)
        drawn = {
            "spent": spent(chance),
            "age": chance.integers(18, 91, 4000),
            "kind": chance.integers(0, 3, 4000),
        }
        rows = parted(coded(declared, drawn), 3000)
        found = quality(rows, "aim_tabicl", epsilon, seed=seed, count=10, declared=declared)
        (mean,) = [one.mean for one in found.numbers if one.column == "spent"]
        assert mean is not None and mean.low <= mean.value <= mean.high
        true = float(np.mean(rows.train.data.column("spent").to_numpy()))
        count += mean.low <= true <= mean.high
    return count


@pytest.mark.quick("True")
@pytest.mark.parametrize("is_upper", [True, False])
def test_the_mean_of_values_that_were_moved_to_a_bound_is_in_its_interval(
    is_upper: bool,
) -> None:
    """A quarter of them lies at the bound itself, at one end of a bin."""

    def spent(chance: np.random.Generator) -> np.ndarray:
        below = np.clip(np.abs(chance.normal(0, 70, 4000)), 0, 80)
        return below if is_upper else 80 - below

    assert held_of_five(money(80, predicted=True), 3.0, spent) >= 4


@pytest.mark.quick("3.0")
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_the_mean_of_a_tail_in_one_bin_of_most_of_the_bounds_is_in_its_interval(
    epsilon: float,
) -> None:
    """Multiples of 2.5, hardly any above 20: many lie at the inner edge of the last bin."""

    def spent(chance: np.random.Generator) -> np.ndarray:
        return 2.5 * (1 + chance.poisson(2.2, 4000))

    assert held_of_five(money(60, predicted=False), epsilon, spent) >= 4


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_of_a_label_in_one_bin_no_score_is_known(epsilon: float) -> None:
    """Its true R2 is about -40,000: predicted are middles of millions."""
    declared = money(10_000_000, predicted=True)
    found = quality(spending(declared, 0), "mst_tabicl", epsilon, count=10, declared=declared)
    r2, error = found.scores
    assert r2.is_unknown and r2.low < -100 and error.is_unknown
    assert not r2.is_sure and error.high > 600_000
    said = [line for line in str(found).splitlines() if "fitted on released rows" in line]
    assert [line.partition("; in truth")[0].strip() for line in said] == [
        f"{measure} of a model fitted on released rows: unknown, as the release tells too little "
        "of it"
        for measure in ("R2", "MAE")
    ]
    page = quality_page(replace(found, row_count=3000.0, effective_rows=3000.0))
    assert "inf" not in page and page.count("<dd>unknown</dd>") == 2
    frame = found.to_frame().set_index(["of", "name"])
    assert frame.loc[("model", "R2"), ["expected", "low", "high"]].isna().all()


@given(st.integers(0, 10_000), st.floats(0.5, 1.0), st.floats(0.0, 1.0))
def test_scores_hold_for_any_numbers_in_the_bin_of_most(
    seed: int, crowd: float, where: float
) -> None:
    """Of a release without noise, whose scores by means of bins are known."""
    chance = np.random.default_rng(seed)
    edges = (0.0, 10.0, 30.0, 100.0)
    meaning = Meaning("x", "real", edges=edges)
    means = np.array([5.0, 20.0, 65.0])
    most = int(chance.integers(3))
    codes = np.where(chance.random(400) < crowd, most, chance.integers(0, 3, 400))
    shares = np.bincount(codes, minlength=3) / 400
    predicted = chance.uniform(0, 100) + chance.normal(0, 10, 400)
    by_bins = means[codes]
    wide = np.diff(edges)[most]
    spread = chance.random(400) * where
    true = np.where(codes == most, edges[most] + wide * (where + spread) / 2, by_bins)
    if np.var(by_bins) < 1 or np.var(true) < 1e-6:
        return
    for measure, score in (("R2", r2_score), ("MAE", mean_absolute_error)):
        unit = 60.0 if measure == "MAE" else 1.0
        seen = float(score(by_bins, predicted)) / unit
        low, high = of_any_numbers(measure, (seen,) * 3, meaning, means, shares, np.zeros(3))[1:]
        assert low - 1e-9 <= score(true, predicted) / unit <= high + 1e-9


@pytest.mark.parametrize(
    ("measure", "low", "high", "constant", "is_unknown"),
    [
        ("AUC", 0.0005, 1.0, 0.5, True),
        ("AUC", 0.5, 0.98, 0.5, True),
        ("AUC", 0.5, 0.9, 0.5, False),
        ("AUC", 0.51, 1.0, 0.5, False),
        ("AUC", 0.0005, 1.0, None, False),
        ("accuracy", 0.8, 0.998, 0.9, True),
        ("accuracy", 0.8, 0.95, 0.9, False),
        ("R2", -4.6, 0.32, 0.0, False),
        ("R2", -4.6, 1.0, 0.0, True),
        ("R2", -np.inf, 0.3, 0.0, True),
        ("MAE", 0.1, 30.0, 20.0, True),
        ("MAE", 5.0, 30.0, 20.0, False),
        ("MAE", 0.1, 10.0, 20.0, False),
    ],
)
def test_an_interval_from_no_gain_to_all_but_perfect_is_no_number(
    measure: str, low: float, high: float, constant: float | None, is_unknown: bool
) -> None:
    score = Score(measure, (max(low, -1) + high) / 2, low, high, 0.5, None, constant)
    assert score.is_unknown is is_unknown
    parts = list(score.parts)
    assert bool(parts[0].startswith("unknown")) is is_unknown
    assert not is_unknown or (len(parts) == 1 and not any(letter.isdigit() for letter in parts[0]))
