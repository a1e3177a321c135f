"""One PostgreSQL for all modules that ask a database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ledger.postgres import Server, running_postgres


@pytest.fixture(scope="package")
def postgres() -> Iterator[Server]:
    """What a module makes in it, the next one drops."""
    with running_postgres(durable=False) as server:
        yield server


@pytest.fixture
def asked(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A module's server, at the address that contracts of `asking` name."""
    monkeypatch.setenv("PEOPLE_DATABASE", server.url())
    return server
