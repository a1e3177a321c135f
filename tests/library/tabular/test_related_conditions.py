"""Rows on condition of a contract with relations: all meet the condition, all keep the relations,
and what no row can do is said with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpicl
from dpicl.contract import parse_contract
from dpicl.contract.models import Contract
from dpicl.data.conditions import conditional_form
from dpicl.data.ruled_out import check_can_be_met
from dpicl.data.values import central_form
from dpicl.ground.errors import DeclarationError, DpiclError, ParameterError
from dpicl.release.release import Release, check_where
from tests.library.noise import protect_alike

SCHEMA: dict[str, Any] = {
    "label": "late",
    "columns": {
        "interest": {"type": "real", "bounds": [0, 2000], "decimals": 2},
        "repayment": {"type": "integer", "bounds": [0, 2000], "bins": [200, 500, 1000]},
        "rate": {"type": "real", "bounds": [0, 4000], "bins": [300, 600, 1000, 2000]},
        "fee": {"type": "integer", "bounds": [0, 50], "nullable": True},
        "due": {"type": "real", "bounds": [0, 4050], "nullable": True},
        "opened": {"type": "date", "bounds": ["2020-01-01", "2024-12-31"]},
        "closed": {"type": "date", "bounds": ["2020-01-01", "2026-12-31"], "nullable": True},
        "least": {"type": "integer", "bounds": [0, 4000], "bins": [100, 500, 1500]},
        "sex": {"type": "category", "categories": ["f", "m"]},
        "pregnant": {"type": "category", "categories": ["no", "yes"]},
        "late": {"type": "category", "categories": ["no", "yes"]},
    },
    "relations": [
        {"rising": ["least", "rate"], "or_equal": True},
        {"total": "due", "parts": ["rate", "fee"]},
        {"total": "rate", "parts": ["interest", "repayment"]},
        {"rising": ["opened", "closed"]},
        {"never": {"sex": "m", "pregnant": "yes"}},
    ],
}
NUMBERS = {"interest": 2000, "repayment": 2000, "rate": 4000, "fee": 50, "due": 4050, "least": 4000}


def rows(count: int = 5000) -> pd.DataFrame:
    """Loans, all of which keep the relations."""
    rng = np.random.default_rng(5)
    interest = rng.gamma(2, 150, count).round(2).clip(0, 1500)
    repayment = rng.integers(0, 900, count)
    rate = (interest + repayment).round(2)
    fee = rng.integers(0, 50, count)
    male = rng.random(count) < 0.5
    opened = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1800, count), "D")
    closed = opened + pd.to_timedelta(rng.integers(1, 700, count), "D")
    return pd.DataFrame(
        {
            "interest": interest,
            "repayment": repayment,
            "rate": rate,
            "fee": pd.array(np.where(rng.random(count) < 0.1, None, fee), "Int64"),
            "due": (rate + fee).round(2),
            "opened": opened,
            "closed": pd.Series(closed).where(rng.random(count) < 0.7),
            "least": (rate * rng.random(count)).astype(int),
            "sex": np.where(male, "m", "f"),
            "pregnant": np.where(~male & (rng.random(count) < 0.3), "yes", "no"),
            "late": rng.choice(["no", "yes"], count),
        }
    )


def contract_of(relations: list[dict[str, Any]]) -> Contract:
    content = {
        "version": 2,
        "name": "loans",
        "source": {"file": "loans.csv"},
        "privacy": {"budget": {"epsilon": 1}},
        **SCHEMA,
        "relations": relations,
    }
    contract = parse_contract(content, "loans.yaml")
    assert isinstance(contract, Contract)
    return contract


@pytest.fixture(scope="module")
def release(tmp_path_factory: Any) -> Iterator[Release]:
    """Of rows with every kind of relation, one sum within another."""
    home = tmp_path_factory.mktemp("home")
    yield protect_alike(rows(), SCHEMA, epsilon=3, account="loans", budget=3, home=home)


def assert_kept(table: pd.DataFrame) -> None:
    assert np.allclose(table.rate, table.interest + table.repayment, atol=1e-6)
    due = table.due.notna() & table.fee.notna()
    assert np.allclose(table.due[due], (table.rate + table.fee.astype(float))[due], atol=1e-6)
    assert (table.least <= table.rate).all()
    closed = table.closed.notna()
    assert (table.opened[closed] < table.closed[closed]).all()
    assert not ((table.sex == "m") & (table.pregnant == "yes")).any()


def meets(values: pd.Series, asked: Any) -> pd.Series:
    """Whether each value meets what is asked of its column, by pandas alone."""
    if isinstance(asked, tuple):
        low, high = asked
        met = values.notna()
        met &= True if low is None else (values >= low).fillna(False)
        return met & (True if high is None else (values <= high).fillna(False))
    some = asked if isinstance(asked, list) else [asked]
    return values.isin([one for one in some if one is not None]) | (values.isna() & (None in some))


@pytest.mark.parametrize(
    "where",
    [
        {"rate": (1000, 1100)},
        {"rate": (250.5, 320)},
        {"rate": (None, 100)},
        {"due": (700, 720)},
        {"due": [None]},
        {"due": (None, None)},
        {"interest": (100, 130)},
        {"interest": (100, 130), "rate": (500, 700)},
        {"least": (400, 450)},
        {"least": (300, 400), "rate": (350, 500)},
        {"fee": [None, 7, 8]},
        {"fee": None, "due": (600, 650)},
        {"opened": ("2022-03-01", "2022-04-15")},
        {"closed": (pd.Timestamp("2022-03-01"), pd.Timestamp("2022-06-01"))},
        {"closed": None, "rate": (400, 450)},
        {"sex": "m"},
        {"pregnant": "yes", "rate": (300, 350)},
        {"late": "yes", "due": (900, 1000), "opened": ("2021-01-01", "2021-12-31")},
    ],
    ids=str,
)
def test_all_rows_meet_it_and_keep_the_relations(release: Release, where: dict[str, Any]) -> None:
    table = release.table(300, where=where)
    assert len(table) == 300
    for name, asked in where.items():
        assert meets(table[name], asked).all(), table[name].describe()
    assert_kept(table)
    assert len(table.drop_duplicates()) > 250


@st.composite
def conditions(draw: st.DrawFn) -> dict[str, Any]:
    """Ranges of one or two numbers, anywhere."""
    where: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from([*NUMBERS]), min_size=1, max_size=2, unique=True)):
        low = draw(st.integers(0, NUMBERS[name] // 3))
        where[name] = (low, low + draw(st.integers(1, NUMBERS[name] // 4)))
    return where


@given(where=conditions())
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_range_is_met_or_refused(release: Release, where: dict[str, Any]) -> None:
    try:
        table = release.table(50, where=where)
    except ParameterError as error:
        assert "a condition that" in str(error) or "released rows have" in str(error)
        return
    for name, asked in where.items():
        assert meets(table[name], asked).all()
    assert_kept(table)


def test_a_cut_bin_of_a_sum_has_rows_where_the_sums_are(release: Release) -> None:
    """Rows on a range of the sum are those of a large table in it."""
    found = release.table(2000, where={"rate": (650, 950)})
    large = release.table(100_000)
    expected = large[large.rate.between(650, 950)]
    error = expected.rate.std() * np.sqrt(1 / 2000 + 1 / len(expected))
    assert abs(found.rate.mean() - expected.rate.mean()) < 5 * error
    error = expected.interest.std() * np.sqrt(1 / 2000 + 1 / len(expected))
    assert abs(found.interest.mean() - expected.interest.mean()) < 5 * error


@pytest.mark.parametrize(
    ("where", "told"),
    [
        (
            {"sex": "m", "pregnant": "yes"},
            "where=pregnant is yes, sex is m: .* rule it out: never: {sex: m, pregnant: yes}",
        ),
        (
            {"rate": (100, 200), "interest": (300, 400)},
            r"rule it out: total: rate, parts: \[interest, repayment\]",
        ),
        (
            {"due": (3000, 3100), "rate": (100, 200), "fee": (0, 50)},
            r"rule it out: total: due, parts: \[rate, fee\]",
        ),
        (
            {"opened": ("2024-01-01", None), "closed": (None, "2023-06-01")},
            r"closed is 2020-01-01 to 2023-06-01, .* rule it out: rising: \[opened, closed\]",
        ),
        (
            {"least": (2000, 2100), "rate": (100, 200)},
            r"rule it out: rising: \[least, rate\]",
        ),
    ],
)
def test_a_condition_that_a_relation_rules_out_names_it_before_a_charge(
    release: Release, where: dict[str, Any], told: str
) -> None:
    with pytest.raises(ParameterError, match=told):
        release.table(10, where=where)
    with pytest.raises(ParameterError, match=told):
        check_where(release.contract, "aim_tabicl", where)


@pytest.mark.parametrize(
    ("rate", "told"),
    [
        ((100, 200), r"rule it out: rising: \[least, rate\]"),
        ((2000, 2100), "values that released rows have"),
    ],
)
def test_a_relation_is_named_where_the_release_has_no_such_rows_either(
    rate: tuple[int, int], told: str
) -> None:
    """Whatever noise left of a range, the contract's reason is said."""
    form = central_form(contract := contract_of(SCHEMA["relations"]))
    condition = conditional_form(form, {"least": (2000, 2100), "rate": rate})
    none = {place: np.zeros_like(weight) for place, weight in condition.weights.items()}
    with pytest.raises(ParameterError, match=told):
        check_can_be_met(contract, replace(condition, weights=none))


@pytest.mark.parametrize(
    "where",
    [
        {"sex": ["m", "f"], "pregnant": "yes"},
        {"opened": ("2024-01-01", None), "closed": [None]},
        {"rate": (100, 400), "interest": (300, 400)},
        {"least": 0, "rate": (0, 10)},
        {"due": (None, 100), "rate": (500, None), "fee": None},
    ],
    ids=str,
)
def test_a_condition_that_some_row_meets_is_not_ruled_out(
    release: Release, where: dict[str, Any]
) -> None:
    check_where(release.contract, "aim_tabicl", where)


def test_what_several_relations_rule_out_together_names_the_condition(release: Release) -> None:
    where = {"least": (500, 700), "interest": (0, 100), "repayment": (0, 100)}
    with pytest.raises(ParameterError, match="where=interest is 0 to 100, least .* none keeps all"):
        release.table(10, where=where)


@pytest.mark.parametrize(
    ("relations", "told"),
    [
        (
            [
                {"total": "due", "parts": ["rate", "fee"]},
                {"total": "due", "parts": ["interest", "repayment"]},
            ],
            "relations.1: states due as a sum again",
        ),
        (
            [
                {"total": "due", "parts": ["rate", "fee"]},
                {"total": "rate", "parts": ["due", "interest"]},
            ],
            "relations: has sums that add up each other",
        ),
    ],
)
def test_sums_that_cannot_be_made_one_after_another_are_refused(
    relations: list[dict[str, Any]], told: str
) -> None:
    with pytest.raises(DeclarationError, match=told):
        contract_of(relations)


def test_rows_of_two_conditions_are_drawn_apart(tmp_path: Path) -> None:
    """Also where both conditions let the same share of every code through."""
    schema = {**SCHEMA, "relations": []}
    plain = protect_alike(rows(), schema, epsilon=3, account="p", budget=3, home=tmp_path)
    for first, second in (
        ({"sex": "f"}, {"sex": "m"}),
        ({"repayment": (200, 349)}, {"repayment": (350, 499)}),
        ({"fee": (0, 10)}, {"fee": (0, 11)}),
    ):
        tables = [plain.table(500, where=where) for where in (first, second)]
        assert (tables[0].interest == tables[1].interest).mean() < 0.1
        assert (tables[0].late == tables[1].late).mean() < 0.75


def test_one_condition_has_the_same_rows_however_it_is_written(release: Release) -> None:
    for forms in (
        (
            {"sex": "f", "fee": (3, 4)},
            {"fee": [4, 3], "sex": ["f"]},
            {"fee": {3.0, 4.0}, "sex": {"f"}},
        ),
        ({"rate": (None, 300)}, {"rate": (0, 300.0)}, {"rate": (-5, "300")}),
        (
            {"opened": ("2022-01-01", "2022-12-31")},
            {"opened": (pd.Timestamp("2022-01-01"), pd.Timestamp("2022-12-31"))},
        ),
        ({"pregnant": ["no", "yes"]}, {"pregnant": {"yes", "no"}}),
    ):
        tables = [release.table(60, where=where) for where in forms]
        assert all(table.equals(tables[0]) for table in tables[1:])


def test_what_is_said_of_a_release_is_true_of_its_rows(release: Release) -> None:
    """Means, shares and errors are those of rows as they are given out, of which many are left out:
    single columns are brought back to what was released.
    """
    table, quality = release.table(40_000), release.quality(12)
    means = {number.column: number.mean for number in quality.numbers if number.mean}
    assert {"interest", "repayment", "rate", "due", "least"} <= means.keys()
    true = rows()
    for name, mean in means.items():
        found = table[name].astype(float)
        assert abs(mean.value - found.mean()) < 0.05 * found.std()
        assert mean.low - 0.1 * found.std() < true[name].mean() < mean.high + 0.1 * found.std()
    from dpicl.quality.shown import shown

    panels = shown(release._point, release.published.drawn, ["rate", "sex", "pregnant"], 1, 4)
    for panel in panels[:1]:
        counts = np.histogram(table.rate, panel.ends)[0] / len(table)
        assert np.abs(counts - panel.shares).max() < 0.02
    pair = next(one for one in panels if one.columns == ("sex", "pregnant"))
    assert pair.table(pair.shares)[1, 1] == 0 < pair.table(pair.shares)[0, 1]


def test_the_error_that_is_said_of_a_column_is_about_the_true_one(release: Release) -> None:
    """Before, rows that were given out were off by three times and more of what was said."""
    table, true = release.table(40_000), rows()
    expected = {one.columns[0]: one.expected for one in release.quality(12).columns}
    form = release._form
    for name in ("rate", "due", "least", "interest", "repayment"):
        edges = next(m.ends for m in form.meanings if m.column == name)
        shares = [
            np.histogram(some[name].dropna().astype(float), edges)[0] / len(some)
            for some in (table, true)
        ]
        apart = np.abs(shares[0] - shares[1]).sum() / 2
        assert apart < 3 * expected[name] + 0.01, (name, apart, expected[name])


def test_a_caveat_says_how_many_rows_are_left_out_and_what_remains(release: Release) -> None:
    (said,) = (one for one in release.caveats if "relations" in one)
    assert "keep the contract's `relations`" in said and "to within 0.0" in said


def _local(tmp_path: Path, epsilon: float, **options: object) -> Release:
    rng = np.random.default_rng(0)
    low = rng.integers(0, 6, 4000)
    frame = pd.DataFrame(
        {
            "kind": rng.choice(["a", "b", "c"], 4000, p=[0.6, 0.28, 0.12]),
            "low": low,
            "high": np.minimum(low + rng.integers(0, 5, 4000), 9),
        }
    )
    columns = {
        "kind": {"type": "category", "categories": ["a", "b", "c"]},
        "low": {"type": "integer", "bounds": [0, 9]},
        "high": {"type": "integer", "bounds": [0, 9]},
    }
    relations = [{"rising": ["low", "high"], "or_equal": True}]
    return dpicl.protect(
        frame,
        {"columns": columns, "relations": relations},
        trust="local",
        epsilon=epsilon,
        budget=4,
        account=f"local{tmp_path.name}",
        options=options,
        home=tmp_path,
        anyway=True,
    )  # type: ignore[return-value]


def test_a_sorted_model_s_rows_are_not_cut_off(tmp_path: Path) -> None:
    """Rows of some estimators lie cell by cell: the first that are enough have few of the last."""
    release = _local(tmp_path, 4, estimator="em")
    bins = release._form.encoding.decode(release._given.codes)[:, 0]
    table = release.table(20_000)
    shares = np.bincount(bins, minlength=3) / len(bins)
    assert shares[2] == pytest.approx((table.kind == "c").mean(), abs=0.02)
    assert shares[2] > 0.05


def test_where_no_row_keeps_the_relations_the_release_stands(tmp_path: Path) -> None:
    """It is charged: rows are refused, and all else is there. By noise it is one of few such."""
    drawn = (
        _local(tmp_path / str(number), 0.3, encoding="one-hot", estimator="simplex")
        for number in range(60)
    )
    release = next(release for release in drawn if not release._can_keep)
    with pytest.raises(DpiclError, match="no row of the release keeps all `relations`"):
        release.table(10)
    assert "No row of the release keeps the contract's `relations`: rows are refused." in (
        release.caveats
    )
    assert release.certificate
