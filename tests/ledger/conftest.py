"""Both databases under one name: a test that takes `place` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpicl.ledger import Ledger
from lab.benchmarks.speed.fork_server import own_fork_server
from tests.ledger.postgres import Server, running_postgres
from tests.ledger.workload import SHOP, Place


@pytest.fixture(scope="package", autouse=True)
def forks() -> Iterator[None]:
    """Children of these tests are forked from a process that has imported what they need, a third
    of a second each.
    """
    with own_fork_server(["lab.benchmarks.guarantees.spenders", "tests.ledger.mortal"]):
        yield


@pytest.fixture(scope="package")
def postgres() -> Iterator[Server]:
    """The server of these tests."""
    with running_postgres(durable=False) as server:
        yield server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Kills, crowds of processes and every case after a test's first are made by `make test` on one
    database.
    """
    seen = set[object]()
    for item in items:
        if (
            isinstance(item, pytest.Function)
            and item.path.parent == Path(__file__).parent
            and "postgresql" in item.name
        ):
            if item.function in seen or any(
                word in item.nodeid
                for word in ("killed", "processes", "newer_program", "several_accounts")
            ):
                item.add_marker(pytest.mark.exhaustive)
            seen.add(item.function)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty database of each kind, a key, and a place for an anchor."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'ledger.db'}"
    else:
        server: Server = request.getfixturevalue("postgres")
        url = server.emptied()
    return Place(url, tmp_path)


@pytest.fixture
def ledger(place: Place) -> Iterator[Ledger]:
    """An open ledger with one account, shop, that has bought nothing."""
    with place.ledger() as opened:
        opened.ensure_account(SHOP)
        yield opened
