"""Write `flows/prefect_schema.sql`: what the migrations of the installed Prefect make of an empty
database: `python -m tools.prefect_schema`.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from flows.prepared_database import FILE, FIRST_LINE, SCHEMA


def migrated(home: Path) -> str:
    """The text of the file, from a database that Prefect makes in `home`."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")
    }
    environment |= {
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    command = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "-y"]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    with closing(sqlite3.connect(home / FILE)) as connection:
        lines = "\n".join(connection.iterdump()).splitlines()
    return FIRST_LINE.format(version("prefect")) + "".join(f"{line.rstrip()}\n" for line in lines)


def main() -> None:
    """Write the file again."""
    with TemporaryDirectory() as folder:
        SCHEMA.write_text(migrated(Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
