"""The schema of a ledger: which one it has, up to the newest and back to an older one.

All of it happens inside a transaction of the caller's, on both databases: killed anywhere, the ledger has the old schema or the new one.
Accounts, entries and the chain are the same rows in every schema.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, insert, inspect, select, text

import dpicl
from dpicl.accounting.ledger.models import SCHEMA, programs
from dpicl.errors import LedgerError, LedgerRefusedError

_MIGRATIONS = Path(__file__).parent / "migrations"


def schema_of(connection: Connection) -> str | None:
    """The migration that the database is at; None for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def known_schemas() -> list[str]:
    """All schemas that this program can make, the oldest first."""
    from alembic.script import ScriptDirectory

    return [script.revision for script in ScriptDirectory.from_config(_config(None)).walk_revisions()][::-1]


def upgrade(connection: Connection, name: str) -> None:
    """Migrate the ledger to the newest schema, and note which program did.

    Args:
        name: of the ledger, for messages.
    Raises LedgerRefusedError: a newer program made them.
    """
    current = schema_of(connection)
    if current == SCHEMA:
        return
    if current is not None and current not in known_schemas():
        maker = "a newer dpicl"
        if inspect(connection).has_table("programs"):  # from the second schema on a ledger records which program made it
            version = connection.execute(select(programs.c.program).where(programs.c.schema == current)).scalar()
            maker = f"dpicl {version}" if version else maker
        raise LedgerRefusedError(
            f"{name}: its schema {current} was made by {maker}, and this is dpicl {dpicl.__version__}, which knows up to {SCHEMA}; "
            f"install {maker}, or let it take the ledger back with `dpicl ledger downgrade {SCHEMA}`"
        )
    from alembic import command  # late: a ledger that is up to date needs none of it

    command.upgrade(_config(connection), SCHEMA)
    connection.execute(delete(programs).where(programs.c.schema == SCHEMA))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    connection.execute(insert(programs).values(schema=SCHEMA, program=dpicl.__version__, since_utc=now))


def downgrade(connection: Connection, revision: str, name: str) -> None:
    """Take the ledger back to an older schema.
    Raises LedgerError: there is no such schema, it is a newer one than the ledger's, or it cannot hold what is there.
    """
    known, current = known_schemas(), schema_of(connection)
    older = known[: known.index(current) + 1] if current in known else []
    if revision not in older:
        raise LedgerError(f"{name}: schema {current} cannot be taken back to {revision[:32]!r}; expected one of {', '.join(older)}")
    from alembic import command

    command.downgrade(_config(connection), revision)


def _config(connection: Connection | None) -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
