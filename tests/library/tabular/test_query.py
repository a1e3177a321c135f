"""A query of a contract: the same typed rows as a file's; every refusal is one sentence without a
value or a password.
"""

from __future__ import annotations

import sqlite3
import sys
import tracemalloc
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from dpicl.contract import Contract
from dpicl.contract.columns.real import NOT_FINITE
from dpicl.contract.declared import QuerySource
from dpicl.data.reading.database import query_batches
from dpicl.data.reading.files import canonical_order, rows_digest
from dpicl.data.reading.source import load_source
from dpicl.ground.errors import DpiclError
from dpicl.ground.installed import to_install
from tests.ledger.postgres import Server

from ..table_contracts import GOOD_CSV, small_contract
from .asking import SELECT, asking

SECRET = "zq7secret"
TABLE = """
CREATE TABLE people (id serial, age smallint, height numeric(4, 2), colour text, y varchar(3), note text DEFAULT 'zq7secret');
INSERT INTO people (age, height, colour, y) VALUES (31, 1.75, 'red', 'no'), (48, 1.6, 'blue', 'yes'), (67, 1.82, 'red', 'yes'), (22, 1.7, 'green', 'no');
"""  # noqa: E501


pytestmark = pytest.mark.usefixtures("asked")


@pytest.fixture(scope="module")
def server(postgres: Server) -> Server:
    postgres.emptied()
    for statement in TABLE.strip().split(";\n"):
        postgres.execute(statement)
    postgres.execute(
        "CREATE TABLE many AS SELECT n::int % 100 AS age, 1.5::float8 AS height, 'red' AS colour, "
        "'no' AS y FROM generate_series(1, 50000) n"
    )
    return postgres


def load(contract: Contract) -> pa.Table:
    return load_source(contract, data_folder=None, cache_folder=None)  # type: ignore[arg-type]


def refusal(contract: Contract) -> str:
    with pytest.raises(DpiclError) as caught:
        load(contract)
    told = caught.value.details()
    assert SECRET not in told and "\n" not in told and "127.0.0.1" not in told
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return told


def test_a_query_gives_the_rows_that_csv_gives(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(GOOD_CSV)
    table = load(asking(SELECT))
    plain = load_source(small_contract(), data_folder=tmp_path, cache_folder=tmp_path)  # type: ignore[arg-type]
    assert table.equals(canonical_order(plain)) and rows_digest(table) == rows_digest(plain)


def test_the_order_that_a_database_chooses_changes_nothing() -> None:
    assert load(asking(f"{SELECT} ORDER BY id")).equals(load(asking(f"{SELECT} ORDER BY id DESC")))


def test_a_database_whose_driver_is_missing_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "dpicl.data.reading.postgresql", raising=False)
    assert refusal(asking(SELECT)).endswith(
        f": psycopg is not installed; {to_install('postgresql')}"
    )


def test_large_answers_come_in_batches_of_any_size() -> None:
    contract = asking("SELECT * FROM many")
    sizes = [batch.num_rows for batch in query_batches(contract, contract.source.query, 20_000)]
    assert sizes == [20_000, 20_000, 10_000]


def test_a_wide_column_that_is_not_read_takes_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqlite3.connect(tmp_path / "wide.db").execute("CREATE TABLE none (x)").connection.close()
    monkeypatch.setenv("PEOPLE_DATABASE", f"sqlite:///{tmp_path / 'wide.db'}")
    counted = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
    contract = asking(
        f"{counted} SELECT i % 90 AS age, 1.5 AS height, 'red' AS colour, 'no' AS y, "
        f"hex(zeroblob(1000)) AS note FROM n",
        ignore=["note"],
    )
    tracemalloc.start()
    sizes = [batch.num_rows for batch in query_batches(contract, contract.source.query, 16_384)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sizes == [16_384, 3616] and peak < 16e6  # the notes of a batch are 33 MB


def test_percent_and_colon_are_the_database_s_own() -> None:
    sql = f"{SELECT} WHERE note LIKE 'zq7%' AND note <> ':age' AND age::int > 30"
    assert load(asking(sql)).num_rows == 3


REFUSED = {
    "a column is missing": (
        "SELECT age, height, colour FROM people",
        "query: column 'y': is not among the columns",
    ),
    "other columns": (
        "SELECT age, height, colour, y, note FROM people",
        "query: column 'note': is not in the contract",
    ),
    "a column twice": (
        "SELECT age, age, height, colour, y FROM people",
        "has a name that stands twice",
    ),
    "text for a number": (
        "SELECT age, note AS height, colour, y FROM people",
        f"'height': {NOT_FINITE} (4 values)",
    ),
    "no such table": (
        f"SELECT age FROM {SECRET}",
        "people: the database refuses the contract's query (UndefinedTable, SQLSTATE 42P01)",
    ),
    "no SQL": (SECRET, "refuses the contract's query (SyntaxError, SQLSTATE 42601)"),
    "a cast that fails": (
        "SELECT note::int AS age, height, colour, y FROM people",
        "refuses the contract's query (InvalidTextRepresentation, SQLSTATE 22P02)",
    ),
    "a failure midway": (
        "SELECT 1 / (age - 99) AS age, height, colour, y FROM many",
        "refuses the contract's query (DivisionByZero, SQLSTATE 22012)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_query_is_refused_in_one_sentence(name: str) -> None:
    sql, expected = REFUSED[name]
    assert expected in refusal(asking(sql))


@pytest.mark.parametrize(
    ("sql", "fault"),
    [
        (f"SELECT age FROM {SECRET}", "no such table"),
        (f"SELECT {SECRET} AS age FROM people", "no such column"),
        (f"SELECT {SECRET}(age) FROM people", "no such function"),
        ("SELECT age FRM people WHERE note = 'x'", "syntax error"),
        # a message of its own, which may quote a value
        ("SELECT json_extract(note, '$') AS age FROM people", "SQLITE_ERROR"),
    ],
)
def test_a_file_s_mistake_is_named_to_who_holds_the_rows_alone(
    sql: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(tmp_path / "small.db")) as made:
        made.executescript(
            f"CREATE TABLE people (age, note); INSERT INTO people VALUES (1, '{SECRET}')"
        )
    monkeypatch.setenv("PEOPLE_DATABASE", f"sqlite:///{tmp_path / 'small.db'}")
    told = "people: the database refuses the contract's query (OperationalError"
    assert refusal(asking(sql)) == f"{told}, {fault})"
    with pytest.raises(DpiclError) as caught:
        load(asking(sql))
    assert str(caught.value) == f"{told})"


OTHERS = (
    f"{SECRET} mysql mariadb+pymysql mssql oracle postgresql+psycopg2 sqlite+pysqlcipher "
    "sqlite+aiosqlite"
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "people: PEOPLE_DATABASE is not set; expected postgresql://"),
        ("", "is not set"),
        (SECRET, "people: PEOPLE_DATABASE is no database address"),
        (
            f"postgresql://dpicl:{SECRET}@127.0.0.1:1/postgres",
            "no database answers at the address in PEOPLE_DATABASE (OperationalError)",
        ),
        *(
            (
                f"{name}://u:{SECRET}@127.0.0.1/x",
                "PEOPLE_DATABASE names a database that could be written to by a query",
            )
            for name in OTHERS.split()
        ),
        *(
            (address, "PEOPLE_DATABASE names no file alone; expected postgresql://")
            for address in ("sqlite://", "sqlite:///:memory:")
        ),
        ("sqlite:////tmp/people.db?mode=rwc&uri=true", "PEOPLE_DATABASE names no file alone"),
        (
            f"postgresql:///{SECRET}?host=one:1&host=two:2&port=3",
            "no database answers at the address in PEOPLE_DATABASE (ArgumentError)",
        ),
        (
            f"postgresql:///x?conninfo=host%3D{SECRET}",
            "no database answers at the address in PEOPLE_DATABASE (TypeError)",
        ),
    ],
)
def test_an_address_that_is_none_or_does_not_answer_is_refused_unshown(
    monkeypatch: pytest.MonkeyPatch, value: str, expected: str
) -> None:
    monkeypatch.delenv("PEOPLE_DATABASE")
    if value is not None:
        monkeypatch.setenv("PEOPLE_DATABASE", value)
    assert expected in refusal(asking(SELECT))


@pytest.mark.parametrize(
    "name", ["row_factory", "cursor_factory", "context", "autocommit", "prepare_threshold"]
)
def test_an_address_sets_nothing_of_the_driver_s_own(
    monkeypatch: pytest.MonkeyPatch, server: Server, name: str
) -> None:
    monkeypatch.setenv("PEOPLE_DATABASE", f"{server.url()}?{name}=0")
    assert load(asking(SELECT)).num_rows == 4


def test_the_address_is_named_and_never_written_in_a_contract() -> None:
    for wrong in ("postgresql://u:p@h/d", "lower", ""):
        with pytest.raises(DpiclError, match=r"source\.query\.url_env"):
            small_contract(source={"file": None, "query": {"url_env": wrong, "sql": SELECT}})
    assert set(QuerySource.model_fields) == {"url_env", "sql"}
