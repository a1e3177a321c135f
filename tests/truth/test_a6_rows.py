"""A6: what becomes of a row that breaks the contract by itself is stated, and follows from that row
alone.
"""

from __future__ import annotations

import csv
import io
import os
import pty
import re
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.contract import Contract
from dpicl.contract.load import contract_digest, parse_contract
from dpicl.data.reading import parse
from dpicl.data.reading.files import read_table
from dpicl.data.reading.parse import typed_table
from dpicl.data.reading.source import load_source
from dpicl.data.reading.typed_columns import as_arrow, of_objects
from dpicl.ground.errors import DataError, DeclarationError
from dpicl.release.door import schema_contract
from tests.harness import Place
from tests.truth.small import ROWS, SCHEMA, frame, seen

GAPS = {
    "age": {"type": "integer", "bounds": [18, 100], "nullable": True},
    "when": {"type": "date", "bounds": ["2020-01-01", "2026-12-31"], "nullable": True},
    "spent": {"type": "real", "bounds": [0, 500]},
    "city": {"type": "category", "categories": ["n", "s", "w"], "nullable": True},
    "bought": {"type": "category", "categories": ["no", "yes"]},
}
GOOD = ["20", "2024-05-01", "3.5", "n", "no"]
LONG = "x" * 70_000
BAD: dict[str, tuple[str, str]] = {
    "a word for a number": ("age", "old"),
    "a fraction for a whole number": ("age", "20.5"),
    "beyond 64 bits": ("age", "9" * 25),
    "no number in 64 bits": ("age", str(-(2**63))),
    "a long number": ("age", LONG),
    "no day": ("when", "2024-02-30"),
    "a day in words": ("when", "yesterday"),
    "a time zone beyond the calendar": ("when", "0001-01-01T00:00:00+14:00"),
    "unknown category": ("city", "e"),
    "a blank too many": ("city", "n "),
    "a text too long": ("city", LONG),
    "an empty real": ("spent", ""),
    "a real in words": ("spent", "3,5"),
    "infinity": ("spent", "1e999"),
    "not a number": ("spent", "nan"),
    "an empty category": ("bought", ""),
    "an unknown label": ("bought", "perhaps"),
}
NULLABLE = {"age", "when", "city"}
PERSON = {"unit": "person", "person": {"id_column": "who", "max_rows": 2}, "budget": {"epsilon": 3}}


def contract(
    columns: dict[str, Any] = GAPS, *, source: dict[str, Any] | None = None, **changes: Any
) -> Contract:
    content = {
        "name": "shop",
        "source": {"file": "shop.csv", **(source or {})},
        "privacy": {"budget": {"epsilon": 3}},
        "columns": columns,
        "label": "bought",
        **changes,
    }
    parsed = parse_contract(content, "shop.yaml")
    assert isinstance(parsed, Contract)
    return parsed


NIGHTLY = contract(releases={"every": "day"})
ONCE = contract()


def with_value(column: str, value: str) -> list[str]:
    return [value if name == column else one for name, one in zip(GAPS, GOOD, strict=True)]


def as_table(rows: list[list[str]], names: tuple[str, ...] = tuple(GAPS)) -> pa.Table:
    return pa.table(
        {
            name: pa.array([row[place] for row in rows], pa.string())
            for place, name in enumerate(names)
        }
    )


def as_csv(rows: list[list[str]], names: tuple[str, ...] = tuple(GAPS)) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([names, *rows])
    return text.getvalue()


@pytest.mark.parametrize("name", BAD)
def test_where_releases_are_renewed_the_row_alone_goes_or_has_a_gap(name: str) -> None:
    column, value = BAD[name]
    other = ["70", "2021-01-01", "4.0", "w", "yes"]
    read = typed_table(as_table([GOOD, with_value(column, value), other]), NIGHTLY, "rows")
    expected = [GOOD, *([with_value(column, "")] if column in NULLABLE else []), other]
    assert read.equals(typed_table(as_table(expected), ONCE, "rows"))


@pytest.mark.parametrize("name", BAD)
def test_where_one_release_is_made_all_rows_are_refused_in_one_sentence(name: str) -> None:
    column, value = BAD[name]
    with pytest.raises(DataError) as refused:
        typed_table(as_table([GOOD, with_value(column, value)]), ONCE, "rows")
    assert refused.value.column == column and refused.value.details().endswith("(1 value)")
    assert len(value) < 3 or value[:20] not in str(refused.value) + refused.value.details()
    assert refused.value.__context__ is None and refused.value.__cause__ is None, (
        "which rows it was is forgotten"
    )


@pytest.mark.parametrize("fate", ["refuse", "leave-out", "missing"])
@pytest.mark.parametrize("every", ["once", "month"])
def test_a_column_may_say_otherwise(fate: str, every: str) -> None:
    stated = contract(
        {**GAPS, "city": {**GAPS["city"], "invalid": fate}}, releases={"every": every}
    )
    rows = as_table([GOOD, with_value("city", "e")])
    if fate == "refuse":
        with pytest.raises(DataError, match="is not one of the"):
            typed_table(rows, stated, "rows")
        return
    cities = typed_table(rows, stated, "rows").column("city").to_pylist()
    assert cities == (["n", "(missing)"] if fate == "missing" else ["n"])


@pytest.mark.parametrize(
    ("stated", "every", "left"),
    [("leave-out", "once", 1), ("refuse", "day", None), (None, "day", 1), (None, "once", None)],
)
def test_the_source_says_for_all_columns(stated: str | None, every: str, left: int | None) -> None:
    said = contract(source={"invalid": stated} if stated else {}, releases={"every": every})
    rows = as_table([GOOD, with_value("spent", "much")])
    if left is None:
        with pytest.raises(DataError):
            typed_table(rows, said, "rows")
    else:
        assert typed_table(rows, said, "rows").num_rows == left


def test_missing_needs_a_column_that_can_miss() -> None:
    with pytest.raises(DeclarationError, match="columns.spent.invalid: is missing of a column"):
        contract({**GAPS, "spent": {**GAPS["spent"], "invalid": "missing"}})


def test_numbers_out_of_bounds_are_clipped_as_ever() -> None:
    read = typed_table(
        as_table([with_value("age", "4000"), with_value("spent", "-7")]), NIGHTLY, "rows"
    )
    assert read.column("age").to_pylist() == [4000, 20] and read.column("spent").to_pylist() == [
        3.5,
        -7.0,
    ]


def test_names_of_releases_stay_where_no_key_is_used() -> None:
    assert "invalid" not in ONCE.model_dump_json()
    assert contract_digest(ONCE) == contract_digest(NIGHTLY)
    assert contract_digest(contract(source={"invalid": "leave-out"})) != contract_digest(ONCE)


VALUES = st.sampled_from(
    ["20", "", "old", "9" * 30, "2024-05-01", "3.5", "1e999", "n", "e", "no", "yes", "perhaps", "?"]
)


@given(
    st.lists(st.tuples(*[VALUES] * len(GAPS)), max_size=6),
    st.sampled_from(["day", "once"]),
    st.sampled_from([None, "?"]),
)
def test_a_rows_fate_is_its_own(
    rows: list[tuple[str, ...]], every: str, missing: str | None
) -> None:
    """All rows together give what each gives alone, one after another."""
    said = contract(
        source={"invalid": "leave-out", **({"missing": missing} if missing else {})},
        releases={"every": every},
    )
    alone = [typed_table(as_table([list(row)]), said, "rows") for row in rows]
    together = typed_table(as_table([list(row) for row in rows]), said, "rows")
    assert together.num_rows <= len(rows)
    assert together.to_pylist() == [row for table in alone for row in table.to_pylist()]


@pytest.mark.parametrize("value", ["", None])
def test_a_row_of_nobody_is_left_out(value: str | None) -> None:
    nightly = contract(privacy=PERSON, releases={"every": "day"})
    rows = as_table([[*GOOD, "ada"], [*GOOD, "bob"]], (*GAPS, "who")).set_column(
        5, "who", pa.array(["ada", value], pa.string())
    )
    assert typed_table(rows, nightly, "rows").num_rows == 1
    with pytest.raises(DataError, match="column 'who': is empty"):
        typed_table(rows, contract(privacy=PERSON), "rows")


def test_who_is_on_both_sides_of_a_split_is_on_neither() -> None:
    from dpicl.data.reading.split import split_table

    columns = {**GAPS, "part": {"type": "category", "categories": ["train", "test"]}}
    said = contract(
        columns,
        privacy=PERSON,
        releases={"every": "day"},
        split={"column": "part", "train": "train", "test": "test"},
    )
    rows = [
        [*GOOD, part, who]
        for part, who in (("train", "a"), ("test", "b"), ("train", "c"), ("test", "c"))
    ]
    read = typed_table(as_table(rows, (*columns, "who")), said, "rows")
    assert split_table(read, said, key=b"k" * 32).train.row_count == 1


EXCHANGED = {"neighbours": "replace-one", "budget": {"epsilon": 3}}


@pytest.mark.parametrize("name", BAD)
def test_where_rows_are_only_exchanged_none_goes(name: str) -> None:
    """Their number is public, as that of clients is: the first category or the lower bound stands
    in.
    """
    column, value = BAD[name]
    said = contract(privacy=EXCHANGED, releases={"every": "day"})
    read = typed_table(as_table([with_value(column, value)]), said, "rows")
    stand_in = "" if column in NULLABLE else {"spent": "0", "bought": "no"}[column]
    assert said.tells_row_count and read.equals(
        typed_table(as_table([with_value(column, stand_in)]), ONCE, "rows")
    )


FILES: dict[str, bytes] = {
    "too few fields": b"20,2024-05-01\n",
    "too many fields": b"20,2024-05-01,3.5,n,no,no\n",
    "an unquoted comma": b"20,2024-05-01,3,5,n,no\n",
    "Latin-1 in a category": "20,2024-05-01,3.5,n,nö\n".encode("latin-1"),
    "bytes of no text": b"20,2024-05-01,3.5,\xff\xfe,no\n",
    "half a letter": b"20,2024-05-01,3.5,n,no\xc3\n",
    "a row of 3 MiB": b"20,2024-05-01,3.5,n," + b"y" * (3 << 20) + b"\n",
    "a NUL": b"20,2024-05-01,3.5,n,n\x00o\n",
    "a quoted line end": b'20,2024-05-01,3.5,n,"no\nyes"\n',
}


@pytest.mark.parametrize("name", FILES)
def test_a_line_that_is_no_row_is_left_out(tmp_path: Path, name: str) -> None:
    good = as_csv([GOOD] * 3).encode()
    head, rest = good[: good.index(b"\n") + 1], good[good.index(b"\n") + 1 :]
    (tmp_path / "shop.csv").write_bytes(head + FILES[name] + rest)
    assert read_table(tmp_path / "shop.csv", NIGHTLY).equals(
        typed_table(as_table([GOOD] * 3), ONCE, "rows")
    )
    with pytest.raises(DataError):
        read_table(tmp_path / "shop.csv", ONCE)


def test_bytes_of_no_text_in_a_column_that_is_ignored_are_nothing(tmp_path: Path) -> None:
    (tmp_path / "shop.csv").write_bytes(
        as_csv([[*GOOD, "note"]], (*GAPS, "note")).encode() + b"20,2024-05-01,3.5,n,no,caf\xe9\n"
    )
    said = contract(source={"ignore": ["note"]}, releases={"every": "day"})
    assert read_table(tmp_path / "shop.csv", said).num_rows == 2


@pytest.mark.parametrize("row", [b'20,2024-05-01,3.5,n,"no\n', b'"20,2024-05-01,3.5,n,no\n'])
@pytest.mark.parametrize("said", [NIGHTLY, ONCE], ids=["nightly", "once"])
def test_a_quote_that_is_never_closed_is_the_files(
    tmp_path: Path, row: bytes, said: Contract
) -> None:
    """Where a row ends is no longer known, so that others would go with it."""
    (tmp_path / "shop.csv").write_bytes(as_csv([GOOD] * 3).encode() + row + as_csv([GOOD]).encode())
    with pytest.raises(DataError, match="closed quotes"):
        read_table(tmp_path / "shop.csv", said)


@pytest.mark.parametrize(
    "row",
    [
        b'20,2024-05-01,3.5,"n,no,a\n',
        b'20,2024-05-01,3.5,n,no,"a\n',
        b'"20,2024-05-01,3.5,n,no,a\r\n',
    ],
)
@pytest.mark.parametrize("between", [0, 1, 5])
@pytest.mark.parametrize("said", [{"every": "day"}, {"every": "once"}], ids=["nightly", "once"])
def test_so_is_one_that_another_row_s_quote_would_close(
    tmp_path: Path, row: bytes, between: int, said: dict[str, str]
) -> None:
    """The rows between, which others wrote, would be one field of it."""
    rows = [*[b"20,2024-05-01,3.5,n,no,b\n"] * between, b'20,2024-05-01,3.5,n,no,"a, b"\n']
    (tmp_path / "shop.csv").write_bytes(b"age,when,spent,city,bought,note\n" + row + b"".join(rows))
    with pytest.raises(DataError, match="closed quotes"):
        read_table(tmp_path / "shop.csv", contract(source={"ignore": ["note"]}, releases=said))


def test_rows_that_another_s_quote_swallows_would_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault as it was, in a mutant: five rows of others go with one."""
    monkeypatch.setattr("dpicl.ground.records._quoted", lambda delimiter: re.compile(b"(?!)"))
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_so_is_one_that_another_row_s_quote_would_close(
            tmp_path, b'20,2024-05-01,3.5,n,no,"a\n', 5, {"every": "day"}
        )


@pytest.mark.parametrize(
    "field", ['"a, b"', '"a\n\nb"', '""', '"a ""b"" c\r\n"', 'a "b" c', '"a"b', "\u201ca"]
)
def test_a_quote_that_is_closed_is_its_rows_own(tmp_path: Path, field: str) -> None:
    rows = (
        f'age,when,spent,city,bought,note\n20,2024-05-01,3.5,n,no,{field}\n20,2024-05-01,3.5,n,no,"a, '  # noqa: E501
        f""
        f""
        f""
        f""
        f'b"\n'
    )
    (tmp_path / "shop.csv").write_text(rows, newline="")
    assert (
        read_table(
            tmp_path / "shop.csv", contract(source={"ignore": ["note"]}, releases={"every": "day"})
        ).num_rows
        == 2
    )


@pytest.mark.parametrize(
    "content", [as_csv([GOOD]).encode("utf-16"), b"age\n20\n", b"age,age,when,spent,city,bought\n"]
)
def test_a_file_of_another_form_is_refused_as_ever(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "shop.csv").write_bytes(content)
    with pytest.raises(DataError):
        read_table(tmp_path / "shop.csv", NIGHTLY)


TYPED: dict[str, pd.DataFrame] = {
    "an unknown category": frame([*ROWS, (20, 1.0, "e", "no")]),
    "a gap in an integer column": frame([*ROWS, (None, 1.0, "n", "no")]),
    "a gap in a real column": frame([*ROWS, (20, None, "n", "no")]),
    "infinity": frame([*ROWS, (20, float("inf"), "n", "no")]),
    "no label": frame([*ROWS, (20, 1.0, "n", None)]),
    "a fraction": frame([*ROWS, (20.5, 1.0, "n", "no")]),
    "all of it": frame([*ROWS, (None, None, None, None)]),
    "a category of its own type": frame([*ROWS, (20, 1.0, "e", "no")]).astype({"city": "category"}),
}


@pytest.mark.parametrize("name", TYPED)
def test_a_night_with_such_a_row_is_released_like_one_without(place: Place, name: str) -> None:
    nightly = {**SCHEMA, "releases": {"every": "day"}}
    usual = seen(frame(ROWS), "mst_tabicl", nightly, account="usual", period="2027-01-01")
    found = seen(TYPED[name], "mst_tabicl", nightly, account="a", period="2027-01-01")
    assert {**found, "names": 1} == {**usual, "names": 1}
    with pytest.raises(DataError):
        seen(TYPED[name], "mst_tabicl", SCHEMA, account="once")


ODD: dict[str, dict[str, Any]] = {
    "a word among numbers": {"age": "old"},
    "beyond 64 bits": {"age": 2.0**70},
    "NULL": {"bought": None},
    "a number among words": {"city": 7},
    "a fraction": {"age": 20.5},
    "infinity": {"spent": float("inf")},
    "bytes for a number": {"age": b"\x00\xff"},
    "a text of other bytes": {"city": b"n\xff"},
    "a text of half a letter": {"bought": b"\xed\xa0\x80"},
}


@pytest.mark.parametrize("name", ODD)
def test_so_is_a_row_of_a_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """SQLite holds values of any type in a column of one."""
    columns = {
        name: {**column, "nullable": False} for name, column in GAPS.items() if name != "when"
    }
    good = [
        {"age": 20, "spent": 3.5, "city": "n", "bought": "no"},
        {"age": 2**40 + 1, "spent": 4.0, "city": "w", "bought": "yes"},
    ]
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE shop (age, spent, city, bought)")
        database.executemany(
            "INSERT INTO shop VALUES (:age, :spent, CAST(:city AS TEXT), CAST(:bought AS TEXT))",
            [*good, {**good[0], **ODD[name]}],
        )
    monkeypatch.setenv("SHOP_URL", f"sqlite:///{tmp_path / 'shop.db'}")
    query = {"query": {"url_env": "SHOP_URL", "sql": "SELECT * FROM shop ORDER BY rowid"}}
    said = parse_contract(
        {
            "name": "shop",
            "account": "shop",
            "source": query,
            "privacy": {"budget": {"epsilon": 3}},
            "columns": columns,
            "label": "bought",
            "releases": {"every": "day"},
        },
        "shop.yaml",
    )
    assert isinstance(said, Contract)
    read = load_source(said, data_folder=None, cache_folder=tmp_path)
    assert sorted(map(str, read.to_pylist())) == sorted(map(str, good))


@pytest.mark.parametrize("method", ["aim_tabicl", "gdp_tabicl", "tab_pe", "ldp_tabicl"])
def test_by_every_method(place: Place, method: str) -> None:
    nightly = {**SCHEMA, "releases": {"every": "month"}}
    usual = seen(frame(ROWS), method, nightly, account="usual", period="2027-01")
    found = seen(TYPED["all of it"], method, nightly, account="a", period="2027-01")
    assert {**found, "names": 1} == {**usual, "names": 1}


def test_how_many_were_left_out_is_shown_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = as_table(
        [GOOD, with_value("spent", "much"), with_value("spent", ""), with_value("city", "e")]
    )
    typed_table(rows, NIGHTLY, "rows")
    assert capsys.readouterr() == ("", "")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        typed_table(rows, NIGHTLY, "rows")
        terminal.flush()
        shown = ""
        while shown.count("\n") < 2:  # a terminal gives line by line
            shown += os.read(ours, 4096).decode()
    os.close(ours)
    assert (
        "rows: 2 rows that break the contract by themselves are left out" in shown
        and "1 values" in shown
    )


CELLS: dict[str, Any] = {
    "a list": [20],
    "a mapping": {"n": 1},
    "an object": object(),
    "bytes of no text": b"\xff",
    "a complex number": 3 + 4j,
    "half a letter": "\ud800",
    "a span": pd.Timedelta("1h"),
    "a span of numpy's": np.timedelta64(1, "h"),
    "an interval": pd.Interval(0, 1),
    "a period": pd.Period("2020"),
    "an array": np.array([1, 2]),
    "a range": range(3),
    "a masked value": np.ma.masked,
    "a number of more digits than are written": 10**5000,
    "a decimal of more": Decimal("1e999999999"),
    "a decimal that signals": Decimal("sNaN"),
    "a day among numbers": np.datetime64("2020-01-01"),
    "a day beyond the calendar": np.datetime64("99999-01-01"),
}


@pytest.mark.parametrize("column", ["age", "city"])
@pytest.mark.parametrize("name", CELLS)
def test_a_cell_of_a_frame_that_csv_has_no_text_for_is_its_rows_own_fault(
    name: str, column: str
) -> None:
    nightly, once = (
        schema_contract({**SCHEMA, "releases": {"every": "day"}}),
        schema_contract(SCHEMA),
    )
    rows = frame(ROWS[:5]).astype(object)
    good = typed_table(as_arrow(rows.drop(index=2)), once, "rows")
    rows.at[2, column] = CELLS[name]  # noqa: PD008 - a list is one cell
    assert typed_table(as_arrow(rows), nightly, "rows").equals(good)
    with pytest.raises(DataError) as refused:
        typed_table(as_arrow(rows), once, "rows")
    assert refused.value.column == column and refused.value.details().endswith("(1 value)")


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("source", [{"file": "1.parquet"}, {"folder": "nights"}], ids=str)
@pytest.mark.parametrize("column", ["when", "city", "bought"])
def test_a_text_of_parquet_that_is_no_utf_8_is_its_rows_own_fault(
    tmp_path: Path, kind: pa.DataType, source: dict[str, str], column: str
) -> None:
    """Such a text as Arrow itself would not make, in the second of three rows."""
    good = as_table([GOOD] * 3)
    words = [str(good[column][0]).encode(), b"\xff", str(good[column][0]).encode()]
    stored = pa.array(words, pa.large_binary() if kind == pa.large_string() else pa.binary())
    broken = pa.Array.from_buffers(kind, 3, stored.buffers())
    (tmp_path / "nights").mkdir()
    for place in (tmp_path / "1.parquet", tmp_path / "nights" / "1.parquet"):
        pq.write_table(good.set_column(good.column_names.index(column), column, broken), place)

    def read(**changes: Any) -> pa.Table:
        said = contract(source={"file": None, **source}, **changes)
        return load_source(said, data_folder=tmp_path, cache_folder=tmp_path / "cache")

    assert read(releases={"every": "day"}).num_rows == (3 if column in NULLABLE else 2)
    with pytest.raises(DataError, match="holds neither numbers nor text"):
        read()


@pytest.mark.parametrize("column", GAPS)
@pytest.mark.parametrize("odd", [b"\xff", [1], 1j, "\ud800"], ids=repr)
@pytest.mark.parametrize("words", [["?"], [-9]], ids=str)
def test_so_is_what_is_no_text_where_a_word_for_missing_is_stated(
    column: str, odd: Any, words: list[Any]
) -> None:
    """In the same column, and in another."""
    good = frame(ROWS[:3]).astype(object)
    cells = {"when": "2024-05-01"} | {name: good[name].tolist() for name in good}
    rows = pd.DataFrame({**cells, "when": ["2024-05-01"] * 3}, dtype=object)[[*GAPS]]
    broken = rows.copy()
    broken.at[1, column] = odd
    columns = {**GAPS, column: {**GAPS[column], "missing": words}}
    nightly = contract(columns, releases={"every": "day"})
    read = typed_table(as_arrow(broken), nightly, "rows")
    assert read.num_rows == (3 if column in NULLABLE else 2)
    assert read.slice(0, 1).equals(typed_table(as_arrow(rows), nightly, "rows").slice(0, 1))


VIEWS: dict[str, pa.DataType] = {"city": pa.string_view(), "bought": pa.binary_view()}


@pytest.mark.parametrize("column", VIEWS)
@pytest.mark.parametrize("name", ["unknown category", "no day", "an empty real"])
def test_so_is_a_row_beside_texts_as_polars_has_them(column: str, name: str) -> None:
    rows = as_table([GOOD, with_value(*BAD[name]), GOOD])
    viewed = rows.set_column(
        rows.column_names.index(column), column, rows[column].cast(VIEWS[column])
    )
    assert typed_table(as_arrow(viewed), NIGHTLY, "rows").equals(typed_table(rows, NIGHTLY, "rows"))
    marked = contract({**GAPS, "age": {**GAPS["age"], "missing": [-9]}}, releases={"every": "day"})
    assert typed_table(viewed, marked, "rows").equals(typed_table(rows, marked, "rows"))


@pytest.mark.parametrize("kind", ["date", "datetime"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("ticks", [-(2**63), -(2**63) + 1, 2**63 - 1])
def test_a_time_at_the_end_of_all_is_clipped(kind: str, unit: str, ticks: int) -> None:
    columns = {**GAPS, "when": {**GAPS["when"], "type": kind}}
    nightly = contract(columns, releases={"every": "day"})
    rows = as_table([GOOD] * 2)
    day = pa.array([1_714_521_600 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit], ticks])
    table = rows.set_column(1, "when", day.cast(pa.timestamp(unit)))
    read = typed_table(table, nightly, "rows")
    assert read.num_rows == 2
    assert read["when"][0] == typed_table(rows, nightly, "rows")["when"][0]


def test_a_day_of_some_hours_and_bytes_in_memory_are_their_rows_own() -> None:
    rows = as_table([GOOD] * 3)
    day = pa.array([19_844 * 86_400_000] * 2 + [19_844 * 86_400_000 + 5], pa.int64())
    table = rows.set_column(1, "when", day.cast(pa.date64(), safe=False))
    assert typed_table(table, NIGHTLY, "rows").equals(typed_table(rows, NIGHTLY, "rows"))
    words = pa.array([b"n", b"\xff", b"n"], pa.binary())
    broken = pa.Array.from_buffers(pa.string(), 3, words.buffers())
    table = as_arrow(rows.set_column(3, "city", broken))
    assert typed_table(table, NIGHTLY, "rows").num_rows == 3


@pytest.mark.parametrize("suffix", ["binary", "large_binary", "dictionary"])
def test_so_are_bytes_of_arrow(suffix: str) -> None:
    kind = (
        pa.dictionary(pa.int8(), pa.binary()) if suffix == "dictionary" else getattr(pa, suffix)()
    )
    good = pa.Table.from_pandas(frame(ROWS[:4]), preserve_index=False)
    city = pa.array(
        [b"\xff", *(one.encode() for one in good["city"].to_pylist())], pa.binary()
    ).cast(kind)
    rows = pa.concat_tables([good.slice(0, 1), good]).set_column(2, "city", city)
    nightly, once = (
        schema_contract({**SCHEMA, "releases": {"every": "day"}}),
        schema_contract(SCHEMA),
    )
    assert typed_table(rows, nightly, "rows").equals(typed_table(good, once, "rows"))


def test_what_a_cell_is_to_others_changes_no_other() -> None:
    """A driver's values of one type, and beside one of another."""
    for one in (b"n", "n", 7, 7.0, 2.5, True, Decimal("1.50"), UUID(int=7), None):
        alone = of_objects([one]).cast(pa.string()).to_pylist()
        assert all(
            of_objects([one, other]).cast(pa.string()).to_pylist()[:1] == alone
            for other in ([1], b"\xff", "x", {"a": 1}, None)
        )


def refused_as_a_whole(values: Any) -> Any:
    """As it was: what has no text is nobody's row."""
    raise DataError("rows", "holds neither numbers nor text")


def test_a_frame_that_is_refused_as_a_whole_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpicl.data.reading.typed_columns.texts", refused_as_a_whole)
    with pytest.raises(DataError):
        test_a_cell_of_a_frame_that_csv_has_no_text_for_is_its_rows_own_fault("a list", "age")


def refusing(values: Any, read: Any, *place: str, refuse: bool) -> Any:
    """As it was."""
    return VALID(values, read, *place, refuse=True)


def all_go(values: Any, read: Any, *place: str, refuse: bool) -> Any:
    typed, kept = VALID(values, read, *place, refuse=refuse)
    return typed, kept if kept.all() else np.zeros_like(kept)


def the_next_goes(values: Any, read: Any, *place: str, refuse: bool) -> Any:
    typed, kept = VALID(values, read, *place, refuse=refuse)
    return typed, kept if kept.all() else np.roll(kept, 1)


VALID = parse._valid


@pytest.mark.parametrize("mutant", [refusing, all_go, the_next_goes])
def test_another_fate_would_be_seen(monkeypatch: pytest.MonkeyPatch, mutant: Any) -> None:
    """Mutants: the fault as it was, and rows that go with others."""
    monkeypatch.setattr(parse, "_valid", mutant)
    for name in ("an unknown label", "an empty real"):
        with pytest.raises((AssertionError, DataError)):
            test_where_releases_are_renewed_the_row_alone_goes_or_has_a_gap(name)
