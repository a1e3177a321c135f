"""A folder of Parquet files is one table, read by rows whatever the cuts; what is wrong is told
with file, column and count.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpicl.contract import Contract
from dpicl.contract.columns.real import NOT_FINITE
from dpicl.data.reading import files as surveys
from dpicl.data.reading.files import Survey, read_table, survey
from dpicl.data.reading.source import load_source
from dpicl.ground.errors import DataError, DpiclError

from ..table_contracts import small_contract

SECRET = "zq7secret"
FOLDER: dict[str, object] = {"file": None, "folder": "people"}


def rows(count: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, count).astype(np.int8)
    return pa.table(
        {
            "age": rng.integers(0, 120, count).astype(np.int8),
            "height": rng.uniform(0.5, 2.5, count),
            "colour": pa.DictionaryArray.from_arrays(codes, ["red", "green", "blue", "never"]),
            "y": pa.array(rng.choice(["no", "yes"], count)),
        }
    )


def lay_out(folder: Path, table: pa.Table, cuts: list[int], group: int = 7) -> Path:
    """The table in files with rows up to each cut, in small row groups."""
    (folder / "people").mkdir(parents=True, exist_ok=True)
    for number, (start, stop) in enumerate(zip([0, *cuts], [*cuts, table.num_rows], strict=True)):
        pq.write_table(
            table.slice(start, stop - start),
            folder / "people" / f"{number:03}.parquet",
            row_group_size=group,
        )
    return folder


def load(folder: Path, contract: Contract | None = None) -> pa.Table:
    return load_source(
        contract or small_contract(source=FOLDER), data_folder=folder, cache_folder=folder / "cache"
    )


def test_a_folder_gives_the_rows_that_one_file_and_csv_give(tmp_path: Path) -> None:
    table = rows(50)
    pq.write_table(table, tmp_path / "people.parquet")
    folder = load(lay_out(tmp_path, table, [10, 10, 33]))
    assert folder.equals(read_table(tmp_path / "people.parquet", small_contract()))
    (tmp_path / "people.csv").write_text(table.to_pandas().to_csv(index=False))
    assert folder.equals(read_table(tmp_path / "people.csv", small_contract()))


@given(st.lists(st.integers(0, 60), max_size=5).map(sorted), st.integers(1, 40), st.integers(1, 25))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_batches_are_the_same_rows_however_the_files_are_cut(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], group: int, batch: int
) -> None:
    folder, contract = tmp_path_factory.mktemp("cut"), small_contract(source=FOLDER)
    found = survey(contract, lay_out(folder, rows(60), cuts, group))
    assert found.rows == 60 and Survey.read(found.as_json(), folder) == found
    whole = found.whole(contract)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(surveys, "BATCH_ROWS", batch)
        for number in range(found.batches):
            part = found.batch(number, contract).combine_chunks()
            assert part.equals(whole.slice(number * batch, batch).combine_chunks())


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    assert survey(small_contract(), tmp_path) is None


def _replaced(column: str, values: object) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.set_column(
        table.column_names.index(column), column, pa.array(values)
    )


BAD: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "a column is missing": (
        lambda table: table.drop_columns(["age"]),
        "'age': is not among the columns",
    ),
    "a column too many": (
        lambda table: table.append_column("shoe", pa.array([SECRET] * 9)),
        "column 'shoe': is not in the contract",
    ),
    "text in place of a number": (
        _replaced("height", [SECRET] * 9),
        f"'height': {NOT_FINITE} (9 values)",
    ),
    "an unknown category": (
        _replaced("colour", pa.array([SECRET] + ["red"] * 8).dictionary_encode()),
        "one of the 3 categories; expected one of red, green, blue (1 value)",
    ),
    "a list": (_replaced("age", [[1]] * 9), "'age': holds neither numbers nor text"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_with_its_name_and_a_count(tmp_path: Path, name: str) -> None:
    change, expected = BAD[name]
    pq.write_table(change(rows(9)), lay_out(tmp_path, rows(9), []) / "people" / "001.parquet")
    with pytest.raises(DataError) as caught:
        load(tmp_path)
    told = caught.value.details()
    assert told.startswith("people/001.parquet: ") and expected in told
    assert SECRET not in told and "\n" not in told
    assert "value" not in str(caught.value).partition("; expected")[0]


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _claim(path: Path) -> None:
    """Far more rows than the file has bytes for."""
    same = pa.DictionaryArray.from_arrays(pa.array(np.zeros(5_000_000, np.int8)), pa.array(["red"]))
    numbers = pa.array(np.zeros(5_000_000, np.int8))
    pq.write_table(pa.table({"age": numbers, "height": numbers, "colour": same, "y": same}), path)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (
            lambda path: path.write_bytes(b"PAR1" + SECRET.encode() * 50),
            "is not a complete Parquet file",
        ),
        (lambda path: path.write_bytes(b""), "is not a complete Parquet file"),
        (_cut, "is not a complete Parquet file"),
        (_claim, "claims more values than a file of its size holds"),
        (lambda path: (path.unlink(), path.mkdir()), "is a folder, device or pipe"),
        (lambda path: (path.unlink(), os.mkfifo(path)), "is a folder, device or pipe"),
        (
            lambda path: (path.unlink(), path.symlink_to("/etc/hosts")),
            "holds links; expected files of its own",
        ),
        (
            lambda path: path.rename(path.with_suffix(".txt")),
            "holds other files than Parquet files",
        ),
        (lambda path: path.unlink(), "holds no file"),
    ],
)
def test_what_is_no_parquet_is_refused(
    tmp_path: Path, damage: Callable[[Path], object], expected: str
) -> None:
    damage(lay_out(tmp_path, rows(9), []) / "people" / "000.parquet")
    with pytest.raises(DpiclError) as caught:
        load(tmp_path)
    assert expected in str(caught.value) and SECRET not in str(caught.value)


@pytest.mark.parametrize("seed", range(60))
def test_bytes_changed_at_random_are_refused_or_read(tmp_path: Path, seed: int) -> None:
    """A damaged footer must not end the process either."""
    rng = np.random.default_rng(seed)
    path = lay_out(tmp_path, rows(40), []) / "people" / "000.parquet"
    data = bytearray(path.read_bytes())
    for place in rng.integers(len(data) // 2 if seed % 2 else 0, len(data) - 8, size=1 + seed % 5):
        data[place] = rng.integers(256)
    path.write_bytes(bytes(data))
    try:
        assert load(tmp_path).num_rows <= 40
    except DpiclError as error:
        assert str(error).startswith("people")


def test_a_file_that_changes_after_the_survey_is_refused(tmp_path: Path) -> None:
    contract = small_contract(source=FOLDER)
    found = survey(contract, lay_out(tmp_path, rows(30), [10]))
    lay_out(tmp_path, rows(31, seed=1), [10])
    with pytest.raises(
        DataError, match=r"people/00\d.parquet: was changed while it was being read"
    ):
        found.whole(contract)


def test_files_of_those_who_write_folders_are_left_alone(tmp_path: Path) -> None:
    folder = lay_out(tmp_path, rows(9), [])
    (folder / "people" / "_SUCCESS").write_text("")
    (folder / "people" / ".part.crc").write_text("")
    assert load(folder).num_rows == 9


def test_rows_with_the_marker_are_dropped_from_every_file(tmp_path: Path) -> None:
    table = _replaced("y", ["no", "?", "yes", "?", "no", "no", "no", "yes", "?"])(rows(9))
    contract = small_contract(source={**FOLDER, "missing": "?"})
    assert load(lay_out(tmp_path, table, [4]), contract).num_rows == 6
