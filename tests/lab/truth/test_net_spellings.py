"""The spelling suite: after an asset's cap is spent no other way to say it gets anything; of a
database on a server as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import psycopg
import pytest

from lab.audit.end_to_end import spellings
from lab.audit.end_to_end.spellings import (
    DATABASES,
    FILES,
    FOLDERS,
    SPELLINGS,
    STORES,
    one_cap,
    servers,
)
from lab.audit.end_to_end.world import NAME, Declaration, base_rows
from tests.ledger.postgres import Server, running_postgres


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """With two databases of the same rows."""
    with running_postgres(durable=False) as server:
        for database in ("sales", "others"):
            server.execute(f"CREATE DATABASE {database}")
            with psycopg.connect(
                server.url().replace("/postgres", f"/{database}"), autocommit=True
            ) as connection:
                connection.execute(
                    f"CREATE TABLE {NAME} (spent int, city text, member text)".encode()
                )
                with connection.cursor() as cursor:
                    rows = [
                        (row["spent"], row["city"], row["member"])
                        for row in base_rows(Declaration())
                    ]
                    cursor.executemany(f"INSERT INTO {NAME} VALUES (%s, %s, %s)".encode(), rows)
        yield server


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)


def spelt(server: Server) -> dict[str, str]:
    """Addresses that name one database."""
    login, at = f"postgresql://dpicl:{server.password}@", f"127.0.0.1:{server.port}"
    return {
        "plain": f"{login}{at}/sales",
        "another name of the host": f"{login}localhost:{server.port}/sales",
        "a driver": f"{login.replace('postgresql', 'postgresql+psycopg')}{at}/sales",
        "a number of the host": f"{login}127.1:{server.port}/sales",
    }


def test_a_database_of_a_server_has_one_cap(server: Server) -> None:
    assert servers(spelt(server)) == []


def test_another_database_is_another_asset(server: Server) -> None:
    plain = spelt(server)["plain"]
    assert servers({"plain": plain, "others": plain.replace("/sales", "/others")}) == [
        "others: gets what the asset's cap has no room for"
    ]


def test_the_suite_has_the_spellings_that_were_open() -> None:
    assert {"a hard link", "a link to a hard link", "a place of before"} <= FILES.keys()
    assert len(FILES) + len(FOLDERS) + len(DATABASES) + len(STORES) > 25 and len(SPELLINGS) == 4


def test_another_file_is_another_asset() -> None:
    """A suite that refuses whatever it is given would show nothing."""

    def copied(world: spellings.World) -> spellings.Source:
        (world.data / "copy.csv").write_bytes((world.data / f"{NAME}.csv").read_bytes())
        return {"file": "copy.csv"}

    assert one_cap(Declaration(), {"a copy": copied}) == [
        "a copy: gets what the asset's cap has no room for"
    ]
    assert (
        "refused for something else"
        in one_cap(Declaration(), {"nothing": lambda _: {"file": "nothing.csv"}})[0]
    )
