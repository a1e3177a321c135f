"""Both databases under one name: a test that takes `place` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.speed.fork_server import own_fork_server
from tests.ledger.postgres import Server, running_postgres
from tests.ledger.workload import Place


@pytest.fixture(scope="package", autouse=True)
def forks() -> Iterator[None]:
    """Children of these tests are forked from a process that has imported what they need, a third of a second each."""
    with own_fork_server(["benchmarks.guarantees.spenders", "tests.ledger.mortal"]):
        yield


@pytest.fixture(scope="package")
def postgres() -> Iterator[Server]:
    """The server of these tests."""
    with running_postgres(durable=False) as server:
        yield server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Kills at every step take a minute on each database, and `make test` makes them on one."""
    for item in items:
        if "killed" in item.nodeid and "postgresql" in item.name:
            item.add_marker(pytest.mark.exhaustive)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty database of each kind, a key, and a place for an anchor."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'ledger.db'}"
    else:
        server: Server = request.getfixturevalue("postgres")
        url = server.emptied()
    return Place(url, tmp_path)
