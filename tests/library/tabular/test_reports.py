"""Reports as a collector receives them: each client counts once in any order, and what is none is
counted by its kind and stops nothing.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.data import report_counts, reports
from dpicl.data.report_counts import Received
from dpicl.data.reports import LONGEST_LINE, SCHEMA, Checker, read_lines
from dpicl.ground.errors import DataError
from tests.library.tabular.received import (
    CHECKER,
    COLLECTION,
    MIXED,
    count_reports,
    plain_tally,
    received,
    report,
    some_reports,
    text,
)

CELLS = st.one_of(
    st.tuples(st.just(0), st.sets(st.integers(0, 5), min_size=1, max_size=1)),
    st.tuples(st.just(1), st.sets(st.integers(0, 79), max_size=60)),
)
SENT = st.lists(st.tuples(st.integers(0, 12), CELLS), min_size=1, max_size=40)
VALID = report(7, 0, [5])


@given(SENT, st.randoms(use_true_random=False), st.integers(1, 4))
def test_counts_are_those_of_a_plain_tally_whatever_the_order_and_the_files(
    sent: Any, chance: Any, files: int
) -> None:
    reports = [report(client, *cells) for client, cells in sent]
    chance.shuffle(reports)
    parts = [text(reports[part::files]) for part in range(files)]
    with TemporaryDirectory() as folder:
        tally, found = received(Path(folder), *parts)
    assert (tally.stored == plain_tally(reports).stored).all()
    distinct_reports = {json.dumps(one) for one in reports}
    assert found.duplicate == len(reports) - len(distinct_reports) and found.reports == len(reports)
    assert found.counted + found.contradictory == len(distinct_reports)


def test_a_report_that_is_sent_again_counts_once_and_two_that_differ_count_for_nothing(
    tmp_path: Path,
) -> None:
    again, other = report(1, 0, [3]), report(2, 0, [4])
    tally, found = received(
        tmp_path / "one",
        text([again, other]),
        text([again, again, report(2, 0, [5]), report(2, 1, [4]), other]),
    )
    assert found == Received(counted=1, duplicate=3, contradictory=3, files=2)
    assert tally.counts[0].tolist() == [0, 0, 0, 1, 0, 0]


BITS = report(1, 1, [3])
WRONG: dict[str, list[Any]] = {
    "forged": [
        *({**VALID, "question": wrong} for wrong in (2, -1, 2**62, 1, None)),
        *({**VALID, "answer": wrong} for wrong in (6, -1)),
        *({**BITS, "bits": wrong} for wrong in ([3, 3], [3, 2], [80], [None], None)),
        {**BITS, "answer": 3},
        {**VALID, "bits": []},
    ],
    "foreign": [{**VALID, "collection": wrong} for wrong in ("0" * 64, "", "é")],
    "version": [
        {**VALID, "version": 2},
        {"version": 0},
        {"version": -3, "answer": {"new": "form"}},
    ],
    "malformed": [
        *([], 7, None, "report", {}),
        *({**VALID, "version": wrong} for wrong in (None, True, 1.5, "1", 2**70)),
        *({**VALID, "answer": wrong} for wrong in (2**64, [0], "0", float("nan"), 1.0)),
        *({**VALID, "bits": wrong} for wrong in (3, [[1]])),
        *({**VALID, "who": wrong} for wrong in (None, "0" * 31, "G" * 32, "0" * 32 + "\n", 5)),
        *({**VALID, "collection": wrong} for wrong in (None, "\ud800")),
        *({**VALID, "period": wrong} for wrong in ("yesterday", 3)),
    ],
    "elsewhen": [{**VALID, "period": "2026-12-01"}],
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_no_report_of_this_collection_is_counted_by_its_kind(
    tmp_path: Path, kind: str
) -> None:
    for number, wrong in enumerate(WRONG[kind]):
        for name, beside in (("alone", ""), ("beside", text(some_reports(3)))):
            _, found = received(tmp_path / f"{number}-{name}", text([wrong]) + beside)
            assert found == Received(counted=3 if beside else 0, files=1, **{kind: 1}), wrong


LINE = json.dumps(VALID).encode()
HOSTILE = [
    b"[" * 100_000,
    b'{"version":1,"x":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001,
    b"9" * 100_000,
    b'{"version":1,"answer":' + b"9" * 5_000 + b"}",
    b"\xff\xfe\x00",
    LINE.replace(b"5e5e", b"\xff\xff\xff\xff"),
    b"\x00",
    b'{"version":1',
    b"{'version':1}",
    LINE + b"," + LINE,
    LINE + LINE,
    b"x" * (LONGEST_LINE + 1),
    b" " * (LONGEST_LINE + 1) + LINE,
    b"y" * (20 << 20),
]


@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_line_is_one_malformed_report_and_loses_none_beside_it(
    tmp_path: Path, line: bytes
) -> None:
    before, after = text(some_reports(5)).encode(), text([report(9, 1, [1])]).encode()
    _, found = received(tmp_path / "reports", before + line + b"\n" + after)
    assert found == Received(counted=6, malformed=1, files=1)


def test_a_key_that_a_collector_added_is_ignored_and_order_and_spaces_are_free(
    tmp_path: Path,
) -> None:
    added = {"received": {"at": [1, {"a": None}]}, **dict(reversed(VALID.items()))}
    content = b"\xef\xbb\xbf" + json.dumps(added).encode() + b"  \r\n\r\n \n"
    _, found = received(tmp_path / "reports", content)
    assert found == Received(counted=1, files=1)


def test_blocks_cut_a_file_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = text(some_reports(50)) + "x" * 3000 + "\n" + text(some_reports(60)[50:])
    monkeypatch.setattr(reports, "LONGEST_LINE", 2000)
    for block in (1, 7, 100, 1999, 2000, 2001, 5000):
        monkeypatch.setattr(reports, "_BLOCK", block)
        _, found = received(tmp_path / "reports", whole)
        assert found == Received(counted=60, malformed=1, files=1), block


def test_a_file_that_a_kill_cut_off_gives_its_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "_BLOCK", 1 << 14)
    whole = text(some_reports(20))
    _, found = received(tmp_path / "lines", whole[:-15])
    assert found == Received(counted=19, malformed=1, files=1)
    _, found = received(tmp_path / "end", whole[:-1])
    assert found == Received(counted=20, files=1)
    packed = gzip.compress(text(some_reports(3000)).encode())
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "a.jsonl.gz").write_bytes(packed[: len(packed) * 3 // 4])
    _, found = count_reports(str(tmp_path / "packed"), CHECKER)
    assert found.damaged_files == 1 and 0 < found.counted < 3000 and found.malformed <= 1


def as_parquet(folder: Path, name: str, rows: pa.Table) -> None:
    folder.mkdir(exist_ok=True)
    pa_parquet.write_table(rows, folder / name, compression="zstd", row_group_size=1 << 20)


def test_parquet_gives_the_same_counts_and_a_damaged_file_stops_no_other(tmp_path: Path) -> None:
    reports = [*some_reports(500), *WRONG["forged"]]
    expected, found = received(tmp_path / "lines", text(reports))
    folder = tmp_path / "parquet"
    as_parquet(folder, "a.parquet", pa.Table.from_pylist(reports, SCHEMA))
    tally, of_parquet = count_reports(str(folder), CHECKER)
    assert (tally.stored == expected.stored).all() and of_parquet == found
    content = (folder / "a.parquet").read_bytes()
    (folder / "b.parquet").write_bytes(content[: len(content) // 2])
    as_parquet(folder, "c.parquet", pa.table({"version": ["one"] * 4, "who": [1, 2, 3, 4]}))
    as_parquet(folder, "d.parquet", pa.table({"version": ["one"] * 3, "bits": ["x"] * 3}))
    for name in ("e.parquet.part", ".f.parquet"):
        (folder / name).touch()
    _, beside = count_reports(str(folder), CHECKER)
    files = beside.files, beside.damaged_files, beside.other_files
    assert (beside.counted, beside.malformed, files) == (500, 7, (4, 1, 1))


def test_folders_are_read_at_any_depth_and_an_empty_one_gives_nothing(tmp_path: Path) -> None:
    for number, place in enumerate(("a", "b/c")):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "day.ndjson").write_text(text(some_reports(20)[number::2]))
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "x.jsonl").write_text(text(some_reports(30)))
    assert count_reports(str(tmp_path), CHECKER)[1] == Received(counted=20, files=2)
    (tmp_path / "empty").mkdir()
    tally, found = count_reports(str(tmp_path / "empty"), CHECKER)
    assert not tally.clients and found == Received()
    for place in ("nowhere", "b/c/other.txt"):
        (tmp_path / "b/c/other.txt").touch()
        with pytest.raises(DataError, match="expected a f"):
            count_reports(str(tmp_path / place), CHECKER)


def test_reports_of_other_periods_are_late_or_not_of_this_one(tmp_path: Path) -> None:
    periods = ["2026-12-02"] * 5 + ["2026-12-01"] * 3 + ["2026-12-03"] * 2
    periods += ["2026-12", "1999-W01"] + ["once"] * 4
    reports = [report(client, 0, [1], period=period) for client, period in enumerate(periods)]
    checker = Checker(COLLECTION, MIXED, "2026-12-02")
    _, found = received(tmp_path / "reports", text(reports), checker=checker)
    assert found == Received(counted=5, late=3, elsewhen=8, files=1)


def test_a_closed_period_stands_and_reports_after_it_are_late(tmp_path: Path) -> None:
    folder, close, reports = tmp_path / "reports", tmp_path / "closed", some_reports(30)
    received(folder, text(reports[:20]))
    first, found = count_reports(str(folder), CHECKER, close=close)
    assert found == Received(counted=20, files=1) and close.stat().st_mode & 0o777 == 0o600
    received(folder, text(reports[:20]), text(reports[10:]))
    again, found = count_reports(str(folder), CHECKER, close=close)
    assert (again.stored == first.stored).all() and found == Received(
        counted=20, duplicate=10, late=10, files=2, closed_with=20
    )
    for other in (Checker("0" * 64, MIXED), Checker(COLLECTION, MIXED, "2026")):
        with pytest.raises(DataError, match="another collection or period"):
            count_reports(str(folder), other, close=close)
    with pytest.raises(DataError, match="is no closed period"):
        count_reports(str(folder), CHECKER, close=folder / "0.jsonl")


def test_pseudonyms_of_one_beginning_and_a_flood_of_one_report_fill_no_part(tmp_path: Path) -> None:
    """Whoever forges reports does not choose where they are put: else one part would hold all of
    them.
    """
    parted = report_counts.Parted(MIXED)
    with parted:
        reports = [report(client, 0, [1]) for client in range(20_000)]
        answers, _ = CHECKER.check(pa.Table.from_pylist(reports, SCHEMA))
        parted.add(answers)
        parted.add(answers.take(np.zeros(50_000, dtype=np.int64)))
        sizes = [len(part.who) for part in parted.each()]
    assert len(sizes) == report_counts.PARTS and max(sizes) < 3 * 20_000 / len(sizes)
    assert parted.counts["duplicate"] == 50_000


_MEMORY = """
import resource, sys
from dpicl.data.report_counts import count_open
from tests.library.tabular.received import CHECKER
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = count_open(sys.argv[1], CHECKER).received
print(found.counted, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.exhaustive
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    grown = []
    for number, count in enumerate((200_000, 1_600_000)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with (folder / "a.jsonl").open("w") as file:
            for client in range(count):
                file.write(text([VALID]).replace(VALID["who"], f"{client:032x}"))
        command = [sys.executable, "-c", _MEMORY, str(folder)]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        counted, megabytes = map(int, told.split())
        assert counted == count
        grown.append(megabytes)
    assert grown[1] < grown[0] + 100, grown


def test_reading_holds_one_block(tmp_path: Path) -> None:
    """The short claim: tables come one after another, none larger than a block's."""
    path = tmp_path / "a.jsonl"
    path.write_text(text(some_reports(1000)) * 30)
    with path.open("rb") as file:
        sizes = [table.num_rows for table, _ in read_lines(file)]
    assert sum(sizes) == 30_000 and len(sizes) > 1


def test_parquet_that_would_fill_memory_is_damaged_and_stops_no_other_file(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    received(folder, text(some_reports(5)))
    long = pa.DictionaryArray.from_arrays(np.zeros(9000, dtype=np.int32), ["x" * (1 << 20)])
    for number, table in enumerate(
        (
            pa.table({"version": [1] * 9000, "collection": long}),
            pa.table({"version": [1], "bits": [np.zeros(6_000_000, dtype=np.int64)]}),
            pa.table({"who": pa.nulls(30_000_000)}),
            pa.table([["a"], ["b"]], names=["who", "who"]),
        )
    ):
        as_parquet(folder, f"{number}.parquet", table)
    before = pa.total_allocated_bytes()
    _, found = count_reports(str(folder), CHECKER)
    assert found == Received(counted=5, files=5, damaged_files=4)
    assert pa.total_allocated_bytes() - before < 1 << 24


def test_a_packed_file_of_one_line_without_an_end_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "0.jsonl.gz").write_bytes(gzip.compress(bytes(1 << 28), 9))
    began = time.process_time()
    _, found = count_reports(str(tmp_path), CHECKER)
    assert found.damaged_files == 1 and time.process_time() - began < 10


def test_a_report_with_more_bits_than_chance_gives_is_forged(tmp_path: Path) -> None:
    """Of eighty cells, at epsilon 1: an honest one has seventy once in 2^40."""
    reports = [report(1, 1, range(80)), report(2, 1, range(40))]
    tally, found = received(tmp_path / "bits", text(reports))
    assert found.forged == 1 and found.counted == tally.clients == 1
