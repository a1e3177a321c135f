"""Both databases under one name: a test that takes `place` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ledger.postgres import Server, running_postgres
from tests.ledger.workload import Place


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """The session's PostgreSQL."""
    with running_postgres(durable=False) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty database of each kind, a key, and a place for an anchor."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'ledger.db'}"
    else:
        server: Server = request.getfixturevalue("postgres")
        url = server.url(server.new_database())
    return Place(url, tmp_path)
