"""Which version of the program migrated the ledger: an older one that opens it says so."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the table; who opens the ledger writes the rows."""
    op.create_table(
        "programs",
        sa.Column("schema", sa.String(32), primary_key=True),
        sa.Column("program", sa.String(40), nullable=False),
        sa.Column("since_utc", sa.String(40), nullable=False),
    )


def downgrade() -> None:
    """It holds nothing of the budget, so that nothing is lost that the older schema needs."""
    op.drop_table("programs")
