"""D, F6: the work of `collect` is bounded by the bytes that were sent, packed or not; what is no
report is cheap, and counted as before.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpicl.data import reports
from dpicl.data.reports import LONGEST_LINE, SCHEMA, read_reports
from dpicl.ground.errors import DataError
from dpicl.ground.records import GROWTH

MEGABYTE = 1 << 20
OTHER_VERSION = b'{"version":2}'
FLOODS: dict[str, bytes] = {
    "empty lines": b"\n",
    "empty lines of another system": b"\r\n",
    "blanks": b" \n",
    "tabs": b"\t\t\n",
    "a letter": b"x\n",
    "a bracket": b"{\n",
    "an object of nothing": b"{}\n",
    "a null": b"null\n",
    "a number": b"1\n",
    "a broken text": b'"\n',
    "an end that is none": b"\x0b\n",
    "no text": b"\xff\xfe\n",
    "deep": b"[[[[[[[[[[[\n",
    "a list": b"[1,2,3]\n",
}
"""Lines of which a file unpacks to millions."""
PER_MEGABYTE = 0.6
"""Seconds of a processor; the parser's error on every empty line takes 2.8."""


def seconds(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def packed(place: Path, data: bytes, name: str = "reports.jsonl.gz") -> Path:
    file = place / name
    file.write_bytes(gzip.compress(data))
    return file


def read_whole(file: Path) -> tuple[int, int, bool]:
    """Reports, lines that are none, and whether all was read."""
    reports, wrong = 0, 0
    try:
        for table, others in read_reports(file):
            reports, wrong = reports + table.num_rows, wrong + others
    except DataError:
        return reports, wrong, False
    return reports, wrong, True


@pytest.mark.quick("a broken text", "a letter", "empty lines", "tabs")
@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_of_lines_that_are_no_reports_is_cheap(kind: str, tmp_path: Path) -> None:
    line, file = FLOODS[kind], tmp_path / "reports.jsonl"
    file.write_bytes(OTHER_VERSION)
    read_whole(file)  # imports what it needs
    file.write_bytes(line * (MEGABYTE // len(line)) + OTHER_VERSION)
    found = list[tuple[int, int, bool]]()
    assert seconds(lambda: found.append(read_whole(file))) < PER_MEGABYTE
    assert found == [(1, 0 if not line.strip() else MEGABYTE // len(line), True)], (
        "blank lines count for nothing, others are counted"
    )


@pytest.mark.quick("a broken text", "a letter", "empty lines", "tabs")
@pytest.mark.parametrize("kind", FLOODS)
def test_a_packed_file_is_read_as_far_as_its_size_allows(kind: str, tmp_path: Path) -> None:
    line = FLOODS[kind]
    file = packed(tmp_path, line * (4 * MEGABYTE // len(line)))
    reports, wrong, whole = read_whole(file)
    assert (
        not whole
        and reports == 0
        and wrong * len(line) <= GROWTH * file.stat().st_size < 4 * MEGABYTE
    )


def test_the_work_of_many_small_files_is_bounded_by_their_bytes(tmp_path: Path) -> None:
    made = [packed(tmp_path, b"\n" * MEGABYTE, f"{number}.jsonl.gz") for number in range(60)]
    sent = sum(file.stat().st_size for file in made)
    assert (
        seconds(lambda: [read_whole(file) for file in made])
        < 1 + PER_MEGABYTE * GROWTH * sent / MEGABYTE
    )
    assert all(not read_whole(file)[2] for file in made)


@pytest.mark.parametrize("count", [1, 2, 30, 3000])
def test_reports_that_clients_pack_are_all_read(count: int, tmp_path: Path) -> None:
    """What tells clients apart cannot be packed."""
    reports = [
        {
            "version": 1,
            "collection": "c" * 64,
            "who": f"{number * 7919:032x}",
            "question": 3,
            "answer": 1,
        }
        for number in range(count)
    ]
    file = packed(tmp_path, "".join(json.dumps(report) + "\n" for report in reports).encode())
    assert read_whole(file) == (count, 0, True)


def test_reports_before_the_limit_count(tmp_path: Path) -> None:
    file = packed(tmp_path, OTHER_VERSION + b"\n" * (4 * MEGABYTE))
    assert read_whole(file) == (1, 0, False)


def test_a_line_as_long_as_allowed_is_read_in_a_packed_file_too(tmp_path: Path) -> None:
    bits = list(range(LONGEST_LINE // 8))
    report = {"version": 1, "collection": "c" * 64, "who": "0" * 32, "question": 3, "bits": bits}
    assert len(json.dumps(report)) < LONGEST_LINE
    assert read_whole(packed(tmp_path, json.dumps(report).encode())) == (1, 0, True)


def test_a_parquet_file_of_nothing_is_bounded_as_well(tmp_path: Path) -> None:
    rows = 1 << 20
    table = pa.table({field.name: pa.nulls(rows, field.type) for field in SCHEMA})
    pq.write_table(table, tmp_path / "reports.parquet")
    found = list[tuple[int, int, bool]]()
    assert seconds(lambda: found.append(read_whole(tmp_path / "reports.parquet"))) < 3
    assert not found[0][2]


@pytest.mark.quick("unpacks without a bound")
@pytest.mark.parametrize("fault", ["parses empty lines", "unpacks without a bound"])
def test_the_faults_are_caught(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault == "parses empty lines":
        monkeypatch.setattr(reports, "filter", lambda _, found: found, raising=False)
        monkeypatch.setattr(reports, "_SHORTEST_LINE", 0)
        file = tmp_path / "reports.jsonl"
        file.write_bytes(b"\n" * MEGABYTE)
        assert seconds(lambda: read_whole(file)) > PER_MEGABYTE
    else:
        monkeypatch.setattr(reports, "GROWTH", 1 << 30)
        assert read_whole(packed(tmp_path, b"\n" * (4 * MEGABYTE)))[2]
