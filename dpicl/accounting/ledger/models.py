"""Tables of the ledger. `records` is the hash chain; the others are what it says, for asking.

A change here needs a new SCHEMA: a ledger of another one is refused.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

SCHEMA = 1
"""Number of this form of the tables."""
BATCH = 1000
"""Rows that are held at once where all of a long table are read."""

metadata = MetaData()

accounts = Table(
    "accounts",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("unit", String(40), nullable=False),
    Column("neighbours", String(40), nullable=False),
    Column("epsilon_cap", Float(53)),
    Column("delta_cap", Float(53), nullable=False),
    Column("benchmark", Boolean, nullable=False),
    Column("opened_utc", String(40), nullable=False),
)

entries = Table(
    "entries",
    metadata,
    Column("release_id", String(64), primary_key=True),
    Column("number", BigInteger, nullable=False, unique=True),  # of the record that reserved it
    Column("account", String(200), ForeignKey("accounts.name"), nullable=False),
    Column("mechanism", String(200), nullable=False),
    Column("parameters", Text, nullable=False),
    Column("guarantee", Text, nullable=False),
    Column("epsilon", Float(53), nullable=False),
    Column("delta", Float(53), nullable=False),
    Column("reserved_utc", String(40), nullable=False),
    Column("artefact_sha256", String(64)),
    Column("published_utc", String(40)),
    Index("entries_by_cost", "account", "delta", "epsilon"),
)

assets = Table(
    "assets",
    metadata,
    Column("address", String(1000), primary_key=True),
    Column("account", String(200), ForeignKey("accounts.name"), nullable=False),
)
"""Which account pays for the rows at a public address."""

totals = Table(
    "totals",
    metadata,
    Column("account", String(200), ForeignKey("accounts.name"), primary_key=True),
    Column("spent", Text, nullable=False),
)
"""What an account with a cap has spent, as its privacy filter adds it up: `filters.Spent` as
JSON.
"""

drawings = Table("drawings", metadata, Column("release_id", String(64), primary_key=True))
"""Releases whose mechanism has begun to read rows: another one can no longer be made for their
cost.
"""

seals = Table(
    "seals",
    metadata,
    Column("prefix", String(8), primary_key=True),
    Column("digest", String(64), nullable=False),
)
"""Digests of entries and begun releases; `seals.py` says of which."""

records = Table(
    "records",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", String(20), nullable=False),
    Column("content", Text, nullable=False),
    Column("hash", String(64), nullable=False),
    Index("records_by_kind", "kind", "sequence"),
)

head = Table(
    "head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("sequence", BigInteger, nullable=False),
    Column("hash", String(64), nullable=False),
)
"""One row: the end of the chain, and the lock that writers of the chain take."""

programs = Table(
    "programs",
    metadata,
    Column("schema", Integer, primary_key=True, autoincrement=False),
    Column("program", String(40), nullable=False),
)
"""One row: the form of these tables, and the version of dpicl that made them. Not chained: it says
nothing of what is spent.
"""
