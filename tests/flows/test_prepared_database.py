"""A server's first database is the one that Prefect's own migrations make, and no other is
touched.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest

from flows import prepared_database
from flows.prepared_database import FILE, FIRST_LINE, SCHEMA, prepare_database
from tools.prefect_schema import migrated


def test_the_schema_is_of_the_prefect_that_is_locked() -> None:
    """If this fails: `python -m tools.prefect_schema`."""
    assert SCHEMA.read_text().startswith(FIRST_LINE.format(version("prefect")))


def test_a_database_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    home = tmp_path / "prefect"
    assert prepare_database({"PREFECT_HOME": str(home)})
    assert (home / FILE).stat().st_mode & 0o077 == 0 and [path.name for path in home.iterdir()] == [
        FILE
    ]
    with closing(sqlite3.connect(home / FILE)) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
        full = [
            name
            for (name,) in connection.execute(
                "select name from sqlite_master where type = 'table'"
            ).fetchall()
            if connection.execute(f'select count(*) from "{name}"').fetchone() != (0,)
        ]
    assert full == ["alembic_version"], "nothing but the number of the last migration"
    (home / FILE).write_bytes(b"somebody's")
    assert (
        not prepare_database({"PREFECT_HOME": str(home)})
        and (home / FILE).read_bytes() == b"somebody's"
    )


def test_none_is_put_beside_the_log_of_one_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / f"{FILE}-wal").write_bytes(b"of a server that was killed")
    assert not prepare_database({"PREFECT_HOME": str(tmp_path)}) and not (tmp_path / FILE).exists()


def test_another_version_and_another_database_are_left_to_prefect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = {
        "PREFECT_HOME": str(tmp_path),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": "postgresql+asyncpg://one/two",
    }
    assert not prepare_database(elsewhere)
    monkeypatch.setattr(prepared_database, "version", lambda _: "3.8.9")
    assert not prepare_database({"PREFECT_HOME": str(tmp_path)}) and not list(tmp_path.iterdir())


@pytest.mark.exhaustive
def test_the_schema_is_what_the_migrations_make(tmp_path: Path) -> None:
    """Constraints of a table stand in the order of a set, which is another each time."""
    made, kept = (
        sorted(line.rstrip(",") for line in text.splitlines())
        for text in (migrated(tmp_path / "prefect"), SCHEMA.read_text())
    )
    assert made == kept
