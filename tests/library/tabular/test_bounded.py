"""A small file that would become a large table is refused before it does; what is no file is not
opened.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpicl.data.reading.files import read_table
from dpicl.ground.errors import DataError

from ..table_contracts import GOOD_CSV, HEADER, small_contract

CONTRACT = small_contract()
MIB = 1 << 20


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        read_table(path, CONTRACT)
    return caught.value.details()


def repeated(value: object, count: int) -> pa.Array:
    """Written once."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int8()), pa.array([value]))


def parquet(folder: Path, **columns: object) -> Path:
    plain = {"age": [1, 2, 3], "height": [1.0, 2.0, 1.5], "colour": ["red"] * 3, "y": ["no"] * 3}
    path = folder / "people.parquet"
    pq.write_table(pa.table({**plain, **columns}), path, compression="zstd")
    return path


def test_a_gzip_bomb_is_refused_and_honest_growth_is_not(tmp_path: Path) -> None:
    bomb, honest = tmp_path / "people.csv.gz", tmp_path / "honest.csv.gz"
    bomb.write_bytes(gzip.compress(HEADER.encode() + b"\n" + b"31,1.75,red,no\n" * (8 * MIB), 6))
    assert "unpacks to too much; expected at most 100 times its size (more than" in refusal(bomb)
    honest.write_bytes(gzip.compress(GOOD_CSV.encode() + b"31,1.75,red,no\n" * 100_000))
    assert read_table(honest, CONTRACT).num_rows == 100_004


def test_a_gzip_file_of_many_members_is_one_file(tmp_path: Path) -> None:
    (tmp_path / "people.csv.gz").write_bytes(
        b"".join(gzip.compress(line.encode()) for line in GOOD_CSV.splitlines(keepends=True))
    )
    assert read_table(tmp_path / "people.csv.gz", CONTRACT).num_rows == 4


@pytest.mark.exhaustive
def test_a_parquet_file_of_one_row_repeated_without_end_is_refused(tmp_path: Path) -> None:
    row = {"age": 31, "height": 1.75, "colour": "red", "y": "no"}
    path = parquet(tmp_path, **{name: repeated(one, 8 * MIB) for name, one in row.items()})
    assert path.stat().st_size < MIB // 2
    assert "holds more than" in refusal(path)


def test_one_long_text_that_many_rows_share_is_refused(tmp_path: Path) -> None:
    """As text, the column would take 100 GiB."""
    row = {"age": 31, "height": 1.75, "colour": "x" * MIB, "y": "no"}
    path = parquet(tmp_path, **{name: repeated(one, 100_000) for name, one in row.items()})
    assert "column 'colour': has more than 65536 bytes (100000 values)" in refusal(path)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([{"a": 1}] * 3),
        pa.array([[("a", 1)]] * 3, pa.map_(pa.string(), pa.int64())),
        pa.array([[[1]]] * 3),
        pa.array([b"\xff\xfe"] * 3),
        pa.array([[1]] * 3, pa.list_(pa.int64(), 1)),
    ],
    ids=str,
)
def test_nested_and_binary_columns_are_refused(tmp_path: Path, values: pa.Array) -> None:
    assert "column 'age': holds neither numbers nor text" in refusal(parquet(tmp_path, age=values))


def test_text_that_is_no_utf8_inside_parquet_is_refused(tmp_path: Path) -> None:
    broken = pa.Array.from_buffers(
        pa.string(),
        3,
        [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0\4\0\0\0\6\0\0\0"), pa.py_buffer(b"\xff\xfe" * 3)],
    )
    assert "neither numbers nor text" in refusal(parquet(tmp_path, colour=broken))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_devices_and_impossible_names_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "people.csv")
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    for name in ("people.csv", "zero.csv"):
        assert "is a device or pipe; expected a file" in refusal(tmp_path / name)
    assert "is no path" in refusal(tmp_path / "a\0b.csv")
    assert "cannot be read (File name too long)" in refusal(tmp_path / f"{'x' * 300}.csv")
