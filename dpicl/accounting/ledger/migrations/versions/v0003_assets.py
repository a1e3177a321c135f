"""An account belongs to a data asset: addresses of assets, running totals, and releases that were begun."""

import sqlalchemy as sa
from alembic import op

from dpicl.errors import LedgerError

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the tables; who opens the ledger with its key fills them."""
    op.create_table(
        "assets",
        sa.Column("address", sa.String(1000), primary_key=True),
        sa.Column("account", sa.String(200), sa.ForeignKey("accounts.name"), nullable=False),
    )
    op.create_table(
        "totals",
        sa.Column("account", sa.String(200), sa.ForeignKey("accounts.name"), primary_key=True),
        sa.Column("spent", sa.Text, nullable=False),
    )
    op.create_table("drawings", sa.Column("release_id", sa.String(64), primary_key=True))


def downgrade() -> None:
    """Only of an empty ledger: an older program would give every contract a budget of its own again."""
    if op.get_bind().execute(sa.text("SELECT count(*) FROM records")).scalar():
        raise LedgerError("its budgets belong to data assets; an older program would spend them again, so it cannot be taken back")
    for table in ("drawings", "totals", "assets"):
        op.drop_table(table)
