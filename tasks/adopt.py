"""Making a lost ledger anew from the receipts beside the releases that stand."""

from __future__ import annotations

from dpicl.accounting.ledger import Ledger
from tasks.receipts import DRAFT, SUFFIX, artefacts, newest, read, released_folder
from tasks.releases import address_of, ledger_key
from tasks.settings import Settings


def adopt(settings: Settings) -> tuple[int, list[str]]:
    """Rebuild what was spent; gives the number of releases, and accounts of which something stands without a receipt.

    Raises:
        LedgerRefusedError: there is a ledger with records, or there are no receipts of this installation's key.
    """
    folder = released_folder(settings)
    receipts = [read(path) for path in sorted(folder.glob(f"*/*{SUFFIX}"))]
    stated = {path.name.removesuffix(SUFFIX) for path in folder.glob(f"*/*{SUFFIX}")}
    unproved = sorted({path.parent.name for path in artefacts(settings) if path.name.removesuffix(DRAFT).split(".")[0] not in stated})
    anchor = settings.home / "ledger.anchor.json"
    count = Ledger.adopt(address_of(settings), ledger_key(settings), anchor, receipts, unproved)
    with Ledger.open(address_of(settings), ledger_key(settings), anchor) as ledger:
        newest(settings).advance(ledger.end)
    return count, unproved
