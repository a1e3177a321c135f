"""A contract's SQL as an attacker of SQLite: whatever it says, nothing is written, no file appears,
and it ends.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from pathlib import Path

import pytest

from dpicl.data.reading.source import find_rows
from dpicl.ground.errors import ParameterError

from .asking import ENDLESS, ROWS, SELECT, asking, load, refusal


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A SQLite database, and the working directory in its folder."""
    (tmp_path / "db").mkdir()
    path = tmp_path / "db" / "people.db"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE people (age INTEGER, height REAL, colour TEXT, y TEXT)")
        made.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", ROWS)
        made.execute("CREATE TABLE victim (x)")
        made.execute("CREATE INDEX ages ON people (age)")
        made.execute("CREATE VIEW seen AS SELECT * FROM people")
    made.close()
    monkeypatch.setenv("PEOPLE_DATABASE", f"sqlite:///{path}")
    monkeypatch.chdir(tmp_path / "db")
    return path


def state(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


WRITING = (
    "DROP TABLE victim",
    "VACUUM",
    "VACUUM INTO 'copy.db'",
    "ATTACH 'copy.db' AS c",
    "ATTACH 'file:copy.db?mode=rwc' AS c",
    "DETACH main",
    "INSERT INTO people SELECT * FROM people",
    "INSERT INTO people SELECT * FROM people RETURNING age, height, colour, y",
    "DELETE FROM people RETURNING age, height, colour, y",
    "UPDATE people SET age = 1 RETURNING age, height, colour, y",
    "REPLACE INTO people VALUES (1, 1, 'red', 'no')",
    "CREATE TABLE t AS SELECT * FROM people",
    "CREATE TEMP TABLE t AS SELECT * FROM people",
    "CREATE VIRTUAL TABLE t USING fts5(x)",
    "CREATE TRIGGER t AFTER INSERT ON people BEGIN DELETE FROM people; END",
    "ALTER TABLE victim RENAME TO v",
    "REINDEX",
    "ANALYZE",
    "PRAGMA query_only = OFF",
    "PRAGMA journal_mode = WAL",
    "PRAGMA user_version = 7",
    "PRAGMA writable_schema = ON",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA temp_store_directory = '.'",
    "BEGIN IMMEDIATE",
    "COMMIT",
    "SAVEPOINT s",
    "SELECT load_extension('copy')",
    "SELECT LOAD_EXTENSION('copy')",
    "SELECT writefile('copy', 'x')",
    f"{SELECT}; DROP TABLE victim",
    f"PRAGMA query_only = OFF; {SELECT}",
    "EXPLAIN DROP TABLE victim",
    "WITH p AS (SELECT 1) DELETE FROM people",
)


@pytest.mark.parametrize("sql", WRITING)
def test_sqlite_is_read_and_nothing_else(file: Path, sql: str) -> None:
    before = state(file.parent)
    assert "people: the database refuses the contract's query (" in refusal(sql)
    assert state(file.parent) == before == {"people.db": before["people.db"]}


@pytest.mark.parametrize(
    "sql",
    [
        SELECT,
        f"{SELECT} ORDER BY random()",
        "SELECT * FROM seen",
        "SELECT max(age) age, avg(height) height, colour, y FROM people GROUP BY upper(colour), y",
        (
            f"{ENDLESS}, three AS (SELECT i FROM n LIMIT 3) SELECT 1 AS age, 1.5 AS height, 'red' "
            f"AS "
            f"colour, 'no' AS y FROM three"
        ),
    ],
)
def test_sqlite_reads_what_a_select_can_say(file: Path, sql: str) -> None:
    before = state(file.parent)
    assert load(sql) in (3, 4) and state(file.parent) == before


@pytest.mark.parametrize("name", ["peple.db", "no/folder/people.db", "peo?ple.db", "%70eople.db#"])
def test_a_mistyped_file_is_refused_and_not_made(
    file: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEOPLE_DATABASE", f"sqlite:///{file.parent}/{name.replace('?', '%3F')}")
    told = "people: no database answers at the address in PEOPLE_DATABASE (OperationalError)"
    assert told in refusal(SELECT)
    assert set(state(file.parent)) == {"people.db"}


def test_a_file_with_signs_of_an_address_in_its_name_is_read(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.rename(file.with_name("a#b%20c d.db"))
    monkeypatch.setenv("PEOPLE_DATABASE", f"sqlite:///{file.parent}/a#b%20c d.db")
    assert load(SELECT) == 4


@pytest.mark.quick("sql0")
@pytest.mark.parametrize(
    "sql",
    [
        f"{ENDLESS} SELECT count(*) AS age, 1 AS height, 'red' AS colour, 'no' AS y FROM n",
        f"{ENDLESS} SELECT 1 AS age, 1.5 AS height, 'red' AS colour, 'no' AS y FROM n WHERE i < 0",
        f"{ENDLESS} SELECT 1 AS age, 1.5 AS height, 'red' AS colour, 'no' AS y FROM n",
    ],
)
def test_a_query_without_an_end_is_ended_on_sqlite(
    file: Path, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPICL_QUERY_SECONDS", "1")
    begun = time.monotonic()
    assert (
        "people: the contract's query takes longer than 1 seconds; expected its rows by then, or "
        "a larger DPICL_QUERY_SECONDS" in refusal(sql)
    )
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    "seconds", ["0", "-1", "1.5", "nan", "1e3", "604801", "9" * 5000, "\u0663", " 1"]
)
def test_a_time_that_is_none_is_refused_before_anything_is_asked(
    file: Path, seconds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPICL_QUERY_SECONDS", seconds)
    with pytest.raises(
        ParameterError, match=r"^DPICL_QUERY_SECONDS=.*a whole number of seconds, 1 to 604800$"
    ):
        find_rows(asking(SELECT), data_folder=None, cache_folder=Path("unused"))
