"""Migrations of the ledger, run by alembic when a ledger is opened, or taken back by
`dpicl ledger downgrade`.

Every migration after the first has a `downgrade`. Where what it finds has no place in the older
form it raises a LedgerError with counts, and everything stays as it was. No migration touches the
content of accounts, entries and records: the chain is a hash of it.
"""
