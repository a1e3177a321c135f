"""Opening brings any older ledger up to date, once, however many processes open it; a newer one is refused."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

import dpicl.accounting.ledger as package
from dpicl.accounting.ledger.models import SCHEMA, metadata
from dpicl.errors import LedgerError
from tests.ledger.workload import Place, open_and_ask


def test_many_processes_make_one_ledger(place: Place) -> None:
    with multiprocessing.get_context("forkserver").Pool(12) as pool:
        answers = pool.starmap(open_and_ask, [(place.url, place.anchor)] * 24, chunksize=1)
    assert len({process for process, _ in answers}) > 1
    assert {records for _, records in answers} == {1}


def test_migrations_make_the_tables_that_the_code_uses(place: Place) -> None:
    with place.ledger() as ledger, ledger._database.writing() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_the_code_needs_the_newest_migration() -> None:
    migrations = ScriptDirectory(str(Path(package.__file__).parent / "migrations"))
    assert migrations.get_heads() == [SCHEMA]


def test_a_newer_ledger_is_refused_and_left_alone(place: Place) -> None:
    with place.ledger():
        pass
    place.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(LedgerError, match=f"schema 9999 was made by a newer dpicl; expected at most {SCHEMA}"), place.ledger():
        pass
    assert place.execute("SELECT version_num FROM alembic_version")[0][0] == "9999"


def test_a_migration_that_fails_leaves_nothing(place: Place) -> None:
    """A table in the way of the last step: none of the steps before it stays."""
    place.execute("CREATE TABLE head (id INTEGER)")
    with pytest.raises(LedgerError, match="head"), place.ledger():
        pass
    assert place.execute("SELECT count(*) FROM head")[0][0] == 0
    place.execute("DROP TABLE head")
    with place.ledger() as ledger, ledger._database.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM head")).scalar() == 1
