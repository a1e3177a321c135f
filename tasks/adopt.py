"""Making a lost ledger anew from the receipts beside the releases that stand."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dpicl.accounting.ledger import Ledger
from dpicl.accounting.ledger.adopting import Standing
from dpicl.errors import DpiclError
from tasks.accounts import addresses_of
from tasks.receipts import DRAFT, SUFFIX, artefacts, newest, read, receipt_of, released_folder
from tasks.releases import address_of, ledger_key
from tasks.settings import Settings


def adopt(settings: Settings) -> tuple[int, list[str]]:
    """Rebuild what was spent; gives the number of releases, and the accounts that are exhausted as their receipts do not prove them.

    Raises:
        LedgerRefusedError: there is a ledger with records, or there are no receipts of this installation's key.
    """
    url, key, anchor = address_of(settings), ledger_key(settings), settings.home / "ledger.anchor.json"
    standing = list(_standing(settings))
    addresses = {one.account: _addresses(settings, one.account) for one in standing}
    made = Ledger.adopt(url, key, anchor, standing, addresses, seen=newest(settings).read().sequence)
    with Ledger.open(url, key, anchor) as ledger:
        newest(settings).advance(ledger.end)
    return len(made.entries), made.exhausted


def _standing(settings: Settings) -> Iterator[Standing]:
    """Every release of which an artefact, a draft or a receipt stands."""
    files: dict[tuple[str, str], list[Path]] = {
        (path.parent.name, path.name.removesuffix(SUFFIX)): [] for path in sorted(released_folder(settings).glob(f"*/*{SUFFIX}"))
    }
    for path in artefacts(settings):
        files.setdefault((path.parent.name, path.name.split(".")[0]), []).append(path)
    for (account, release_id), paths in files.items():
        final = sorted(path for path in paths if path.name == release_id)
        drafts = sorted(path for path in paths if path.name.endswith(DRAFT))
        sha256 = hashlib.sha256(final[0].read_bytes()).hexdigest() if final else None
        if sha256 is None and drafts:  # it may have been published; nobody has read it under its name
            sha256 = drafts[0].name.removesuffix(DRAFT).split(".")[-1]
        yield Standing(account, release_id, read(receipt_of(settings, account, release_id)), sha256)


def _addresses(settings: Settings, account: str) -> tuple[str, ...]:
    """Where the rows are, if a contract of the account's name says so."""
    with suppress(DpiclError):
        return addresses_of(settings.declared(account), settings)
    return ()
