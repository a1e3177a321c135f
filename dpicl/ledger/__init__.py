"""The privacy ledger: a durable record of releases and what they cost.

Open it with `Ledger.open(url, key, anchor_file)`, `ensure_account` once, `reserve` a release before
its private rows are read, and `publish` what was drawn: the first to publish wins, all others read
the winner's.
"""

from dpicl.ledger.fold import (
    Account,
    Entry,
    OdometerReading,
    Quote,
    ReleaseCharge,
    Reservation,
    Spender,
)
from dpicl.ledger.keys import Described, content_version, keyed_hash, load_key, release_id
from dpicl.ledger.store import Ledger

__all__ = [
    "Account",
    "Described",
    "Entry",
    "Ledger",
    "OdometerReading",
    "Quote",
    "ReleaseCharge",
    "Reservation",
    "Spender",
    "content_version",
    "keyed_hash",
    "load_key",
    "release_id",
]
