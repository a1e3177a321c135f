"""The state home of a user: settings, accounts, receipts, logs."""
