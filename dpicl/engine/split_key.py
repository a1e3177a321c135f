"""The key that private rows are held out by: the same for every run on an asset, so that the same rows are held out."""

from __future__ import annotations

from dpicl.accounting.ledger import load_key
from dpicl.accounting.ledger.keys import keyed_hash
from dpicl.contract.declared import Declared
from dpicl.engine.settings import Settings


def split_key(settings: Settings, contract: Declared) -> bytes | None:
    """32 secret bytes from the installation's key and the account's name; None for a benchmark, which needs none."""
    if contract.privacy.budget.benchmark:
        return None
    return bytes.fromhex(keyed_hash(load_key(settings.home / "keys" / "ledger.key"), "split", contract.name))
