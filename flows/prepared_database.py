"""An empty database of Prefect's, as its migrations leave one: they take longer than all else that
a server does before it answers.

`prefect_schema.sql` holds what the migrations of one version of Prefect make of nothing;
`python -m tools.prefect_schema` writes it. Another version migrates by itself, as does every
database that is there already.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

from dpicl.files.durable import write_new

SCHEMA = Path(__file__).with_name("prefect_schema.sql")
FIRST_LINE = "-- prefect {}\n"
FILE = "prefect.db"
_ELSEWHERE = ("PREFECT_SERVER_DATABASE_CONNECTION_URL", "PREFECT_API_DATABASE_CONNECTION_URL")


def prepare_database(environment: Mapping[str, str] = os.environ) -> bool:
    """Make the database of a server that has none yet and is to keep it in PREFECT_HOME; whether
    one was made.

    A server that is started at the same moment finds a whole database or none. Raises OSError: it
    cannot be written.
    """
    home = Path(environment["PREFECT_HOME"]).expanduser()
    # The log that a killed server leaves would be replayed into another database, if its own is
    # gone.
    if any(environment.get(name) for name in _ELSEWHERE) or any(home.glob(f"{FILE}*")):
        return False
    schema = SCHEMA.read_text(encoding="utf-8")
    if not schema.startswith(FIRST_LINE.format(version("prefect"))):
        return False
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(schema)
        return write_new(home / FILE, connection.serialize())
