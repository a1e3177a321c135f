"""Making a lost ledger anew from the receipts beside the releases that stand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dpicl.accounting.ledger import Ledger
from dpicl.accounting.ledger.anew import Remains, Standing
from dpicl.accounting.ledger.anew import adopt as adopt_ledger
from dpicl.engine import receipts
from dpicl.engine.accounts import addresses_of
from dpicl.engine.open_ledger import address_of, ledger_key, witness_of
from dpicl.engine.receipts import write_adopted
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError, LedgerError, LedgerRefusedError


def adopt(settings: Settings) -> tuple[int, list[str]]:
    """Rebuild what was spent; gives the number of releases, and the accounts that are exhausted as
    their receipts do not prove them.

    Raises:
        LedgerRefusedError: there is a ledger with records, or there are no receipts of this
            installation's key.
    """
    url, key, folder = (
        address_of(settings),
        ledger_key(settings),
        receipts.released_folder(settings),
    )
    anchor, witness = settings.home / "ledger.anchor.json", witness_of(settings, key)
    if not folder.is_dir():
        raise LedgerRefusedError(
            "nothing stands in released/; expected the folder of the installation whose ledger "
            "was lost"
        )
    with suppress(LedgerError), Ledger.open(url, key, anchor, witness) as ledger:
        record = ledger.adopted_record()
        # A rebuild was killed after the ledger was made.
        if (
            record.get("kind") == "adopted"
            and record["sequence"] > receipts.newest(settings).read().sequence
        ):
            write_adopted(ledger, settings)
            content = json.loads(record["content"])
            return len(content["entries"]), sorted(
                name
                for name, told in content["accounts"].items()
                if told["account_row"]["epsilon_cap"] == 0
            )
    standing = list(_standing(settings))
    addresses: dict[str, tuple[str, ...]] = {one.account: () for one in standing}
    for account in addresses:
        with suppress(DpiclError):  # there may be no contract of the account's name
            addresses[account] = addresses_of(settings.declared(account), settings)
    caps = {path.name: receipts.cap_of(settings, path.name) for path in sorted(folder.iterdir())}
    remains = Remains(
        standing,
        addresses,
        {name: receipts.read_record(path) for name, path in caps.items() if path.exists()},
        receipts.read_record(receipts.adopted_of(settings)),
        receipts.newest(settings).read().sequence,
    )
    rebuilt = adopt_ledger(url, key, anchor, remains, witness)
    with Ledger.open(url, key, anchor, witness) as ledger:
        write_adopted(ledger, settings)
        ledger.witness_anew(witness)
    return rebuilt


def _standing(settings: Settings) -> Iterator[Standing]:
    """Every release of which an artefact, a draft or a receipt stands."""
    received = sorted(receipts.released_folder(settings).glob(f"*/*{receipts.SUFFIX}"))
    files: dict[tuple[str, str], list[Path]] = {
        (path.parent.name, path.name.removesuffix(receipts.SUFFIX)): [] for path in received
    }
    for path in receipts.artefacts(settings):
        files.setdefault((path.parent.name, path.name.split(".")[0]), []).append(path)
    for (account, release_id), paths in files.items():
        final = sorted(path for path in paths if path.name == release_id)
        drafts = sorted(path for path in paths if path.name.endswith(receipts.DRAFT))
        sha256 = hashlib.sha256(final[0].read_bytes()).hexdigest() if final else None
        if sha256 is None and drafts:  # it may have been published, and was not read under its name
            sha256 = drafts[0].name.removesuffix(receipts.DRAFT).split(".")[-1]
        yield Standing(
            account,
            release_id,
            receipts.read(receipts.receipt_of(settings, account, release_id)),
            sha256,
        )
