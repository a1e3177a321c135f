"""Which version of the program brought the ledger to its form: told to an older one that meets it."""

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
    """Nothing of the budget stands in it, so that nothing is lost that the older form would need."""
    op.drop_table("programs")
