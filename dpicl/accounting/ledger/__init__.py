"""The privacy ledger: a durable record of releases and what they cost.

    with open_ledger(url, key, anchor) as ledger:
        ledger.ensure_account(Account("adult", "row", Neighbours.ADD_OR_REMOVE_ONE, epsilon_cap=5.0))
        reservation = ledger.reserve(release)        durable before private rows are read
        winner = ledger.publish(release_id, sha256)  the first one wins
"""

from dpicl.accounting.ledger.keys import content_version, keyed_hash, load_key, release_id
from dpicl.accounting.ledger.store import Ledger, open_ledger
from dpicl.accounting.ledger.values import Account, Entry, Quote, Reading, Release, Reservation

__all__ = [
    "Account",
    "Entry",
    "Ledger",
    "Quote",
    "Reading",
    "Release",
    "Reservation",
    "content_version",
    "keyed_hash",
    "load_key",
    "open_ledger",
    "release_id",
]
