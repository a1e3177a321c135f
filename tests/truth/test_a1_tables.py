"""A1: every method releases a table of any number of rows, and of one label alone, as it releases
any other; so does every source.
"""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpicl
from dpicl.contract.models import Check, Contract
from dpicl.data.reading import checks
from dpicl.ground.errors import DataError, SourceError
from tests.harness import Place
from tests.truth.small import COLUMNS, ROWS, SCHEMA, frame, one_label, seen

METHODS = ("aim_tabicl", "mst_tabicl", "gdp_tabicl", "ldp_tabicl", "tab_pe", "tab_pate")
TABLES = {
    "no row": [],
    "one row": ROWS[:1],
    "two rows": ROWS[:2],
    "one row of the rarer label": ROWS[4:5],
    "one label": one_label(400),
    "one label and a row": [*one_label(400), ROWS[4]],
    "equal rows": ROWS[:1] * 50,
}


def small_tables_are_as_any_other(
    method: str, tables: dict[str, Any] = TABLES, **options: Any
) -> None:
    """What can be seen of the release of each: all but its name, which an account's own name is
    part of.
    """
    usual = seen(frame(ROWS), method, account="usual", **options)
    for number, rows in enumerate(tables.values()):
        found = seen(frame(rows), method, account=f"a{number}", **options)
        assert {**found, "names": len(found["names"])} == {**usual, "names": len(usual["names"])}, (
            list(tables)[number]
        )


@pytest.mark.quick("mst_tabicl", "gdp_tabicl", "tab_pe")
@pytest.mark.parametrize("method", METHODS)
def test_any_number_of_rows_is_released_alike(place: Place, method: str) -> None:
    small_tables_are_as_any_other(method)


FEW = {name: TABLES[name] for name in ("no row", "one row")}


@pytest.mark.quick("options0", "options1", "options4")
@pytest.mark.parametrize(
    "options",
    [
        {"method": "mst_tabicl", "noise": "gaussian", "delta": 1e-6},
        {"method": "gdp_tabicl", "allocation": "shared-count"},
        {"method": "ldp_tabicl", "design": "all-columns", "estimator": "simplex"},
        {"method": "ldp_tabicl", "design": "all-columns", "estimator": "none"},
        {
            "method": "ldp_tabicl",
            "encoding": "one-hot",
            "design": "all-columns",
            "estimator": "clip",
        },
        {"method": "ldp_tabicl", "design": "subset", "estimator": "em"},
    ],
)
def test_other_ways_of_a_method_release_them_too(place: Place, options: dict[str, Any]) -> None:
    options = dict(options)
    method = options.pop("method")
    schema = (
        {**SCHEMA, "privacy": {"budget": {"epsilon": 5, "delta": 1e-6}}}
        if "delta" in options
        else SCHEMA
    )
    small_tables_are_as_any_other(method, tables=FEW, schema=schema, options=options)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "label",
    [
        None,
        "age",
        {"column": "city"},
        {"column": "bought", "parts": ["rest", ["yes"]], "question": "Will they?"},
    ],
)
@pytest.mark.parametrize("method", ["aim_tabicl", "tab_pe"])
def test_whatever_is_predicted(place: Place, method: str, label: Any) -> None:
    schema = {"columns": COLUMNS, **({"label": label} if label else {})}
    small_tables_are_as_any_other(
        method, tables={"no row": [], "one label": one_label(60)}, schema=schema
    )


def test_persons(place: Place) -> None:
    person = {"unit": "person", "person": {"id_column": "who", "max_rows": 2}}
    schema, whole = (
        {**SCHEMA, "privacy": person},
        frame(ROWS).assign(who=[f"p{number // 3}" for number in range(len(ROWS))]),
    )
    usual = seen(whole, "mst_tabicl", schema, account="usual")
    for rows in (0, 1, 2):
        found = seen(whole.head(rows), "mst_tabicl", schema, account=f"a{rows}")
        assert {**found, "names": 1} == {**usual, "names": 1}


def as_query(folder: Path, rows: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> Any:
    with sqlite3.connect(folder / "shop.db") as database:
        rows.astype({"age": "int64"}).to_sql("shop", database, index=False)
    monkeypatch.setenv("SHOP_URL", f"sqlite:///{folder / 'shop.db'}")
    return dpicl.Query(url_env="SHOP_URL", sql="SELECT * FROM shop ORDER BY age")


def written(folder: Path, name: str, write: Callable[[Path], object]) -> Path:
    write(folder / name)
    return folder / name


def in_folder(folder: Path, rows: pd.DataFrame) -> Path:
    (folder / "shop").mkdir()
    rows.to_parquet(folder / "shop" / "part-1.parquet")
    rows.head(0).astype(rows.dtypes).to_parquet(folder / "shop" / "part-2.parquet")
    return folder / "shop"


TYPED = {"age": "int64", "spent": "float64", "city": "str", "bought": "str"}
SOURCES: dict[str, Callable[[Path, pd.DataFrame], Any]] = {
    "CSV": lambda folder, rows: written(
        folder, "t.csv", lambda file: rows.to_csv(file, index=False)
    ),
    "CSV without a line end": lambda folder, rows: written(
        folder, "t.csv", lambda file: file.write_text(rows.to_csv(index=False).rstrip("\n"))
    ),
    "gzip": lambda folder, rows: written(
        folder,
        "t.csv.gz",
        lambda file: file.write_bytes(gzip.compress(rows.to_csv(index=False).encode())),
    ),
    "Parquet": lambda folder, rows: written(
        folder, "t.parquet", lambda file: rows.astype(TYPED).to_parquet(file)
    ),
    "Parquet of no type": lambda folder, rows: written(
        folder,
        "t.parquet",
        lambda file: pq.write_table(pa.table({name: pa.nulls(0) for name in COLUMNS}), file),
    ),
    "a folder": lambda folder, rows: in_folder(folder, rows.astype(TYPED)),
    "a frame of objects": lambda folder, rows: rows.astype(object),
    "a typed frame": lambda folder, rows: rows.astype(TYPED),
    "Arrow": lambda folder, rows: pa.Table.from_pandas(rows.astype(TYPED), preserve_index=False),
}


@pytest.mark.parametrize("source", [*SOURCES, "a query"])
def test_every_source_may_have_no_row(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    made = (
        as_query(tmp_path, frame([]), monkeypatch)
        if source == "a query"
        else SOURCES[source](tmp_path, frame([]))
    )
    found = seen(made, "mst_tabicl")
    assert found["spent"] == pytest.approx(1) and found["demonstrations"] == 4


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", b""),
        ("t.csv", b"\n\n"),
        ("t.csv", b"20,3,n,no\n"),
        ("t.csv.gz", b""),
        ("t.parquet", b""),
    ],
)
def test_a_file_without_a_header_is_no_table(
    place: Place, tmp_path: Path, name: str, content: bytes
) -> None:
    """A header is public, and so is that there is none."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError):
        seen(tmp_path / name, "mst_tabicl")


def test_a_folder_without_a_file_is_no_table(place: Place, tmp_path: Path) -> None:
    """Which files there are is public."""
    (tmp_path / "shop").mkdir()
    with pytest.raises(SourceError, match="holds no file"):
        seen(tmp_path / "shop", "mst_tabicl")


def test_a_split_may_leave_nothing(place: Place) -> None:
    split = {"split": {"test_fraction": 0.5, "evaluation_epsilon": 1}}
    for number, rows in enumerate((ROWS, [], ROWS[:1], ROWS[:2])):
        assert (
            seen(frame(rows), "mst_tabicl", {**SCHEMA, **split}, account=f"a{number}")[
                "demonstrations"
            ]
            == 4
        )


@pytest.mark.parametrize(
    ("check", "rows"),
    [
        ({"rule": "row_count"}, ROWS[:1]),
        ({"rule": "row_count", "at_least": 9}, ROWS[:8]),
        ({"rule": "both_labels"}, one_label(50)),
        ({"rule": "unique"}, ROWS[:1] * 2),
    ],
)
def test_a_rule_about_all_rows_holds_where_it_is_stated(
    place: Place, check: dict[str, Any], rows: Any
) -> None:
    with pytest.raises(DataError, match=f"breaks {check['rule']}"):
        seen(frame(rows), "mst_tabicl", {**SCHEMA, "checks": [check]})


def test_rows_of_default_rules_are_single_ones(place: Place) -> None:
    """The list that is applied to every contract has no rule that a row by itself neither keeps nor
    breaks.
    """
    from dpicl.release.door import schema_contract

    assert {rule.rule for rule in checks.rules_of(schema_contract(SCHEMA))} == {
        "no_missing",
        "known_categories",
        "in_bounds",
    }


def test_a_default_rule_about_all_rows_would_be_seen(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault as it was, in a mutant."""
    rules = checks.rules_of

    def with_defaults(contract: Contract) -> Any:
        more = (Check(rule="row_count"), Check(rule="both_labels"))
        return rules(contract.model_copy(update={"checks": (*more, *contract.checks)}))

    for module in (
        "dpicl.release.rows",
        "dpicl.data.reading.checks",
        "dpicl.data.reading.batches",
    ):
        monkeypatch.setattr(f"{module}.rules_of", with_defaults)
    for name in ("no row", "one row", "one label"):
        with pytest.raises(DataError, match="breaks (row_count|both_labels)"):
            small_tables_are_as_any_other("mst_tabicl", tables={name: TABLES[name]})
