"""The privacy ledger, on SQLite and on a real PostgreSQL."""
