"""What the ledger tells: whether it is intact, and what every account has spent."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from dpicl.accounting.ledger import Account, Ledger
from dpicl.engine.releases import open_ledger
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError


@dataclass(frozen=True)
class AccountFacts:
    """One account: epsilon in nats, None for a benchmark's cap; releases by `reserved` and `published`."""

    name: str
    spent: float
    delta: float
    cap: float | None
    delta_cap: float
    releases: Mapping[str, int]

    @property
    def left(self) -> float | None:
        """Epsilon left; None without a cap."""
        return None if self.cap is None else self.cap - self.spent


class LedgerReader:
    """Checks the whole chain every time; composes the accounts again only if a record was added."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._anchor = settings.home / "ledger.anchor.json"
        self._known: tuple[bytes, tuple[AccountFacts, ...]] | None = None

    def read(self) -> tuple[bool | None, tuple[AccountFacts, ...]]:
        """Whether the chain is intact, None without a ledger; and its accounts, if it is."""
        if not (os.environ.get("DPICL_LEDGER") or self._anchor.exists() or (self._settings.home / "ledger.db").exists()):
            return None, ()
        try:
            with open_ledger(self._settings) as ledger:
                ledger.verify()
                # Number and hash of the last record, which stands for all before it; no file before the first.
                end = self._anchor.read_bytes() if self._anchor.exists() else b""
                if self._known is None or self._known[0] != end:
                    self._known = end, tuple(_facts(ledger, account) for account in ledger.accounts())
                return True, self._known[1]
        except (DpiclError, OSError):
            return False, ()


def _facts(ledger: Ledger, account: Account) -> AccountFacts:
    spent = ledger.spent(account.name)
    releases = Counter({"reserved": 0, "published": 0})
    releases.update(entry.state for entry in ledger.entries(account.name))
    return AccountFacts(account.name, spent.epsilon, spent.delta, account.epsilon_cap, account.delta_cap, dict(releases))
