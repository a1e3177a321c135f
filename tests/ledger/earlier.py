"""Ledgers of earlier programs, and a program that is newer than this one.

The rows in `tests/upgrades/data/ledger-*.json` were written by programs of three days of the
history, at schema 0001, under the key of these tests.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import MetaData, create_engine, insert, inspect, make_url, update

import dpicl
from dpicl.accounting.ledger import Account, Release
from dpicl.accounting.ledger.anchor import Head
from dpicl.accounting.ledger.chain import link
from dpicl.accounting.ledger.keys import canonical
from dpicl.accounting.ledger.models import accounts, entries, head, records
from dpicl.accounting.ledger.rows import account_row, release_row
from tests.ledger.workload import KEY, Place

DATA = Path(__file__).parent.parent / "upgrades" / "data"
EARLIER = ("first", "second", "third")
ROWS = ("accounts", "entries", "records", "head")
"""Tables that there are in every form."""

_NOTES = '''"""Notes, which no older form can hold."""
import sqlalchemy as sa
from alembic import op
from dpicl.errors import LedgerError

revision, down_revision = "0004", "0003"


def upgrade():
    op.create_table("notes", sa.Column("note", sa.String(40)))


def downgrade():
    count = op.get_bind().execute(sa.text("SELECT count(*) FROM notes")).scalar()
    op.drop_table("notes")
    if count:
        raise LedgerError(f"{count} notes have no place in schema 0003")
'''


def write_earlier(place: Place, name: str) -> None:
    """An earlier ledger, on any database: tables by the migrations up to its revision, rows as its
    program wrote them.
    """
    content = json.loads((DATA / f"ledger-{name}.json").read_text())
    url = make_url(place.url)
    engine = create_engine(
        url.set(drivername="postgresql+psycopg") if url.get_backend_name() == "postgresql" else url
    )
    config = Config()
    config.set_main_option(
        "script_location", str(Path(dpicl.__file__).parent / "accounting" / "ledger" / "migrations")
    )
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, content["alembic_version"][0]["version_num"])
        tables = MetaData()
        tables.reflect(connection)
        for table in ROWS:
            connection.execute(tables.tables[table].delete())
            connection.execute(insert(tables.tables[table]), content[table])
    engine.dispose()
    place.anchor.write_text(json.dumps(content["anchor"]))


def held(place: Place) -> dict[str, list[Any]]:
    """Every row of accounts, entries and chain."""
    return {table: sorted(map(tuple, place.execute(f"SELECT * FROM {table}"))) for table in ROWS}


def tables(place: Place) -> set[str]:
    """Names of the tables."""
    url = make_url(place.url)
    engine = create_engine(
        url.set(drivername="postgresql+psycopg") if url.get_backend_name() == "postgresql" else url
    )
    names = set(inspect(engine).get_table_names())
    engine.dispose()
    return names


def newer_program(folder: Path) -> Path:
    """This program with one migration more, as version 0.2.0."""
    shutil.copytree(
        Path(dpicl.__file__).parent,
        folder / "dpicl",
        ignore=shutil.ignore_patterns("__pycache__", "lm", "resources"),
    )
    ledger = folder / "dpicl" / "accounting" / "ledger"
    (ledger / "migrations" / "versions" / "v0004_notes.py").write_text(_NOTES)
    for file, old, new in (
        (ledger / "models.py", '"0003"', '"0004"'),
        (folder / "dpicl" / "__init__.py", "0.1.0", "0.2.0"),
    ):
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))
    return folder


def by(program: Path, place: Place, statement: str) -> str:
    """What a statement on an open ledger prints in another program, or the sentence that it is
    refused with.
    """
    lines = [
        "from pathlib import Path",
        "from dpicl.accounting.ledger import Ledger",
        "from dpicl.errors import LedgerError",
        "try:",
        (
            f"    with Ledger.open({place.url!r}, {KEY!r}, Path({str(place.anchor)!r})) as ledger: "
            f"{statement}"
        ),
        "except LedgerError as error: print(error)",
    ]
    environment = {**os.environ, "PYTHONPATH": str(program)}
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        env=environment,
        cwd=program,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def write_old(
    place: Place, opened: Sequence[Account], charged: Sequence[tuple[Release, str | None]]
) -> None:
    """A ledger of before with these accounts and releases (each with what was published), in the
    newest tables: records without a state.
    """
    with place.ledger():
        pass
    end = Head()
    with place.behind() as connection:

        def record(kind: str, content: Mapping[str, Any]) -> Head:
            after = link(place.key, end, kind, canonical(content))
            connection.execute(
                insert(records).values(
                    sequence=after.sequence, kind=kind, content=canonical(content), hash=after.hash
                )
            )
            return after

        for number, account in enumerate(opened):
            row = {**account_row(account), "opened_utc": f"2026-01-01T00:00:{number:02}"}
            connection.execute(insert(accounts).values(row))
            end = record("opened", row)
        for release, artefact in charged:
            row = {**release_row(release), "number": end.sequence + 1, "reserved_utc": "2026-01-02"}
            connection.execute(insert(entries).values(row))
            end = record("reserved", row)
            if artefact:
                won = {"artefact_sha256": artefact, "published_utc": "2026-01-03"}
                connection.execute(
                    update(entries).where(entries.c.release_id == release.release_id).values(won)
                )
                end = record("published", {"release_id": release.release_id, **won})
        connection.execute(update(head).values(sequence=end.sequence, hash=end.hash))
