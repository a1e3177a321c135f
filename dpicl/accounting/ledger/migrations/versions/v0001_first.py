"""The first schema: accounts, entries, and the hash chain with its head."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables and the end of an empty chain."""
    op.create_table(
        "accounts",
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("unit", sa.String(40), nullable=False),
        sa.Column("neighbours", sa.String(40), nullable=False),
        sa.Column("epsilon_cap", sa.Float(53)),
        sa.Column("delta_cap", sa.Float(53), nullable=False),
        sa.Column("benchmark", sa.Boolean, nullable=False),
        sa.Column("opened_utc", sa.String(40), nullable=False),
    )
    op.create_table(
        "entries",
        sa.Column("release_id", sa.String(64), primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False, unique=True),
        sa.Column("account", sa.String(200), sa.ForeignKey("accounts.name"), nullable=False),
        sa.Column("content_version", sa.String(200), nullable=False),
        sa.Column("mechanism", sa.String(200), nullable=False),
        sa.Column("parameters", sa.Text, nullable=False),
        sa.Column("guarantee", sa.Text, nullable=False),
        sa.Column("epsilon", sa.Float(53), nullable=False),
        sa.Column("delta", sa.Float(53), nullable=False),
        sa.Column("reserved_utc", sa.String(40), nullable=False),
        sa.Column("artefact_sha256", sa.String(64)),
        sa.Column("published_utc", sa.String(40)),
    )
    op.create_index("entries_by_cost", "entries", ["account", "delta", "epsilon"])
    op.create_table(
        "records",
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
    )
    head = op.create_table(
        "head",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
    )
    op.bulk_insert(head, [{"id": 1, "sequence": 0, "hash": ""}])
