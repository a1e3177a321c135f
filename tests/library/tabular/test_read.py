"""Reading is strict, says what is wrong without showing a value, and rows have one digest."""

from __future__ import annotations

import gzip
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dpicl.contract.columns.integer import BEYOND, NOT_WHOLE
from dpicl.contract.columns.real import NOT_FINITE
from dpicl.data.reading.files import _order, canonical_order, read_table, rows_digest
from dpicl.data.reading.parse import typed_table
from dpicl.ground.errors import DataError
from dpicl.ground.records import read_csv

from ..table_contracts import GOOD_CSV, HEADER, ROWS, small_contract

NOT_LISTED = "is not one of the 3 categories; expected one of red, green, blue"
CONTRACT = small_contract()
HUGE = 2**63


def _file(folder: Path, content: bytes, name: str = "people.csv") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def _csv(*rows: str, header: str = HEADER) -> bytes:
    return "\n".join((header, *rows, "")).encode()


def _typed(rows: list[tuple[object, ...]]) -> pa.Table:
    columns = dict(zip(CONTRACT.columns, zip(*rows, strict=True), strict=True))
    return typed_table(
        pa.table({name: pa.array(values) for name, values in columns.items()}), CONTRACT, "rows"
    )


def test_columns_come_in_contract_order_with_contract_types(tmp_path: Path) -> None:
    shuffled = _csv("red,no,31,1.75", "blue,yes,48,-0.0", header="colour,y,age,height")
    table = read_table(_file(tmp_path, shuffled), CONTRACT)
    assert table.column_names == ["age", "height", "colour", "y"]
    assert table.column("age").equals(pa.chunked_array([[31, 48]]))
    assert [math.copysign(1, value) for value in table.column("height").to_pylist()] == [1, 1]
    colour = table.column("colour").combine_chunks()
    assert colour.dictionary.to_pylist() == ["red", "green", "blue"]
    assert colour.indices.to_pylist() == [0, 2]


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("people.csv", bytes),
        ("people.csv.gz", gzip.compress),
        ("people.csv", lambda data: b"\xef\xbb\xbf" + data),
    ],
)
def test_every_packing_of_csv_reads_the_same(tmp_path: Path, name: str, pack) -> None:
    assert read_table(_file(tmp_path, pack(GOOD_CSV.encode()), name), CONTRACT).equals(
        read_table(_file(tmp_path, GOOD_CSV.encode(), "p.csv"), CONTRACT)
    )


def test_windows_line_ends_quotes_and_a_missing_last_newline_are_fine(tmp_path: Path) -> None:
    content = b'age,height,colour,y\r\n"31",1e0,"red",no\r\n48,.5,blue,yes'
    rows = read_table(_file(tmp_path, content), CONTRACT).to_pylist()
    assert [tuple(row.values()) for row in rows] == [(31, 1, "red", "no"), (48, 0.5, "blue", "yes")]


@pytest.mark.parametrize(
    ("text", "value"),
    [("1.0", 1), ("-0", 0), (str(HUGE - 1), HUGE - 1), (str(-HUGE), -HUGE), ("121", 121)],
)
def test_whole_numbers_are_read_exactly_even_out_of_bounds(
    tmp_path: Path, text: str, value: int
) -> None:
    table = read_table(_file(tmp_path, _csv(f"{text},1.7,red,no")), CONTRACT)
    assert table.column("age").to_pylist() == [value]


# (what is wrong, the file, what the message says after the file's name)
BAD_CSV = [
    (
        "missing column",
        _csv("31,1.75,red", header="age,height,colour"),
        "column 'y': is not among the columns; expected all 4",
    ),
    ("no header", _csv(header=ROWS[0]), "column 'age': is not among the columns (and 3 more)"),
    (
        "extra column",
        _csv("31,1.75,red,no,1", header=HEADER + ",shoe"),
        "column 'shoe': is not in the contract; expected its columns, or `source: {ignore: [",
    ),
    (
        "duplicated header",
        _csv("31,1.75,red,no,31", header=HEADER + ",age"),
        "column 'age': has a name that stands twice",
    ),
    (
        "lost line break",
        _csv(*ROWS, header=HEADER + ",31,1.75,red,no"),
        "column 5 of 8 is not in the contract (and 3 more)",
    ),
    (
        "lost line break, twice",
        _csv(*ROWS, header=HEADER + ",red,red"),
        "column 5 of 6 has a name that stands twice",
    ),
    (
        "a text of 100 KiB",
        _csv(f"31,1.75,{'x' * 100_000},no"),
        "column 'colour': has more than 65536 bytes (1 value)",
    ),
    (
        "blank in a header",
        _csv(*ROWS, header="age, height,colour,y"),
        "column 'height': is not among the columns",
    ),
    ("text as integer", _csv("x,1.75,red,no", *ROWS), f"column 'age': {NOT_WHOLE} (1 value)"),
    (
        "fraction as integer",
        _csv("1.5,1.75,red,no", "2.25,1.75,red,no"),
        f"column 'age': {NOT_WHOLE} (2 values)",
    ),
    ("other digits", _csv("٣١,1.75,red,no"), f"column 'age': {NOT_WHOLE} (1 value)"),
    (
        "2^63",
        _csv(f"{HUGE},1.75,red,no", f"{-HUGE - 1},1.75,red,no", *ROWS),
        f"column 'age': {BEYOND} (2 values)",
    ),
    ("thousands of digits", _csv(f"{'9' * 5000},1.75,red,no"), f"column 'age': {BEYOND} (1 value)"),
    ("text as real", _csv("31,tall,red,no"), f"column 'height': {NOT_FINITE} (1 value)"),
    (
        "NaN and infinity",
        _csv("31,nan,red,no", "31,inf,red,no", "31,-Infinity,red,no"),
        f"column 'height': {NOT_FINITE} (3 values)",
    ),
    ("overflowing real", _csv("31,1e999,red,no"), f"column 'height': {NOT_FINITE} (1 value)"),
    ("hexadecimal", _csv("31,0x10,red,no"), f"column 'height': {NOT_FINITE} (1 value)"),
    ("blank around a number", _csv("31, 1.75,red,no"), f"column 'height': {NOT_FINITE} (1 value)"),
    (
        "empty integer",
        _csv(",1.75,red,no"),
        "column 'age': is empty; expected a value in every row, or `nullable: true` (1 value)",
    ),
    (
        "empty category",
        _csv("31,1.75,,no", "31,1.75,,no"),
        "column 'colour': is empty; expected a value in every row, or `nullable: true` (2 values)",
    ),
    (
        "unknown category",
        _csv("31,1.75,mauve,no", "31,1.75,Red,no", *ROWS),
        f"column 'colour': {NOT_LISTED} (2 values)",
    ),
    (
        "blank around a category",
        _csv("31,1.75, red,no"),
        f"column 'colour': {NOT_LISTED} (1 value)",
    ),
    ("0 bytes", b"", "is an empty file"),
    ("only line ends", b"\n\n", "column 'age': is not among the columns (and 3 more)"),
    (
        "Latin-1",
        _csv("31,1.75,red,no", "31,1.75,b\u00e9,no").decode().encode("latin-1"),
        "is not UTF-8; expected text in UTF-8, or `source: {encoding: latin-1}` or windows-125",
    ),
    (
        "UTF-16",
        GOOD_CSV.encode("utf-16"),
        "is not UTF-8; expected text in UTF-8, or `source: {encoding: utf-16}` (from line 1 on)",
    ),
    (
        "ragged rows",
        _csv(ROWS[0], "31,1.75,red", ROWS[1], "31,1.75,red,no,1"),
        "some rows are ragged; expected 4 fields in each (2 of 4 rows)",
    ),
    (
        "open quote",
        _csv('31,1.75,"red,no', *ROWS),
        "is not well-formed CSV; expected closed quotes",
    ),
    (
        "one long line",
        b"a" * (5 << 20),
        "is not well-formed CSV; expected closed quotes and rows under 1 MiB",
    ),
    (
        "a long line under a header",
        _csv(ROWS[0], f"31,1.75,red,{'n' * (5 << 20)}"),
        "is not well-formed CSV",
    ),
    ("a header without an end", b'"' + b"a\n" * (1 << 20), "has a first line that is not CSV"),
    ("bad header quotes", b'age,"height"x,colour,y\n', "has a first line that is not CSV"),
]


def test_a_long_line_is_refused_before_it_is_copied() -> None:
    content = b"a" * (256 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="rows under 1 MiB"):
            read_csv(content, lambda _: None, "p.csv")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("content", "message"), [pytest.param(*case[1:], id=case[0]) for case in BAD_CSV]
)
def test_bad_csv_is_refused_in_one_sentence_without_values(
    tmp_path: Path, content: bytes, message: str
) -> None:
    with pytest.raises(DataError) as caught:
        read_table(_file(tmp_path, content), CONTRACT)
    text, details = str(caught.value), caught.value.details()
    assert details.startswith("people.csv: " + message) and "\n" not in details
    assert text.partition(" (")[0] == details.partition(" (")[0]
    assert " value" not in text.partition("; expected")[0]
    for value in ("mauve", "Red", "tall", "1.75", str(HUGE), "31,"):
        assert value not in text


def test_two_unpackable_files_and_three_that_are_not_there(tmp_path: Path) -> None:
    packed = gzip.compress(GOOD_CSV.encode() * 50)
    (tmp_path / "folder.csv").mkdir()
    for name, content, expected in (
        ("people.csv.gz", packed[:-20], "is not a complete gzip file"),
        ("people.csv.gz", packed[: len(packed) // 2], "is not a complete gzip file"),
        ("people.csv.gz", GOOD_CSV.encode(), "is not a complete gzip file"),
        ("folder.csv", None, "is a folder"),
        ("gone.csv", None, r"cannot be read \(No such file"),
        ("people.xls", None, "is of an unknown kind"),
    ):
        path = _file(tmp_path, content, name) if content else tmp_path / name
        with pytest.raises(DataError, match=f"{name}: {expected}"):
            read_table(path, CONTRACT)


def test_ignored_columns_are_dropped_unread(tmp_path: Path) -> None:
    contract = small_contract(source={"ignore": ["note"], "missing": "?"})
    table = read_table(_file(tmp_path, _csv("31,1.75,red,no,?", header=HEADER + ",note")), contract)
    assert table.column_names == ["age", "height", "colour", "y"] and table.num_rows == 1


def test_rows_with_the_missing_marker_go_first(tmp_path: Path) -> None:
    contract = small_contract(source={"missing": "?"})
    marked = _csv("?,1.75,red,no", "31,?,red,no", "31,1.75,?,no", "x?,?,?,?", ROWS[1])
    (row,) = read_table(_file(tmp_path, marked), contract).to_pylist()
    assert tuple(row.values()) == (48, 1.6, "blue", "yes")
    assert read_table(_file(tmp_path, _csv("?,1.75,red,no")), contract).num_rows == 0


def _parquet(folder: Path, table: pa.Table) -> Path:
    pq.write_table(table, folder / "people.parquet")
    return folder / "people.parquet"


def test_parquet_of_any_plain_type_reads_as_its_csv_does(tmp_path: Path) -> None:
    table = pa.table(
        {
            "y": pa.array(["no", "yes", "yes", "no"], pa.large_string()).dictionary_encode(),
            "height": pa.array([1.75, 1.6, 1.82, 1.7], pa.float64()),
            "age": pa.array([31.0, 48.0, 67.0, 22.0], pa.float32()),
            "colour": pa.array(["red", "blue", "red", "green"]),
        }
    )
    assert read_table(_parquet(tmp_path, table), CONTRACT).equals(
        read_table(_file(tmp_path, GOOD_CSV.encode()), CONTRACT)
    )


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        (
            "age",
            pa.array([1, None, None], pa.int32()),
            "column 'age': is empty; expected a value in every row, or `nullable: true` (2 values)",
        ),
        ("age", pa.array([1.5, 2, 1e300]), f"column 'age': {NOT_WHOLE} (2 values)"),
        ("age", pa.array([HUGE, 1, 2], pa.uint64()), f"column 'age': {BEYOND} (1 value)"),
        ("age", pa.array([[1], [2], [3]]), "column 'age': holds neither numbers nor text"),
        (
            "height",
            pa.array([1.0, math.nan, math.inf]),
            f"column 'height': {NOT_FINITE} (2 values)",
        ),
        (
            "height",
            pa.array([True, False, True]),
            "column 'height': holds neither numbers nor text but bool; expected `type: boolean`",
        ),
        ("colour", pa.array(["red", "mauve", "red"]), f"column 'colour': {NOT_LISTED} (1 value)"),
        ("shoe", pa.array([1, 2, 3]), "column 'shoe': is not in the contract"),
    ],
)
def test_bad_parquet_is_refused_with_the_same_rules(
    tmp_path: Path, name: str, values: pa.Array, message: str
) -> None:
    good = {"age": [1, 2, 3], "height": [1.0, 2.0, 1.5], "colour": ["red"] * 3, "y": ["no"] * 3}
    with pytest.raises(DataError) as caught:
        read_table(_parquet(tmp_path, pa.table({**good, name: values})), CONTRACT)
    assert caught.value.details().startswith("people.parquet: " + message)


def test_a_cut_parquet_file_is_refused(tmp_path: Path) -> None:
    path = _parquet(tmp_path, pa.table({name: ["1"] for name in CONTRACT.columns}))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match="is not a complete Parquet file"):
        read_table(path, CONTRACT)


VALUES = st.tuples(
    st.integers(-HUGE, HUGE - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["red", "green", "blue"]),
    st.sampled_from(["no", "yes"]),
)


@given(rows=st.lists(VALUES, min_size=1, max_size=12), random=st.randoms(use_true_random=False))
def test_the_digest_and_canonical_order_forget_the_order_of_rows(
    rows: list[tuple[object, ...]], random
) -> None:
    shuffled = random.sample(rows, len(rows))
    assert rows_digest(_typed(rows)) == rows_digest(_typed(shuffled))
    ordered = canonical_order(_typed(shuffled))
    assert ordered.equals(canonical_order(_typed(rows)))
    codes = {"red": 0, "green": 1, "blue": 2, "no": 0, "yes": 1}
    keys = [[codes.get(value, value) for value in row.values()] for row in ordered.to_pylist()]
    assert keys == sorted(keys)


@given(rows=st.lists(VALUES, min_size=1, max_size=6))
def test_numbers_survive_the_way_through_text(rows: list[tuple[object, ...]]) -> None:
    assert [tuple(row.values()) for row in _typed(rows).to_pylist()] == [
        (age, height + 0.0, *rest) for age, height, *rest in rows
    ]


@given(rows=st.lists(VALUES, min_size=1, max_size=8, unique=True), extra=VALUES)
def test_the_digest_sees_every_added_row_and_repeat(
    rows: list[tuple[object, ...]], extra: tuple[object, ...]
) -> None:
    tables = (rows, [*rows, extra], [*rows, rows[0], rows[0]])
    assert len({rows_digest(_typed(table)) for table in tables}) == 3


PINNED = "9d26d91de60901ed95be32c8e1eb04b69d987a2ad037621f9661e6f43311e5b7"
"""Another digest makes every `content_sha256` in every contract wrong."""


def test_the_pinned_digest_forgets_the_dictionary_and_the_order_of_columns() -> None:
    table = _typed([(31, 1.75, "red", "no"), (48, 1.6, "blue", "yes")])
    reordered = table.set_column(2, "colour", pa.array(["red", "blue"]).dictionary_encode())
    turned = table.select(["y", "colour", "height", "age"])
    assert {rows_digest(one) for one in (table, reordered, turned)} == {PINNED}
    renamed = table.rename_columns(["age", "height", "colour", "z"])
    exchanged = _typed([(31, 1.75, "blue", "no"), (48, 1.6, "red", "yes")])
    assert PINNED not in (rows_digest(renamed), rows_digest(exchanged))


_KINDS = st.one_of(
    [
        arrays.arrays(np.int8, 12, elements=st.integers(0, 1)),
        arrays.arrays(np.int64, 12, elements=st.integers(-3, 3)),
        arrays.arrays(np.int64, 12, elements=st.sampled_from([-(2**63), 2**63 - 1, 0, 2**61])),
        arrays.arrays(np.float64, 12, elements=st.sampled_from([0.0, -0.0, 1.5, np.inf, np.nan])),
    ]
)


@given(st.lists(_KINDS, min_size=1, max_size=6))
def test_rows_are_sorted_as_by_all_columns_one_after_another(columns: list[np.ndarray]) -> None:
    expected = np.lexsort(columns[::-1])
    assert [column[_order(columns)].tobytes() for column in columns] == [
        column[expected].tobytes() for column in columns
    ]
