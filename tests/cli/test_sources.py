"""`dpicl run` on a database and on a folder: to the report, or to one sentence and exit code 2 that
shows no value.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import psycopg
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from dpicl.contract.columns.integer import NOT_WHOLE
from tests.cli.conftest import Cli
from tests.harness import (
    SMALL_OPTIONS,
    Place,
    World,
    complaint,
    install,
    publish,
    rows,
    shop,
    shop_rows,
)
from tests.leaks import api, database, files
from tests.ledger.postgres import Server, running_postgres

SECRET = "zq7secret"
COLUMNS = "age, spent, colour, member, bought"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Two hundred made-up customers in a table, with a note on each."""
    with running_postgres(durable=False) as server:
        server.execute(
            f"CREATE TABLE shop (id serial, age int, spent numeric, colour text, member text, "
            f"bought text, note text DEFAULT '{SECRET}')"
        )
        copying = f"COPY shop ({COLUMNS}) FROM STDIN WITH (FORMAT csv, HEADER)"
        with (
            psycopg.connect(server.url(), autocommit=True) as connection,
            connection.cursor().copy(copying) as copy,
        ):
            copy.write(shop_rows(200))
        yield server


def asking(place: Place, name: str, sql: str, *, private: bool = False) -> str:
    contract = shop(name, private=private)
    contract["source"] = {
        **{key: value for key, value in contract["source"].items() if key != "file"},
        "query": {"url_env": "SHOP_DB", "sql": sql},
    }
    return install(place, contract, "")


def on_folder(place: Place, name: str, table: pa.Table) -> Path:
    contract = shop(name, private=True)
    contract["source"] = {
        **{key: value for key, value in contract["source"].items() if key != "file"},
        "folder": name,
    }
    install(place, contract, "")
    folder = place.root / "data" / name
    folder.mkdir()
    pq.write_table(table.slice(0, 80), folder / "a.parquet")
    pq.write_table(table.slice(80), folder / "b.parquet")
    return folder


def run(world: World, name: str, **environment: str) -> Any:
    return world.dpicl(
        "run demo", *SMALL_OPTIONS, "--datasets", name, "--run-id", f"run-{name}", **environment
    )


@pytest.mark.exhaustive
def test_a_table_of_postgresql_is_run_to_its_report(world: World, server: Server) -> None:
    name = asking(world, "asked", f"SELECT {COLUMNS} FROM shop ORDER BY random()")
    publish(world, name, SHOP_DB=server.url())
    done = run(world, name, SHOP_DB=server.url())
    assert done.returncode == 0, done.stderr
    assert len(rows(world.run("run-asked") / "results.csv")) > 10
    wanted = (server.password.encode(), f":{server.port}".encode())
    kept = {**files([world.home, world.root / "prefect"]), **api(world), **database(world)}
    told = {**kept, "out": done.stdout.encode(), "err": done.stderr.encode()}
    assert [name for name, data in told.items() if any(word in data for word in wanted)] == []
    held = json.loads((world.run("run-asked") / "validation" / "asked.json").read_text())
    assert all(row["holds"] for row in held)


REFUSED_QUERIES = {
    "missing": (
        "SELECT age, spent, colour, member FROM shop",
        "'bought': is not among the columns",
    ),
    "more": (f"SELECT {COLUMNS}, note FROM shop", "column 'note': is not in the contract"),
    "nulls": (
        "SELECT NULLIF(age, age) AS age, spent, colour, member, bought FROM shop",
        "'age': is empty; expected a value in every row, or `nullable: true`",
    ),
    "failing": (
        "SELECT note::int AS age, spent, colour, member, bought FROM shop",
        "the database refuses the contract's query",
    ),
    "bounds": (
        "SELECT age + 500 AS age, spent, colour, member, bought FROM shop",
        "breaks in_bounds",
    ),
}


def released(place: Place, cli: Cli, name: str) -> Any:
    """The stages that read a table, in this process."""
    return cli.ended(f"protect {name} --shots 2 --out {place.root / 'demos.jsonl'}")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", REFUSED_QUERIES)
def test_a_bad_query_ends_in_one_sentence(
    place: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch, server: Server, name: str
) -> None:
    sql, expected = REFUSED_QUERIES[name]
    monkeypatch.setenv("SHOP_DB", server.url())
    sentence = complaint(released(place, cli, asking(place, f"bad_{name}", sql, private=True)))
    assert expected in sentence and SECRET not in sentence and server.password not in sentence


def test_an_address_that_is_not_set_is_refused_in_the_plan(place: Place, cli: Cli) -> None:
    sentence = complaint(released(place, cli, asking(place, "unset", "SELECT 1", private=True)))
    assert sentence.startswith("unset: SHOP_DB is not set")
    assert not any((place.home / "private").rglob("*.parquet"))


def _table() -> pa.Table:
    return pa_csv.read_csv(io.BytesIO(shop_rows(200).encode()))


def _spoilt(column: str, value: Callable[[pd.DataFrame], Any]) -> pa.Table:
    frame = _table().to_pandas()
    return pa.Table.from_pandas(frame.assign(**{column: value(frame)}), preserve_index=False)


REFUSED_FOLDERS: dict[str, tuple[pa.Table, str]] = {
    "missing": (
        _table().drop_columns(["spent"]),
        "folder_missing/a.parquet: column 'spent': is not among the columns",
    ),
    "type": (
        _spoilt("age", lambda frame: SECRET),
        f"folder_type/a.parquet: column 'age': {NOT_WHOLE}",
    ),
    "bounds": (_spoilt("age", lambda frame: frame["age"] + 500), "column 'age': breaks in_bounds"),
}


@pytest.mark.parametrize("name", REFUSED_FOLDERS)
def test_a_bad_folder_ends_in_one_sentence(place: Place, cli: Cli, name: str) -> None:
    table, expected = REFUSED_FOLDERS[name]
    on_folder(place, f"folder_{name}", table)
    sentence = complaint(released(place, cli, f"folder_{name}"))
    assert expected in sentence and SECRET not in sentence
