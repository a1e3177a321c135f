"""Every type of PostgreSQL that a contract accepts gives the values, types and digests that it
always gave, and all others one sentence.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import psycopg
import pyarrow as pa
import pytest
from pydantic import TypeAdapter

from dpicl.contract import Contract
from dpicl.contract.columns import Column
from dpicl.contract.columns.date import IN_FILES
from dpicl.contract.columns.integer import BEYOND, NOT_WHOLE
from dpicl.contract.columns.real import NOT_FINITE
from dpicl.contract.declared import Person, QuerySource
from dpicl.data.reading.database import query_batches
from dpicl.data.reading.files import canonical_order, rows_digest
from dpicl.data.reading.typed_columns import NO_VALUE_RULE
from dpicl.ground.errors import DpiclError
from tests.ledger.postgres import Server

from .asking import asking

WHOLE: dict[str, Any] = {"type": "integer", "bounds": [0, 10]}
REAL: dict[str, Any] = {"type": "real", "bounds": [0, 10]}
DAY: dict[str, Any] = {"type": "date", "bounds": ["2000-01-01", "2030-01-01"]}
MOMENT: dict[str, Any] = {
    "type": "datetime",
    "bounds": ["2000-01-01T00:00:00", "2030-01-01T00:00:00"],
}
WORDS = 'a|b|a |é|two\nlines|"|NULL|true|false|7|1.50|2|2020-01-01|1.1'
WORD: dict[str, Any] = {"type": "category", "categories": WORDS.split("|")}
TYPES = """
CREATE TYPE mood AS ENUM ('a', 'b');
CREATE DOMAIN age AS smallint CHECK (VALUE > 0);
CREATE DOMAIN mood_of_a_domain AS mood
"""


pytestmark = pytest.mark.usefixtures("asked")


@pytest.fixture(scope="module")
def server(postgres: Server) -> Iterator[Server]:
    postgres.emptied()
    for statement in TYPES.strip().split(";\n"):
        postgres.execute(statement)
    postgres.execute("ALTER DATABASE postgres SET timezone = 'Europe/Berlin'")
    yield postgres
    postgres.execute("ALTER DATABASE postgres RESET timezone")


AS_ROW = "SELECT 3 AS age, 1.5 AS height, 'red' AS colour, 'no' AS y"


def holding(values: str, column: dict[str, Any]) -> Contract:
    """The small contract with a column v of such values."""
    return with_column(f"{AS_ROW}, v FROM (VALUES {values}) AS given (v)", column)


def with_column(sql: str, column: dict[str, Any], **source: object) -> Contract:
    contract = asking(sql, **source)
    return contract.model_copy(
        update={"columns": {**contract.columns, "v": TypeAdapter(Column).validate_python(column)}}
    )


def read(contract: Contract) -> pa.Table:
    """In batches of two, so that one may hold nothing but nulls."""
    return pa.concat_tables(list(query_batches(contract, contract.source.query, 2)))


def gap(column: dict[str, Any]) -> dict[str, Any]:
    return {**column, "nullable": True}


ACCEPTED: dict[str, tuple[str, dict[str, Any], list[object]]] = {
    "smallint": ("(smallint '-32768'), (32767)", WHOLE, [-32768, 32767]),
    "bigint": (
        "(bigint '-9223372036854775808'), (9223372036854775807)",
        WHOLE,
        [-(2**63), 2**63 - 1],
    ),
    "int with gaps": ("(NULL::int), (NULL), (7)", gap(WHOLE), [None, None, 7]),
    "int as a word": ("(7::int), (7)", WORD, ["7", "7"]),
    "numeric": ("(1.50::numeric), (2), (1e60), (-0.0)", REAL, [1.5, 2.0, 1e60, 0.0]),
    "numeric of many digits": (
        "(0.1234567890123456789::numeric), (1e-30)",
        REAL,
        [0.12345678901234568, 1e-30],
    ),
    "numeric beyond a decimal of 256 bits": ("(1e200::numeric), (1e-200)", REAL, [1e200, 1e-200]),
    "numeric as a whole number": ("(7::numeric(8, 2)), (0.000000000)", WHOLE, [7, 0]),
    "numeric as a word": ("(1.5::numeric(4, 2)), (2)", WORD, ["1.50", "2"]),
    "real": ("(1.1::real), (123456.7), (1e-7)", REAL, [1.1, 123456.7, 1e-7]),
    "real as a word": ("(1.1::real), (7)", WORD, ["1.1", "7"]),
    "double": (
        "(5e-324::float8), (1.7976931348623157e308), ('-0'), (0.1)",
        REAL,
        [5e-324, 1.7976931348623157e308, 0.0, 0.1],
    ),
    "double with gaps and NaN": ("('NaN'::float8), (NULL), (1.5)", gap(REAL), [None, None, 1.5]),
    "double as a whole number": ("(7::float8), (-2)", WHOLE, [7, -2]),
    "text": (
        "('a'::text), ('é'), (E'two\\nlines'), ('\"'), ('NULL')",
        WORD,
        ["a", "é", "two\nlines", '"', "NULL"],
    ),
    "text with numbers": (
        "('7'::text), (' 8'), ('1e3')",
        {**WORD, "categories": ["7", " 8", "1e3"]},
        ["7", " 8", "1e3"],
    ),
    "varchar": ("('a'::varchar(3)), ('b')", WORD, ["a", "b"]),
    "char(2), with its blank": (
        "('a'::char(2)), ('b'::char(2))",
        {**WORD, "categories": ["a ", "b "]},
        ["a ", "b "],
    ),
    "NULL and empty text": (
        "(NULL::text), (''), ('a')",
        gap(WORD),
        ["(missing)", "(missing)", "a"],
    ),
    "boolean": ("(true), (false)", WORD, ["true", "false"]),
    "boolean with gaps": (
        "(NULL::boolean), (NULL), (true)",
        gap(WORD),
        ["(missing)", "(missing)", "true"],
    ),
    "boolean as a boolean": ("(true), (false)", {"type": "boolean"}, ["true", "false"]),
    "boolean as categories that are numbers": (
        "(NULL::boolean), (true)",
        gap({"type": "category", "categories": [0, 1]}),
        ["(missing)", "1"],
    ),
    "int as a boolean": ("(1::int), (0)", {"type": "boolean"}, ["true", "false"]),
    "text as a boolean": ("('True'::text), ('FALSE')", {"type": "boolean"}, ["true", "false"]),
    "date": ("(date '2020-01-01'), ('1969-12-31'), ('0001-01-01')", DAY, [18262, -1, -719162]),
    "date as a word": ("(date '2020-01-01'), ('2020-01-01')", WORD, ["2020-01-01"] * 2),
    "date with gaps": ("(NULL::date), (NULL), ('2020-01-01')", gap(DAY), [None, None, 18262]),
    "timestamp": (
        "(timestamp '2020-01-01 10:00:00.5'), ('1969-12-31 23:59:59.999999')",
        MOMENT,
        [1577872800, -1],
    ),
    "timestamp as a day": (
        "(timestamp '2020-01-01 23:59:59'), ('1969-12-31 23:59:59')",
        DAY,
        [18262, -1],
    ),
    "timestamptz": (
        "(timestamptz '2020-01-01 00:00:00+03'), ('2020-07-01 12:00:00.25 America/St_Johns')",
        MOMENT,
        [1577826000, 1593613800],
    ),
    "timestamptz of a zone with seconds": (
        "(timestamptz '1800-01-01 00:00:00+00'), ('2020-01-01 00:00:00+00')",
        DAY,
        [-62091, 18262],
    ),
    "enum": ("('a'::mood), ('b')", WORD, ["a", "b"]),
    "domains": ("(7::age), (8)", WHOLE, [7, 8]),
    "a domain of an enum": ("('a'::mood_of_a_domain), (NULL)", gap(WORD), ["a", "(missing)"]),
    "JSON that is a number": ("('7'::json), ('8')", WHOLE, [7, 8]),
    "bytea that is text": ("('\\x61'::bytea), ('\\x62')", WORD, ["a", "b"]),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_type_gives_its_values(name: str) -> None:
    values, column, expected = ACCEPTED[name]
    found = read(holding(values, column)).column("v")
    assert found.to_pylist() == expected
    words = "dictionary<values=string, indices=int16, ordered=0>"
    assert str(found.type) in ("int64", "double", words)


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "numeric NaN": ("('NaN'::numeric), (1)", gap(REAL), f"{NOT_FINITE} (1 value)"),
    "numeric infinity": ("('Infinity'::numeric), (1)", REAL, f"{NOT_FINITE} (1 value)"),
    "a numeric beyond 64 bits": ("(1e80::numeric), (1)", WHOLE, f"{BEYOND} (1 value)"),
    "double NaN": ("('NaN'::float8), (1)", REAL, f"{NOT_FINITE} (1 value)"),
    "double infinity": ("('-Infinity'::float8), (1)", gap(REAL), f"{NOT_FINITE} (1 value)"),
    "real infinity": ("('Infinity'::real), (1)", REAL, f"{NOT_FINITE} (1 value)"),
    "a fraction": ("(1.5::float8), (1)", WHOLE, f"{NOT_WHOLE} (1 value)"),
    "empty text": ("(''::text), ('a')", WORD, "or `nullable: true` (1 value)"),
    "NULL": ("(NULL::text), ('a')", WORD, "or `nullable: true` (1 value)"),
    "an endless date": (
        "(date 'infinity'), ('2020-01-01')",
        DAY,
        f"is no date such as 2026-11-25{IN_FILES} (1 value)",
    ),
    "a date before Christ": (
        "(date '0044-03-15 BC'), ('2020-01-01')",
        DAY,
        f"is no date such as 2026-11-25{IN_FILES} (1 value)",
    ),
    "an endless timestamptz": (
        "(timestamptz 'infinity'), (now())",
        DAY,
        f"is no date such as 2026-11-25{IN_FILES} (1 value)",
    ),
    "an interval": (
        "(interval '2 us'), ('3 us')",
        WHOLE,
        "but duration; expected a number of a unit, such as hours",
    ),
    "an interval as a real number": (
        "(interval '2 hours'), (NULL)",
        gap(REAL),
        "but duration; expected a number of a unit, such as hours",
    ),
    "a time of the day": (
        "(time '12:30'), ('13:00')",
        WHOLE,
        "but time64; expected text, or a number of minutes",
    ),
    "a boolean as a number": (
        "(true), (false)",
        WHOLE,
        "but bool; expected `type: boolean` in the contract",
    ),
    "an array of text": ("(ARRAY['a']), (NULL)", WORD, f"{NO_VALUE_RULE} (1 value)"),
    "jsonb": ("""('{"a": 1}'::jsonb), ('{}')""", WORD, f"{NO_VALUE_RULE} (2 values)"),
    "a range": ("(int4range(1, 2)), (NULL)", WORD, f"{NO_VALUE_RULE} (1 value)"),
    "JSON too deep": (
        "((repeat('[', 9999) || repeat(']', 9999))::json), ('[]')",
        WORD,
        f"{NO_VALUE_RULE} (1 value)",
    ),
    "bytes": ("('\\xff'::bytea), ('\\x61')", WORD, f"{NO_VALUE_RULE} (1 value)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_that_is_none_is_refused(name: str) -> None:
    values, column, expected = REFUSED[name]
    with pytest.raises(DpiclError) as caught:
        read(holding(values, column))
    assert caught.value.details().endswith(expected) and caught.value.__cause__ is None


@pytest.mark.parametrize("name", REFUSED)
def test_where_releases_are_renewed_such_a_row_is_left_out_and_such_a_column_refused(
    name: str,
) -> None:
    """A column's type is refused where it has no row, too; a value by its row alone."""
    values, column, expected = REFUSED[name]
    nightly = holding(values, {**column, "invalid": "leave-out"})
    if expected.startswith("but "):  # by its type
        empty = with_column(f"{AS_ROW}, v FROM (VALUES {values}) AS given (v) WHERE false", column)
        for said in (nightly, empty):
            with pytest.raises(DpiclError, match="holds neither numbers nor text but"):
                read(said)
    else:
        assert read(nightly).num_rows < 2


MIXED = """SELECT n % 90 AS age, (n % 7 / 4.0)::numeric(6, 3) AS height, (ARRAY['red', 'green', 'blue'])[1 + n % 3] AS colour,
CASE n % 2 WHEN 0 THEN 'no' ELSE 'yes' END AS y, timestamptz '2020-01-01 00:00:00+00' + n * interval '1.7 s' AS v FROM generate_series(1, 1000) n"""  # noqa: E501
DIGEST = "2475c7340a5324824e9f84eb6d429557f9bffbf267f28fd6a2e6815cf865a66a"
"""When every value was an object of Python's on its way."""


def test_a_table_has_the_digest_that_it_had() -> None:
    source = QuerySource(url_env="PEOPLE_DATABASE", sql=MIXED)
    batches = list(query_batches(holding("(1)", MOMENT), source, 300))
    assert [batch.num_rows for batch in batches] == [300, 300, 300, 100]
    assert rows_digest(canonical_order(pa.concat_tables(batches))) == DIGEST


def test_the_way_a_server_writes_days_and_letters_changes_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, encoding in (("latin", "LATIN1"), ("plain", "SQL_ASCII")):
        server.execute(
            f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE "
            f"template0"
        )
        server.execute(f"ALTER DATABASE {name} SET datestyle = 'German'")
    latin, plain = (server.url().removesuffix("/postgres") + name for name in ("/latin", "/plain"))
    monkeypatch.setenv("PEOPLE_DATABASE", latin)
    assert read(holding("('é'::text), ('a')", WORD)).column("v").to_pylist() == ["é", "a"]
    for kind, days in (
        ("date", ["2020-01-01", "1969-12-31"]),
        ("timestamptz", ["2020-01-01 00:00+00", "1969-12-31 23:59:59+00"]),
    ):
        values = ", ".join(f"({kind} '{day}')" for day in days)
        assert read(holding(values, DAY)).column("v").to_pylist() == [18262, -1]
    monkeypatch.setenv("PEOPLE_DATABASE", plain)
    assert read(holding(r"(E'\xc3\xa9'::text), ('a')", WORD)).column("v").to_pylist() == ["é", "a"]
    with pytest.raises(DpiclError, match="'v': holds neither numbers nor text; expected numbers"):
        read(holding(r"(E'\xff'::text), ('a')", WORD))
    with pytest.raises(DpiclError, match=r"refuses the contract's query \(UnicodeEncodeError\)$"):
        read(holding("('é'::text), ('a')", WORD))
    with psycopg.connect(f"{plain}?client_encoding=UTF8", autocommit=True) as connection:
        connection.execute("CREATE TABLE named AS SELECT 1 AS é")
    with pytest.raises(DpiclError, match=r"refuses the contract's query \(UnicodeDecodeError\)$"):
        read(asking("SELECT * FROM named"))


SETTINGS = {
    "datestyle": "German",
    "intervalstyle": "iso_8601",
    "extra_float_digits": "-10",
    "idle_in_transaction_session_timeout": "100",
}


def test_the_settings_of_a_role_change_no_value(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = quote(" ".join(f"-c {name}={value}" for name, value in SETTINGS.items()))
    monkeypatch.setenv("PEOPLE_DATABASE", f"{server.url()}?options={options}")
    for name in ("date", "timestamp", "timestamptz", "double", "real"):
        values, column, expected = ACCEPTED[name]
        assert read(holding(values, column)).column("v").to_pylist() == expected, name
    contract = holding("(1), (2), (3)", WHOLE)
    batches = query_batches(contract, contract.source.query, 2)
    assert next(batches).num_rows == 2
    time.sleep(0.3)  # beyond the role's limit of an idle transaction
    assert next(batches).num_rows == 1


def test_a_query_that_has_its_values_written_otherwise_is_refused() -> None:
    sql = f"{AS_ROW}, now() AS v, set_config('DateStyle', 'German', true) AS n"
    with pytest.raises(
        DpiclError,
        match=r"people: the database refuses the contract's query \(NotImplementedError\)$",
    ) as caught:
        read(with_column(sql, DAY, ignore=["n"]))
    assert caught.value.__cause__ is None


def in_a_zone(name: str) -> Contract:
    """A query that makes its time zone of a value; psycopg remembers each that it has met."""
    sql = (
        f"{AS_ROW}, timestamptz '2020-01-01 00:00:00+00' AS v, set_config('TimeZone', "
        f"'<{name}>+3', true) AS n"
    )
    return with_column(sql, DAY, ignore=["n"])


def test_the_driver_s_warnings_stand_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    assert read(in_a_zone("zq7secret")).column("v").to_pylist() == [18262]
    assert caplog.text == ""


@pytest.mark.exhaustive
def test_the_driver_s_warnings_are_not_printed(server: Server) -> None:
    program = (
        f"from {__name__} import in_a_zone, read; print(read(in_a_zone('zq7secret')).num_rows)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_the_text_of_a_numeric_depends_on_no_other_row() -> None:
    contract = asking(
        f"{AS_ROW}, v AS who FROM (VALUES (7::numeric), (8), (7), (8.0), (7)) AS given (v)"
    )
    unit = {"unit": "person", "person": Person(id_column="who", max_rows=9)}
    persons = {"privacy": contract.privacy.model_copy(update=unit)}
    ids = read(contract.model_copy(update=persons)).column("who").to_pylist()
    seven, eight, again, other, last = ids
    assert seven == again == last and len({seven, eight, other}) == 3
    words = {**WORD, "categories": ["7", "7.5"]}
    found = read(holding("(7::numeric), (7.5), (7), (7)", words)).column("v")
    assert found.to_pylist() == ["7", "7.5", "7", "7"]
