"""A contract's SQL as an attacker of PostgreSQL: whatever it says, nothing is written, no file
appears, and it ends.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from dpicl.data.reading import postgresql
from dpicl.data.reading.database import query_batches
from dpicl.data.reading.files import BATCH_ROWS
from dpicl.ground.errors import DpiclError
from tests.harness import until
from tests.ledger.postgres import Server

from .asking import ENDLESS, ROWS, SELECT, asking, load, refusal

pytestmark = pytest.mark.usefixtures("asked")


@pytest.fixture(scope="module")
def server(postgres: Server) -> Server:
    postgres.emptied()
    postgres.execute("CREATE TABLE people (age int, height float8, colour text, y text)")
    postgres.execute("CREATE TABLE victim (x int)")
    postgres.execute("CREATE VIEW seen AS SELECT * FROM people")
    postgres.execute("CREATE SEQUENCE counter")
    for age, height, colour, y in ROWS:
        postgres.execute(f"INSERT INTO people VALUES ({age}, {height}, '{colour}', '{y}')")
    return postgres


AS_ROW = "AS age, 1.5 AS height, 'red' AS colour, 'no' AS y"
ON_POSTGRESQL = (
    "DROP TABLE victim",
    "CREATE TABLE t AS SELECT * FROM people",
    "INSERT INTO people SELECT * FROM people RETURNING *",
    "WITH d AS (DELETE FROM people RETURNING *) SELECT * FROM d",
    f"{SELECT}; DROP TABLE victim",
    "COMMIT; DROP TABLE victim",
    "COPY people TO PROGRAM 'touch copy'",
    "SET TRANSACTION READ WRITE",
    "DO $$ BEGIN EXECUTE 'DROP TABLE victim'; END $$",
    f"SELECT nextval('counter')::int {AS_ROW}",
    f"SELECT set_config('transaction_read_only', 'off', false)::text {AS_ROW}",
    "SELECT * FROM people FOR UPDATE",
)


@pytest.mark.parametrize("sql", ON_POSTGRESQL)
def test_postgresql_is_read_and_nothing_else(server: Server, sql: str) -> None:
    assert "people: the database refuses the contract's query (" in refusal(sql)
    assert load(SELECT) == 4
    server.execute("SELECT 1 / (1 - (SELECT count(*) FROM victim))")  # stands, and is empty


BRACKETS = (
    "{select}) TO PROGRAM 'touch {file}' --",
    "{select}) TO PROGRAM 'touch {file}'; --",
    "{select}\n) TO PROGRAM 'touch {file}' /*",
    "{select}) TO '{file}' WITH (FORMAT csv) --",
    "{select} /* ) TO PROGRAM 'touch {file}' ",
    "{select} WHERE y = $x$) TO PROGRAM 'touch {file}' --",
    "{select} WHERE y = E'\\') TO PROGRAM 'touch {file}' --",
    "{select} AS \") TO PROGRAM 'touch {file}' --",
    "{select}; COPY people TO PROGRAM 'touch {file}'",
    "{select};;COPY people TO PROGRAM 'touch {file}' --",
    "{select} -- one\n; COPY people TO PROGRAM 'touch {file}'",
    "CLOSE rows; COPY people TO PROGRAM 'touch {file}'",
    "WITH d AS (INSERT INTO victim VALUES (1) RETURNING *) {select}",
    "WITH d AS (COPY people TO PROGRAM 'touch {file}') {select}",
    "SELECT age, height, colour, y INTO t FROM people",
    "EXPLAIN ANALYZE {select}",
    "EXECUTE rows",
    "CALL writes()",
    "SELECT writes() AS age, height, colour, y FROM people",
    (
        "SELECT length(query_to_xml($q$COPY people TO PROGRAM 'touch {file}'$q$, true, false, "
        "'')::text) {as_row}"
    ),
    (
        "SELECT length(query_to_xml('INSERT INTO victim VALUES (1) RETURNING x', true, false, "
        "'')::text) {as_row}"
    ),
)
"""What would run where a query is a text put between brackets, or is let do more than read."""


@pytest.fixture(scope="module")
def folder(server: Server) -> Iterator[Path]:
    """Of files that the server can make, as one there shows."""
    with TemporaryDirectory(dir="/tmp") as made:
        folder = Path(made)
        folder.chmod(0o777)
        server.execute(f"COPY people TO PROGRAM 'cat > {folder}/shown'")
        server.execute(
            "CREATE FUNCTION writes() RETURNS int LANGUAGE sql AS $$ INSERT INTO victim VALUES "
            "(1) RETURNING 1 $$"
        )
        assert [path.name for path in folder.iterdir()] == ["shown"]
        yield folder


@pytest.mark.parametrize("sql", BRACKETS)
def test_no_text_closes_a_bracket_or_says_a_second_thing(
    server: Server, folder: Path, sql: str
) -> None:
    told = refusal(sql.format(select=SELECT, file=folder / "made", as_row=AS_ROW))
    assert "people: the database refuses the contract's query (" in told and str(folder) not in told
    assert [path.name for path in folder.iterdir()] == ["shown"]
    server.execute("SELECT 1 / (1 - (SELECT count(*) FROM victim))")


@pytest.mark.parametrize(
    "sql",
    [
        f"{SELECT};",
        f"{SELECT} -- all of them",
        f"/* all */ {SELECT}; -- ;",
        f"TABLE seen /* {SELECT} */ ;\n",
    ],
)
def test_a_comment_or_a_semicolon_at_the_end_is_no_second_query(sql: str) -> None:
    assert load(sql) == 4


def test_what_a_version_of_postgresql_takes_for_reading_is_rolled_back(server: Server) -> None:
    with suppress(DpiclError):  # which is refused from PostgreSQL 16 on
        load(f"SELECT lo_from_bytea(0, 'x')::int {AS_ROW} FROM people")
    server.execute("SELECT 1 / (1 - (SELECT count(*) FROM pg_largeobject_metadata))")


LIFTS_THE_LIMIT = (
    f"WHEN 1 THEN set_config('statement_timeout', '0', false) WHEN {BATCH_ROWS + 9} THEN "
    f"pg_sleep(60)::text"
)
"""In one batch, and sleeps in the next."""


@pytest.mark.quick("sql2")
@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT (pg_sleep(60) IS NULL)::int {AS_ROW}",
        (
            f"SELECT 1 {AS_ROW} FROM generate_series(1, {2 * BATCH_ROWS}) n, LATERAL (SELECT CASE "
            f"n "
            f"{LIFTS_THE_LIMIT} END) s OFFSET 1"
        ),
        f"{ENDLESS} SELECT 1 {AS_ROW} FROM n",
    ],
)
def test_a_query_without_an_end_is_ended_on_postgresql(
    server: Server, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPICL_QUERY_SECONDS", "2")
    begun = time.monotonic()
    assert "people: the contract's query takes longer than 2 seconds" in refusal(sql)
    assert time.monotonic() - begun < 20
    until(lambda: not working(server), 5, "the end of the query at the server")


WORKING = (
    "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND state <> 'idle' "
    "AND pid <> pg_backend_pid()"
)


def working(server: Server) -> list[int]:
    """Processes of the server that run a query, or are within a transaction."""
    with psycopg.connect(server.url()) as connection:
        return [pid for (pid,) in connection.execute(WORKING)]


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    """The processes that give rows stop, and the one that would hear of a cancelled query."""
    readers = working(server)
    parents = [
        int(Path(f"/proc/{reader}/stat").read_text().rsplit(")", 1)[1].split()[1])
        for reader in readers
    ]
    assert readers
    for pid in parents + readers:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in parents + readers:
            os.kill(pid, signal.SIGCONT)


def test_a_server_that_stops_amid_rows_is_left_in_time(
    server: Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DPICL_QUERY_SECONDS", "1")
    monkeypatch.setattr(postgresql, "_GRACE_SECONDS", 0.5)
    contract = asking(f"{ENDLESS} SELECT 1 {AS_ROW} FROM n")
    begun, batches = time.monotonic(), query_batches(contract, contract.source.query, 1000)
    assert next(batches).num_rows == 1000
    with stopped(server):
        with pytest.raises(
            DpiclError, match="people: the contract's query takes longer than 1 seconds"
        ):
            list(batches)
        assert time.monotonic() - begun < 15
    time.sleep(0.2)  # for what a thread would print
    assert capfd.readouterr() == ("", "")
    assert load(SELECT) == 4
