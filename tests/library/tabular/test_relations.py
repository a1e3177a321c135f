"""Relations between columns: stated in the contract, kept by every released row, and of a private
row its own affair.
"""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpicl
from dpicl.contract import Contract, parse_contract
from dpicl.contract.load import contract_digest
from dpicl.data.central.exact_counts import row_bins
from dpicl.data.reading.checks import rules_of, violations
from dpicl.data.reading.parse import typed_table
from dpicl.ground.errors import DeclarationError, ParameterError
from dpicl.ground.types import PrivateTable
from dpicl.release.door import schema_contract
from dpicl.release.rows import warnings_of
from tests.library.examples import tree
from tests.library.noise import protect_alike

COLUMNS: dict[str, Any] = {
    "checkin": {"type": "date", "bounds": ["2026-01-01", "2026-06-30"]},
    "checkout": {"type": "date", "bounds": ["2026-01-01", "2026-07-31"], "nullable": True},
    "room": {"type": "integer", "bounds": [0, 400]},
    "extras": {"type": "real", "bounds": [0, 200], "decimals": 2},
    "paid": {"type": "real", "bounds": [0, 600], "decimals": 2, "nullable": True},
    "sex": {"type": "category", "categories": ["female", "male"]},
    "pregnant": {"type": "category", "categories": ["no", "yes"], "nullable": True},
    "again": {"type": "category", "categories": ["no", "yes"]},
}
RELATIONS: list[dict[str, Any]] = [
    {"rising": ["checkin", "checkout"]},
    {"total": "paid", "parts": ["room", "extras"]},
    {"never": {"sex": "male", "pregnant": "yes"}},
]
SCHEMA: dict[str, Any] = {"label": "again", "columns": COLUMNS, "relations": RELATIONS}


def rows(count: int) -> pd.DataFrame:
    """Stays, all of which keep the relations."""
    rng = np.random.default_rng(3)
    first = pd.Timestamp("2026-01-01")
    checkin = rng.integers(0, 180, count)
    room, extras = rng.integers(40, 300, count), rng.gamma(2, 20, count).round(2).clip(0, 200)
    male = rng.random(count) < 0.5
    return pd.DataFrame(
        {
            "checkin": [first + pd.Timedelta(days=int(day)) for day in checkin],
            "checkout": [
                first + pd.Timedelta(days=int(day)) for day in checkin + rng.integers(1, 12, count)
            ],
            "room": room,
            "extras": extras,
            "paid": (room + extras).round(2),
            "sex": np.where(male, "male", "female"),
            "pregnant": np.where(~male & (rng.random(count) < 0.2), "yes", "no"),
            "again": rng.choice(["no", "yes"], count),
        }
    )


def assert_kept(table: pd.DataFrame) -> None:
    known = table.checkout.notna()
    assert (table.checkin[known] < table.checkout[known]).all()
    paid = table.paid.notna()
    assert np.allclose(table.paid[paid], (table.room + table.extras)[paid], atol=1e-6)
    assert not ((table.sex == "male") & (table.pregnant == "yes")).any()


@pytest.mark.parametrize("method", ["aim_tabicl", "mst_tabicl", "tab_pe", "ldp_tabicl"])
def test_every_released_row_keeps_them(method: str, tmp_path: Path) -> None:
    stays = rows(4000)
    release = protect_alike(
        stays, SCHEMA, epsilon=3, account=method, budget=3, method=method, home=tmp_path
    )
    for count in (20, 3000, 20_000):
        table = release.table(count)
        assert len(table) == count
        assert_kept(table)
    assert abs(release.table(5000).paid.mean() - stays.paid.mean()) < stays.paid.std()
    (mean,) = (one.mean for one in release.quality(4).numbers if one.column == "paid")
    assert mean is not None and abs(mean.value - release.table(20_000).paid.mean()) < 6
    if method in ("aim_tabicl", "mst_tabicl"):
        asked = release.table(500, where={"sex": "male", "room": (100, 150)})
        assert_kept(asked)
        assert (asked.sex == "male").all() and asked.room.between(100, 150).all()
    for text, _ in release.demonstrations(24).pairs:
        assert not ("sex is male" in text and "pregnant is yes" in text)


def test_averages_which_keep_none_are_refused_before_the_charge(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="averages do not keep the `relations` of stays"):
        dpicl.protect(
            rows(200), SCHEMA, epsilon=1, account="stays", method="gdp_tabicl", home=tmp_path
        )
    assert dpicl.Session(tmp_path).budget() == ()


def test_demonstrations_show_sums_that_add_up(tmp_path: Path) -> None:
    release = protect_alike(rows(4000), SCHEMA, epsilon=3, account="sums", budget=3, home=tmp_path)
    texts = [text for text, _ in release.demonstrations(32).pairs]
    found = 0
    for text in texts:
        parts = text.rstrip(".").removeprefix("The ").split(". The ")
        said = dict(part.split(" is ", 1) for part in parts if " is " in part)
        if said.get("paid", "unknown") != "unknown":
            found += 1
            assert float(said["paid"]) == pytest.approx(float(said["room"]) + float(said["extras"]))
    assert found > 20


def test_a_date_is_another_and_whole_days_after_it(tmp_path: Path) -> None:
    stays = rows(4000)
    nights = (stays.checkout - stays.checkin).dt.days
    schema = {
        "label": "again",
        "columns": COLUMNS | {"nights": {"type": "integer", "bounds": [0, 30]}},
        "relations": [{"total": "checkout", "parts": ["checkin", "nights"]}],
    }
    release = protect_alike(
        stays.assign(nights=nights), schema, epsilon=3, account="nights", budget=3, home=tmp_path
    )
    table = release.table(4000)
    known = table[table.checkout.notna()]
    days = (pd.to_datetime(known.checkout) - pd.to_datetime(known.checkin)).dt.days
    assert len(known) > 3000 and (days == known.nights).all()
    assert abs(days.mean() - nights.mean()) < 1.5  # of 6; without the column of nights about 20


def contract_of(relations: list[dict[str, Any]]) -> Contract:
    content = {
        **{key: value for key, value in tree().items() if key in ("source", "privacy", "split")},
        "version": 2,
        "name": "stays",
        "columns": COLUMNS,
        "label": "again",
        "relations": relations,
    }
    return parse_contract(content, "stays.yaml")


def test_a_private_row_that_breaks_one_is_missing_there_and_no_other_row_is_moved() -> None:
    contract = contract_of(RELATIONS)
    stays = rows(50)
    wrong = stays.copy()
    wrong.loc[7, "paid"] = 599.0
    wrong.loc[8, "checkout"] = pd.Timestamp("2026-01-01")
    wrong.loc[9, ["sex", "pregnant"]] = ["male", "yes"]

    def bins(frame: pd.DataFrame) -> np.ndarray:
        texts = frame.assign(
            checkin=frame.checkin.dt.date.astype(str), checkout=frame.checkout.dt.date.astype(str)
        ).astype(str)
        table = typed_table(pa.Table.from_pandas(texts, preserve_index=False), contract, "rows")
        return row_bins(PrivateTable(table), contract)

    before, after = bins(stays), bins(wrong)
    moved = np.flatnonzero((before != after).any(axis=1))
    assert set(moved.tolist()) <= {7, 8, 9}
    names = list(contract.features)
    for row, name in ((7, "paid"), (8, "checkout"), (9, "pregnant")):
        missing = contract.columns[name].count(contract.cuts_of(name)) - 1
        assert after[row, names.index(name)] == missing


@pytest.mark.parametrize(
    ("relation", "told"),
    [
        ({"rising": ["checkin", "left"]}, "names left, which is no column; expected one of"),
        ({"rising": ["checkin", "checkuot"]}, "did you mean 'checkout'"),
        (
            {"rising": ["checkin", "room"]},
            r"names checkin \(of the type date\), room \(of the type ",
        ),
        (
            {"rising": ["checkin", "sex"]},
            r"sex \(of the type category\); expected numbers, or dates",
        ),
        ({"rising": ["checkin", "checkin"]}, "names checkin twice"),
        ({"rising": ["room"]}, "rising"),
        ({"total": "sex", "parts": ["room", "extras"]}, r"sex \(of the type category\), room"),
        ({"total": "paid", "parts": ["room"]}, "at least 2 items"),
        ({"total": "checkout", "parts": ["room", "extras"]}, "integer and real to the type date"),
        ({"total": "checkout", "parts": ["checkin", "extras"]}, "date and real to the type date"),
        ({"total": "paid", "parts": ["checkin", "room"]}, "date and integer to the type real"),
        (
            {"never": {"sex": "male", "pregnant": "maybe"}},
            "'maybe', which is no category of pregnant; expected one of: no, yes",
        ),
        (
            {"never": {"sex": "male", "room": "3"}},
            r"names room \(of the type integer\); expected col",
        ),
        (
            {"rising": ["room", "paid"], "total": "paid", "parts": ["room", "extras"]},
            r"relations\.0: is an order \(rising\) and a sum \(total\); expected one of an [^;]*$",
        ),
        ({"sometimes": 3}, "relations"),
    ],
)
def test_what_says_nothing_is_refused(relation: dict[str, Any], told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        contract_of([relation])


CHECKIN, PAID = {"rising": ["checkin", "checkout"]}, {"total": "paid", "parts": ["room", "extras"]}


def never(sex: str, other: str, answer: str) -> dict[str, Any]:
    return {"never": {"sex": sex, other: answer}}


@pytest.mark.parametrize(
    ("relations", "named"),
    [
        ([CHECKIN, {"rising": ["checkout", "checkin"]}, PAID], [0, 1]),
        ([CHECKIN, {"rising": ["checkout", "checkin"], "or_equal": True}], [0, 1]),
        ([PAID, CHECKIN, {"rising": ["paid", "room"]}], [0, 2]),
        ([{"rising": ["paid", "extras"]}, never("male", "again", "no"), PAID], [0, 2]),
        (
            [never(sex, "again", answer) for sex in ("male", "female") for answer in ("no", "yes")],
            [0, 1, 2, 3],
        ),
    ],
)
def test_what_no_row_keeps_together_is_refused_by_the_least_of_it(
    relations: list[dict[str, Any]], named: list[int]
) -> None:
    """They were charged for, and no row came out."""
    told = "; ".join(str(contract_of([relations[place]]).relations[0]) for place in named)
    with pytest.raises(DeclarationError) as refused:
        contract_of(relations)
    assert f"relations: cannot hold together: {told}; expected" in str(refused.value)


@pytest.mark.parametrize(
    "relations",
    [
        [CHECKIN, {"rising": ["checkin", "checkout"], "or_equal": True}, PAID],
        [{"rising": ["room", "paid"], "or_equal": True}, PAID],
        [{"rising": ["paid", "room"], "or_equal": True}, PAID],  # of rooms without extras
        [
            {"rising": ["checkin", "checkout"], "or_equal": True},
            {"rising": ["checkout", "checkin"], "or_equal": True},
        ],
        [never(sex, "pregnant", answer) for sex in ("male", "female") for answer in ("no", "yes")],
        [
            never("male", "again", "no"),
            never("male", "again", "yes"),
            never("female", "again", "no"),
        ],
    ],
)
def test_what_some_row_keeps_is_not_refused(relations: list[dict[str, Any]]) -> None:
    assert len(contract_of(relations).relations) == len(relations)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_relations_are_refused_together_where_no_row_of_few_values_keeps_them(
    data: st.DataObject,
) -> None:
    """All rows are tried; with a sum there may be halves alone that keep them."""
    names = ["a", "b", "c"]
    bounds = {
        name: sorted(data.draw(st.lists(st.integers(0, 4), min_size=2, max_size=2)))
        for name in names
    }
    columns = {
        name: {"type": "integer", "bounds": [low, high + 1]} for name, (low, high) in bounds.items()
    } | {"again": COLUMNS["again"]}
    some = st.tuples(st.permutations(names), st.integers(2, 3))
    orders = data.draw(st.lists(some.map(lambda one: one[0][: one[1]]), min_size=1, max_size=3))
    orders = [[*one] for one in dict.fromkeys(map(tuple, orders))]
    relations: list[dict[str, Any]] = [{"rising": one} for one in orders]
    if data.draw(st.booleans()):
        relations.append({"total": "c", "parts": ["a", "b"]})

    def keeps(row: dict[str, int]) -> bool:
        return all(row[low] < row[high] for one in orders for low, high in pairwise(one)) and (
            len(relations) == len(orders) or row["c"] == row["a"] + row["b"]
        )

    ranges = [range(low, high + 2) for low, high in bounds.values()]
    can = any(keeps(dict(zip(names, row, strict=True))) for row in product(*ranges))
    try:
        schema_contract({"label": "again", "columns": columns, "relations": relations})
    except DeclarationError:
        assert not can
    else:
        assert can or len(relations) > len(orders)


def test_one_stated_twice_is_refused_and_one_of_less_is_another() -> None:
    """Both are counted, and neither is taken for the other."""
    with pytest.raises(DeclarationError, match="relations.1: states `rising: .*` again"):
        contract_of([CHECKIN, CHECKIN])
    turned = {"never": {"pregnant": "yes", "sex": "male"}}
    with pytest.raises(DeclarationError, match="relations.1: states `never: .*` again"):
        contract_of([never("male", "pregnant", "yes"), turned])
    contract = contract_of([CHECKIN, CHECKIN | {"or_equal": True}])
    texts = rows(20).assign(checkin="2026-03-01", checkout="2026-03-01").astype(str)
    table = typed_table(pa.Table.from_pandas(texts, preserve_index=False), contract, "rows")
    found = {one.rule.column: one.count for one in violations(table, contract)}
    assert found == {"rising: [checkin, checkout]": 20}
    assert [rule.column for rule in rules_of(contract)][-2:] == [
        "rising: [checkin, checkout]",
        "rising: [checkin, checkout], or_equal: true",
    ]


def test_whole_numbers_that_have_no_room_between_their_bounds_are_refused() -> None:
    narrow = {name: {"type": "integer", "bounds": [0, 1]} for name in "abc"}
    schema = {"columns": narrow | {"again": COLUMNS["again"]}, "label": "again"}
    with pytest.raises(DeclarationError, match=r"relations.0: cannot hold: rising: \[a, b, c\];"):
        schema_contract(schema | {"relations": [{"rising": ["a", "b", "c"]}]})


def test_the_holder_is_told_how_many_rows_break_one() -> None:
    contract = contract_of(RELATIONS)
    stays = rows(50)
    stays.loc[[1, 2, 3], "paid"] = 599.0
    stays.loc[4, "checkout"] = stays.loc[4, "checkin"]
    texts = stays.assign(
        checkin=stays.checkin.dt.date.astype(str), checkout=stays.checkout.dt.date.astype(str)
    ).astype(str)
    table = typed_table(pa.Table.from_pandas(texts, preserve_index=False), contract, "rows")
    found = {one.rule.column: one.count for one in violations(table, contract)}
    assert found == {"total: paid, parts: [room, extras]": 3, "rising: [checkin, checkout]": 1}
    told = warnings_of(rules_of(contract), violations(table, contract), "stays")
    assert told.endswith(
        "only warn: relation rising: [checkin, checkout] (1), relation total: paid, parts: "
        "[room, extras] (3)"
    )


@pytest.mark.parametrize(
    "columns",
    [
        {"room": {"type": "integer", "bounds": [500, 900]}},
        {"paid": {"type": "integer", "bounds": [700, 900]}},
        {"checkin": {"type": "date", "bounds": ["2027-01-01", "2027-06-30"]}},
    ],
)
def test_what_no_row_within_the_bounds_keeps_is_refused(columns: dict[str, Any]) -> None:
    kept = {key: value for key, value in tree().items() if key in ("source", "privacy", "split")}
    content = {**kept, "version": 2, "name": "stays", "label": "again", "relations": RELATIONS}
    content["columns"] = {**COLUMNS, **columns}
    if "room" in columns:
        content["columns"]["paid"] = {"type": "integer", "bounds": [0, 100]}
    with pytest.raises(DeclarationError, match=r"relations.\d: cannot hold: (rising|total)"):
        parse_contract(content, "stays.yaml")


def test_a_contract_without_relations_has_the_digest_that_it_had() -> None:
    assert contract_digest(contract_of([])) != contract_digest(contract_of(RELATIONS))
    plain = contract_of([])
    assert "relations" not in plain.model_dump_json(exclude_defaults=True)
