"""An account belongs to a data asset: addresses of assets, running totals, releases that were
begun, and a tree of digests.
"""

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
    op.create_table(
        "seals",
        sa.Column("prefix", sa.String(8), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
    )
    op.create_index("records_by_kind", "records", ["kind", "sequence"])


def downgrade() -> None:
    """Only of an empty ledger: an older program would give every contract a budget of its own
    again.
    """
    if op.get_bind().execute(sa.text("SELECT count(*) FROM records")).scalar():
        raise LedgerError(
            "its budgets belong to data assets; an older program would spend them again, so it "
            "cannot be taken back"
        )
    op.drop_index("records_by_kind", "records")
    for table in ("seals", "drawings", "totals", "assets"):
        op.drop_table(table)
