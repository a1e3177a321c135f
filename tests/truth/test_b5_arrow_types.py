"""Types of Arrow are let in by a list for each type of column: what only casts to a number is
refused, before a charge, in one sentence.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpicl
from dpicl.data.reading import parse, typed_columns
from dpicl.data.reading.typed_columns import as_arrow, check_types
from dpicl.ground.errors import DataError, DpiclError
from dpicl.release.door import schema_contract
from tests.truth.no_noise import Plain

KINDS: dict[str, dict[str, Any]] = {
    "integer": {"type": "integer", "bounds": [0, 10]},
    "real": {"type": "real", "bounds": [0, 10], "nullable": True},
    "category": {"type": "category", "categories": ["1", "2"]},
    "whole category": {"type": "category", "categories": [1, 2], "nullable": True},
    "boolean": {"type": "boolean", "nullable": True},
    "date": {"type": "date", "bounds": ["1960-01-01", "2030-01-01"]},
    "datetime": {"type": "datetime", "bounds": ["1960-01-01", "2030-01-01"], "nullable": True},
}
NUMBERS = ("integer", "real")
DATES = ("date", "datetime")


def runs(values: pa.Array) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), values)


NEVER: dict[str, pa.Array] = {
    "duration of seconds": pa.array([1, 2], pa.duration("s")),
    "duration of nanoseconds": pa.array([3600 * 10**9, 2], pa.duration("ns")),
    "durations in a dictionary": pa.array([1, 2], pa.duration("us")).dictionary_encode(),
    "timedelta of pandas": pa.array(pd.Series(pd.to_timedelta([1, 2], "h"))),
    "time of seconds": pa.array([1, 2], pa.time32("s")),
    "time of microseconds": pa.array([1, 2], pa.time64("us")),
    "calendar interval": pa.array([(1, 2, 3), (1, 2, 3)], pa.month_day_nano_interval()),
    "period of pandas": pa.array(pd.Series(pd.period_range("2020", "2021", freq="Y"))),
    "interval of pandas": pa.array(pd.Series(pd.interval_range(0, 2))),
    "cut of pandas": pa.array(pd.Series(pd.cut([1, 2], [0, 1, 2]))),
    "list": pa.array([[1], [2]]),
    "large list of text": pa.array([["1"], ["2"]], pa.large_list(pa.string())),
    "list of one": pa.array([[1], [2]], pa.list_(pa.int64(), 1)),
    "struct": pa.array([{"secret": 1}, {"secret": 2}]),
    "map": pa.array([[("secret", 1)], [("secret", 2)]], pa.map_(pa.string(), pa.int64())),
    "sparse union": pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])]),
    "dense union": pa.UnionArray.from_dense(
        pa.array([0, 0], pa.int8()), pa.array([0, 1], pa.int32()), [pa.array([1, 2])]
    ),
    "run ends of numbers": runs(pa.array([1, 2])),
    "run ends of text": runs(pa.array(["1", "2"])),
    "uuid": pa.array([b"1" * 16, b"2" * 16], pa.uuid()),
    "json": pa.array(["1", "2"], pa.json_()),
    "bool8": pa.array([1, 0], pa.bool8()),
    "bytes of one length": pa.array([b"1", b"2"], pa.binary(1)),
}
"""No column takes these."""
TEXTS = {
    "string": pa.array(["1", "2"]),
    "large string": pa.array(["1", "2"], pa.large_string()),
    "string view": pa.array(["1", "2"], pa.string_view()),
    "bytes": pa.array([b"1", b"2"]),
    "large bytes": pa.array([b"1", b"2"], pa.large_binary()),
    "bytes view": pa.array([b"1", b"2"], pa.binary_view()),
    "text in a dictionary": pa.array(["1", "2"]).dictionary_encode(),
}
WHOLE = {
    str(kind): pa.array([1, 2], kind)
    for kind in (pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.int64(), pa.uint64())
}
FLOATS = {
    "half": pa.array(np.array([1, 2], np.float16)),
    "float": pa.array([1, 2], pa.float32()),
    "double": pa.array([1.0, 2]),
}
DECIMALS = {
    str(kind): pa.array([Decimal(1), Decimal(2)], kind)
    for kind in (pa.decimal32(5, 2), pa.decimal64(5, 0), pa.decimal128(5, 1), pa.decimal256(60, 2))
}
DAYS = {
    "date32": pa.array([1, 2], pa.date32()),
    "date64": pa.array([86_400_000, 2 * 86_400_000], pa.date64()),
    "timestamp": pa.array([1, 2], pa.timestamp("ns", "America/New_York")),
    "dates in a dictionary": pa.array([1, 2], pa.date32()).dictionary_encode(),
}
BOOLEANS = {
    "bool": pa.array([True, False]),
    "booleans in a dictionary": pa.array([True, False]).dictionary_encode(),
}


def refusal(values: pa.Array, column: dict[str, Any]) -> str | None:
    """What is said of a column of this type, whatever it holds."""
    contract = schema_contract(
        {"columns": {"x": column, "y": {"type": "category", "categories": ["a"]}}}
    )
    said = []
    for some in (values, values[:0] if not pa.types.is_union(values.type) else values):
        try:
            check_types(pa.schema([pa.field("x", some.type)]), contract, "rows")
            said.append(None)
        except DataError as error:
            said.append(str(error))
    assert len(set(said)) == 1
    return said[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NEVER)
def test_what_is_no_plain_value_is_refused_by_its_type(name: str, kind: str) -> None:
    sentence = refusal(NEVER[name], KINDS[kind])
    assert (
        sentence is not None
        and sentence.startswith("rows: column 'x': holds neither ")
        and "; expected " in sentence
    )
    assert "secret" not in sentence and "\n" not in sentence


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_plain_is_let_in_where_it_means_what_the_column_holds(kind: str) -> None:
    is_number, is_date = kind in NUMBERS, kind in DATES
    for values in (
        *TEXTS.values(),
        *WHOLE.values(),
        *FLOATS.values(),
        *DECIMALS.values(),
        pa.nulls(2),
    ):
        assert refusal(values, KINDS[kind]) is None, values.type
    for values in DAYS.values():
        assert (refusal(values, KINDS[kind]) is None) == (not is_number), values.type
    for values in BOOLEANS.values():
        assert (refusal(values, KINDS[kind]) is None) == (not is_number and not is_date), (
            values.type
        )


@pytest.mark.parametrize(
    "some", [TEXTS, WHOLE, FLOATS, DECIMALS], ids=["texts", "whole", "floats", "decimals"]
)
def test_what_is_let_in_is_read_as_what_it_is(some: dict[str, pa.Array]) -> None:
    for name, values in some.items():
        rows = pa.table({"x": values, "z": values, "y": ["a", "a"]})
        columns = {
            "x": KINDS["integer"],
            "z": KINDS["whole category"],
            "y": {"type": "category", "categories": ["a", "b"]},
        }
        assert Plain.of(rows, columns).table().select(["x", "z"]).to_pydict() == {
            "x": [1, 2],
            "z": [1, 2],
        }, name


CELLS: dict[str, Any] = {
    "timedelta": timedelta(hours=1),
    "timedelta of pandas": pd.Timedelta("1h"),
    "timedelta of numpy": np.timedelta64(3_600_000_000_000, "ns"),
    "time": time(12, 30),
    "complex": 1j,
    "complex of numpy": np.complex128(1),
    "fraction": Fraction(1, 2),
    "period": pd.Period("2020", "Y"),
    "interval": pd.Interval(0, 1),
    "set": {1},
    "array of one": np.array([5]),
    "type": int,
}


@pytest.mark.parametrize("name", CELLS)
def test_an_object_of_no_plain_type_is_refused_among_any_others(name: str) -> None:
    values = np.empty(3, dtype=object)
    values[:] = [1, CELLS[name], "2"]
    for kind in ("integer", "whole category"):
        columns = {"x": KINDS[kind], "y": {"type": "category", "categories": ["a", "b"]}}
        with pytest.raises(DataError, match="column 'x': holds neither numbers nor text"):
            Plain.of(pd.DataFrame({"x": values, "y": ["a"] * 3}), columns)


@pytest.mark.parametrize("kind", [pa.decimal128(5, -2), pa.decimal256(9, -1)], ids=str)
@pytest.mark.parametrize(
    "column",
    [
        {"type": "integer", "bounds": [0, 500]},
        {"type": "real", "bounds": [0, 500]},
        {"type": "category", "categories": [100, 200]},
    ],
    ids=lambda column: str(column["type"]),
)
def test_decimals_of_hundreds_are_whole_numbers(column: dict[str, Any], kind: pa.DataType) -> None:
    label = {"type": "category", "categories": ["no", "yes"]}
    contract = schema_contract({"columns": {"x": column, "y": label}, "label": "y"})
    found, same = (
        parse.typed_table(pa.table({"x": values, "y": ["no", "yes"]}), contract, "rows")
        for values in (pa.array([Decimal(100), Decimal(200)], kind), pa.array([100, 200]))
    )
    assert found.equals(same)


def test_plain_objects_are_read_as_they_are_written() -> None:
    cells = [
        np.datetime64("2020-02-29", "ns"),
        np.datetime64("2020-02-29"),
        datetime(2020, 2, 29, 12),
        date(2020, 2, 29),
        Decimal("1.50"),
        np.int8(3),
        True,
    ]
    values = np.empty(len(cells), dtype=object)
    values[:] = cells
    expected = [
        "2020-02-29T00:00:00",
        "2020-02-29T00:00:00",
        "2020-02-29T12:00:00",
        "2020-02-29",
        "1.50",
        "3",
        "true",
    ]
    assert as_arrow(pd.DataFrame({"x": values})).column("x").to_pylist() == expected


FRAMES: dict[str, Callable[[], Any]] = {
    "timedelta": lambda: pd.DataFrame({"x": pd.to_timedelta([1, 2] * 20, "h")}),
    "timedelta of Arrow": lambda: pd.DataFrame(
        {"x": pd.array([1, 2] * 20, dtype="duration[s][pyarrow]")}
    ),
    "timedelta as categories": lambda: pd.DataFrame(
        {"x": pd.Categorical(pd.to_timedelta([1, 2] * 20, "h"))}
    ),
    "period": lambda: pd.DataFrame({"x": pd.period_range("2020", periods=40, freq="M")}),
    "complex": lambda: pd.DataFrame({"x": np.arange(40) * 1j}),
    "time of day": lambda: pa.table({"x": pa.array(range(40), pa.time64("us"))}),
    "stream of durations": lambda: pa.RecordBatch.from_pydict(
        {"x": pa.array(range(40), pa.duration("us"))}
    ),
}


def check_release(name: str, home: Path) -> None:
    """One sentence, and nothing is charged."""
    rows = FRAMES[name]()
    rows = (
        rows.assign(y=["a", "b"] * 20)
        if isinstance(rows, pd.DataFrame)
        else rows.append_column("y", pa.array(["a", "b"] * 20))
    )
    schema = {
        "columns": {"x": KINDS["integer"], "y": {"type": "category", "categories": ["a", "b"]}},
        "label": "y",
    }
    with pytest.raises(DpiclError) as refused:
        dpicl.protect(rows, schema, epsilon=1, account="stays", home=home)
    assert "column 'x': holds neither numbers nor text" in str(refused.value)
    assert not any(one.epsilon_spent for one in dpicl.Session(home).budget())


@pytest.mark.parametrize("name", FRAMES)
def test_a_release_of_another_type_is_refused_before_it_is_charged(
    name: str, tmp_path: Path
) -> None:
    check_release(name, tmp_path / "home")


def test_a_parquet_file_of_durations_is_refused_also_beside_a_word_for_missing(
    tmp_path: Path,
) -> None:
    pq.write_table(
        pa.table({"x": pa.array(range(40), pa.duration("ns")), "y": ["a", "b"] * 20}),
        tmp_path / "stays.parquet",
    )
    for source in ({}, {"missing": "?"}):
        schema = {
            "source": source,
            "columns": {"x": KINDS["integer"], "y": {"type": "category", "categories": ["a", "b"]}},
        }
        with pytest.raises(
            DpiclError, match="column 'x': holds neither numbers nor text but duration"
        ):
            dpicl.protect(
                tmp_path / "stays.parquet", schema, epsilon=1, budget=2, home=tmp_path / "home"
            )


def test_a_list_that_lets_all_in_is_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in (typed_columns, parse):
        monkeypatch.setattr(module, "check_taken", lambda *_: None)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check_release("timedelta", tmp_path / "home")
    assert refusal(NEVER["period of pandas"], KINDS["integer"]) is None


def test_a_file_keeps_what_is_let_in() -> None:
    """Text without a mark, as older writers of Parquet leave it."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": [b"1", b"2"], "y": [b"a", b"b"]}), sink)
    rows = pq.read_table(sink)
    assert pa.types.is_binary(rows.schema.field("x").type)
    columns = {"x": KINDS["integer"], "y": {"type": "category", "categories": ["a", "b"]}}
    assert Plain.of(rows, columns).table().to_pydict() == {"x": [1, 2], "y": ["a", "b"]}
