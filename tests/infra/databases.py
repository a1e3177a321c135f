"""The two databases of a cluster, as the recipes' script makes them on an empty PostgreSQL."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import make_url

from tests.harness import REPOSITORY, ran, well
from tests.ledger.postgres import Server, required_programs, running_postgres

SCRIPT = REPOSITORY / "infra" / "kubernetes" / "create-databases.sh"


@dataclass(frozen=True)
class Databases:
    """A server after the script."""

    server: Server
    passwords: dict[str, str]

    def url(self, role: str, database: str = "ledger") -> str:
        """How a role calls a database."""
        address = make_url(self.server.url()).set(
            username=role, password=self.passwords[role], database=database
        )
        return address.render_as_string(hide_password=False)


@contextmanager
def made_databases() -> Iterator[Databases]:
    """What the script makes of an empty server."""
    with running_postgres(durable=False) as server:
        passwords = {role: secrets.token_hex(12) for role in ("prefect", "ledger", "metrics")}
        told = {
            "PATH": f"{required_programs()}:{os.environ['PATH']}",
            "PGHOST": "127.0.0.1",
            "PGPORT": str(server.port),
            "PGPASSWORD": server.password,
            "POSTGRES_USER": "dpicl",
            **{
                f"{role.upper()}_DATABASE_PASSWORD": password
                for role, password in passwords.items()
            },
        }
        well(ran(["sh", SCRIPT], env=told))
        yield Databases(server, passwords)
