"""Rows on condition: as the released model has them, and all of them meet what is asked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpicl
from dpicl.data.central.conditional import Conditional
from dpicl.data.central.graphical_model import ModelMarginals, NoisyMarginal, graphical_model
from dpicl.ground.errors import ParameterError
from dpicl.release.release import Release
from tests.library.noise import protect_alike

SCHEMA = {
    "label": "bought",
    "columns": {
        "age": {"type": "integer", "bounds": [18, 99], "nullable": True},
        "spent": {"type": "real", "bounds": [0, 500]},
        "city": {"type": "category", "categories": ["north", "east", "south"], "nullable": True},
        "came": {"type": "date", "bounds": ["2026-01-01", "2026-12-31"]},
        "stars": {"type": "category", "categories": [1, 2, 3]},
        "bought": {"type": "category", "categories": ["no", "yes"]},
    },
}


def rows(count: int = 6000) -> pd.DataFrame:
    """Columns that depend on each other, some cells missing."""
    rng = np.random.default_rng(0)
    age = np.clip(rng.normal(45, 15, count), 18, 99).round()
    city = np.array(["north", "east", "south"])[(age + rng.normal(0, 20, count) > 45).astype(int)]
    yes = rng.random(count) < 0.2 + 0.6 * (city == "east")
    return pd.DataFrame(
        {
            "age": pd.array(np.where(rng.random(count) < 0.1, None, age), "Int64"),
            "spent": np.minimum(rng.lognormal(3, 0.9, count), 500),
            "city": np.where(rng.random(count) < 0.1, None, city),
            "came": [date(2026, 1 + int(month), 5) for month in rng.integers(0, 12, count)],
            "stars": rng.integers(1, 4, count),
            "bought": np.where(yes, "yes", "no"),
        }
    )


@pytest.fixture(scope="module", params=["aim_tabicl", "mst_tabicl"])
def release(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Release]:
    """Of either method that has a model."""
    home = tmp_path_factory.mktemp("home")
    yield protect_alike(
        rows(), SCHEMA, epsilon=2, account=request.param, budget=2, method=request.param, home=home
    )


MEETS: dict[str, tuple[dict[str, Any], Any]] = {
    "a category": ({"city": "north"}, lambda t: t.city == "north"),
    "some categories": ({"city": ["north", "east"]}, lambda t: t.city.isin(["north", "east"])),
    "no value": ({"city": None}, lambda t: t.city.isna()),
    "a missing number": ({"age": None}, lambda t: t.age.isna()),
    "a range that cuts bins": ({"age": (23, 31)}, lambda t: t.age.between(23, 31)),
    "an open range": ({"spent": (60.5, None)}, lambda t: t.spent >= 60.5),
    "one number": ({"age": 40}, lambda t: t.age == 40),
    "numbers and none": ({"age": [40, None, 41]}, lambda t: t.age.isin([40, 41]) | t.age.isna()),
    "dates": (
        {"came": (date(2026, 3, 1), "2026-05-15")},
        lambda t: t.came.between("2026-03-01", "2026-05-15"),
    ),
    "whole numbers as categories": ({"stars": [1, 3]}, lambda t: t.stars.isin([1, 3])),
    "the label": ({"bought": "yes"}, lambda t: t.bought == "yes"),
    "all together": (
        {"city": "north", "age": (18, 40), "bought": "yes"},
        lambda t: (t.city == "north") & t.age.between(18, 40) & (t.bought == "yes"),
    ),
}


@pytest.mark.parametrize("kind", MEETS)
def test_rows_are_those_of_a_large_table_that_meet_it(release: Release, kind: str) -> None:
    where, meets = MEETS[kind]
    found = release.table(2000, where=where)
    assert len(found) == 2000 and meets(found).all()
    assert list(found.dtypes) == list(release.table(10).dtypes)
    large = release.table(200_000)
    expected = large[meets(large).fillna(False).to_numpy(bool)]
    assert len(expected) > 50
    for name in ("bought", "city"):
        theirs = expected[name].fillna("none").astype(str).value_counts(normalize=True)
        ours = found[name].fillna("none").astype(str).value_counts(normalize=True)
        near = 5 * np.sqrt(0.25 / 2000 + 0.25 / len(expected))
        assert (ours.reindex(theirs.index, fill_value=0) - theirs).abs().max() < near
    for name in ("age", "spent"):
        pooled = expected[name].astype(float)
        if pooled.notna().sum() > 50 and pooled.std() > 0:
            error = pooled.std() * np.sqrt(1 / 1500 + 1 / pooled.notna().sum())
            assert abs(found[name].astype(float).mean() - pooled.mean()) < 5 * error


def test_the_same_question_has_the_same_answer_and_files_are_certified(
    release: Release, tmp_path: Path
) -> None:
    where = {"city": {"east", "north"}, "age": (20, 30)}
    table = release.table(300, where=where)
    assert table.equals(release.table(300, where={"age": (20, 30), "city": {"north", "east"}}))
    table.to_parquet(tmp_path / "young.parquet")
    assert pd.read_parquet(tmp_path / "young.parquet").age.between(20, 30).all()
    assert len(list(tmp_path.iterdir())) > 1


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ({"town": "north"}, r"where=town: expected one of age, spent, city"),
        (
            {"city": "west"},
            "where city=.?west.?: expected one of its categories: north, east, south",
        ),
        ({"city": ("north", "east")}, "where city=.*: expected a category, or a list of some"),
        ({"city": []}, r"where city=\[\]: expected a category"),
        ({"age": (1, 2, 3)}, "where age=.*: expected a value, a list of some, or a tuple"),
        ({"age": "old"}, "where age=.*: expected values of type integer"),
        ({"spent": None}, "where spent=.*: expected values, as .* not nullable"),
        (
            {"age": (50, 40)},
            r"where age=\(50, 40\): expected the least first, then the largest",
        ),
        ({"age": 17}, "where age=17: expected some of its bounds, 18 to"),
        ({"age": [3, 900]}, "where age=.*: expected some of its bounds, 18 to"),
        ({"age": (200, 300)}, r"where age=\(200, 300\): expected some of its bounds, 18 to"),
        ({"age": (None, 3)}, "where age=.*: expected some of its bounds, 18 to"),
        ({"age": 40.5}, "where=age is 40.5: expected values that the columns can have"),
    ],
)
def test_what_no_row_can_have_is_one_sentence(
    release: Release, where: dict[str, Any], told: str
) -> None:
    with pytest.raises(ParameterError, match=told):
        release.table(10, where=where)


def test_a_method_without_a_model_says_so(tmp_path: Path) -> None:
    release = dpicl.protect(
        rows(500), SCHEMA, epsilon=5, account="a", budget=5, method="tab_pe", home=tmp_path
    )
    with pytest.raises(ParameterError, match="expected a method with a graphical model of rows"):
        release.table(10, where={"city": "north"})


def test_cautious_labels_are_kept(tmp_path: Path) -> None:
    """Where the counts say little of the label, rows of the model get one that is less sure."""
    noise = rows(800).assign(
        bought=np.random.default_rng(1).choice(["no", "yes"], 800, p=[0.8, 0.2])
    )
    release = protect_alike(
        noise, SCHEMA, epsilon=0.5, account="a", budget=5, home=tmp_path, anyway=True
    )
    large = release.table(100_000)
    for where in ({"stars": 2}, {"stars": 2, "bought": "yes"}):
        found = release.table(3000, where=where)
        expected = large[(large[list(where)] == pd.Series(where)).all(axis=1)]
        for name in ("bought", "city"):
            shares = [
                t[name].fillna("none").astype(str).value_counts(normalize=True)
                for t in (found, expected)
            ]
            assert (shares[0].reindex(shares[1].index, fill_value=0) - shares[1]).abs().max() < 0.06


sizes = st.lists(st.integers(2, 4), min_size=3, max_size=5)


@given(sizes=sizes, seed=st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_the_model_given_weights_is_the_model_times_weights(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    label = len(sizes) - 1
    scopes = {(*sorted(rng.choice(label, 2, replace=False).tolist()), label) for _ in range(2)}
    marginals = [
        NoisyMarginal(scope, rng.gamma(0.5, 100, [sizes[column] for column in scope]).round(), 1.0)
        for scope in sorted(scopes)
    ]
    model = graphical_model(sizes, marginals)
    asked = rng.choice(len(sizes), rng.integers(1, len(sizes)), replace=False).tolist()
    weights = {
        column: rng.random(sizes[column]) * (rng.random(sizes[column]) < 0.7) for column in asked
    }
    everything = ModelMarginals(model).over(range(label))
    joint = everything.copy()
    for column, weight in weights.items():
        joint *= weight.reshape([-1 if axis == column else 1 for axis in range(len(sizes))])
    if joint.sum() < 1e-12:
        with pytest.raises(ParameterError, match="where=a condition that no row"):
            Conditional.of(model, weights)
        return
    given_ = Conditional.of(model, weights)
    drawn = given_.rows(20_000, rng)
    cells = np.ravel_multi_index(tuple(drawn.T), sizes)
    found = np.bincount(cells, minlength=joint.size) / len(drawn)
    expected = (joint / joint.sum()).ravel()
    assert np.abs(found - expected).max() < 0.03
    assert (expected[np.unique(cells)] > 0).all()
