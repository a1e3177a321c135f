"""Receipts: beside every artefact, the records of the ledger that charged and published it.

A receipt is written before a release's mechanism reads a row, so that whatever was drawn has one.
It is a record of the chain with the hash before it: the installation's key tells a true one, and it
says what its account had spent by then. A ledger that is shorter than the newest receipt is not the
one that these releases were charged in.

    released/<account>/<release_id>           the artefact
    released/<account>/<release_id>.receipt   its records
    released/<account>/<release_id>.certificate   what was promised, signed; public
    released/<account>/cap.json               the record of the last cap that was set by a command
    released/adopted.json                     the first record of a ledger that was made anew
    released/newest.json                      the end of the chain when the last of them was written
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpicl.accounting.ledger import Ledger, Release
from dpicl.accounting.ledger.anchor import Anchor, Head
from dpicl.accounting.ledger.witness import Witness
from dpicl.engine.files import PRIVATE_MODE, write_json
from dpicl.engine.settings import Settings
from dpicl.engine.state_home import LEDGER
from dpicl.errors import LedgerRefusedError

SUFFIX, CERTIFICATE, DRAFT, _NEWEST, _CAP = (
    ".receipt",
    ".certificate",
    ".draft",
    "newest.json",
    "cap.json",
)
_ADOPTED = "adopted.json"


def released_folder(settings: Settings) -> Path:
    """Where artefacts and receipts lie."""
    return settings.home / "released"


def artefact_of(settings: Settings, release: Release) -> Path:
    """Where a release's artefact lies, or will."""
    return released_folder(settings) / release.account / release.release_id


def newest(settings: Settings) -> Anchor:
    """The end of the chain that receipts have seen, beside them and apart from the ledger's own
    anchor.
    """
    return Anchor(released_folder(settings) / _NEWEST)


def write_receipt(ledger: Ledger, release: Release, settings: Settings) -> None:
    """Write the receipt of a release that is charged, or now published, if there is more in it than
    there was.

    A ledger that was made anew holds fewer records than a receipt of before, which stays.
    """
    path = receipt_of(settings, release.account, release.release_id)
    stored = read(path)
    if any(record.get("kind") == "published" for record in stored):
        return
    missing = [record for record in ledger.records_of(release.release_id) if record not in stored]
    if missing:
        write_json(path, [*stored, *missing], mode=PRIVATE_MODE, replace=True)
        newest(settings).advance(Head(missing[-1]["sequence"], missing[-1]["hash"]))


def write_cap(ledger: Ledger, account: str, settings: Settings) -> None:
    """Write down the last cap of an account that was set by a command."""
    if record := ledger.cap_record(account):
        write_json(cap_of(settings, account), record, mode=PRIVATE_MODE, replace=True)
        newest(settings).advance(Head(record["sequence"], record["hash"]))


def cap_of(settings: Settings, account: str) -> Path:
    """Where the record of an account's last cap lies, or will."""
    return released_folder(settings) / account / _CAP


def write_adopted(ledger: Ledger, settings: Settings) -> None:
    """Write down the first record of a ledger that was made anew."""
    write_json(adopted_of(settings), ledger.adopted_record(), mode=PRIVATE_MODE, replace=True)
    newest(settings).advance(ledger.end)


def adopted_of(settings: Settings) -> Path:
    """Where the first record of a ledger that was made anew lies."""
    return released_folder(settings) / _ADOPTED


def read_record(path: Path) -> dict[str, Any]:
    """One record; nothing where there is none."""
    content = _content(path)
    return content if isinstance(content, dict) else {}


def receipt_of(settings: Settings, account: str, release_id: str) -> Path:
    """Where a release's receipt lies, or will."""
    return released_folder(settings) / account / (release_id + SUFFIX)


def read(path: Path) -> list[dict[str, Any]]:
    """The records of a receipt; none where it is not there or is no receipt."""
    content = _content(path)
    return (
        content
        if isinstance(content, list) and all(isinstance(record, dict) for record in content)
        else []
    )


def _content(path: Path) -> Any:
    """Of a file of JSON; None where it is not there or is something else."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def artefacts(settings: Settings) -> Iterator[Path]:
    """Every artefact, drafts of published ones among them."""
    folder = released_folder(settings)
    for account in sorted(folder.iterdir()) if folder.is_dir() else ():
        if account.is_dir():
            files = (
                path
                for path in sorted(account.iterdir())
                if path.suffix not in (SUFFIX, CERTIFICATE)
            )
            yield from (path for path in files if path.name != _CAP and path.name[0] != ".")


def check_not_lost(settings: Settings, witness: Witness | None = None) -> None:
    """Refuse to make a ledger anew over releases that stand, or where one was. Raises
    LedgerRefusedError: with what to do.
    """
    file = settings.home / LEDGER
    if not settings.ledger and not file.exists():
        _check_none_before(settings, witness, str(file))


def check_not_shorter(ledger: Ledger, settings: Settings) -> None:
    """Refuse a ledger that ends before the newest receipt. Raises LedgerRefusedError: with what to
    do.
    """
    if not ledger.end.sequence:
        _check_none_before(settings, None, "its ledger is empty")
    try:
        ledger.check_seen(newest(settings).read())
    except LedgerRefusedError as error:
        raise LedgerRefusedError(lost(str(error))) from None


def _check_none_before(settings: Settings, witness: Witness | None, what: str) -> None:
    if newest(settings).path.exists() or any(artefacts(settings)):
        raise LedgerRefusedError(lost(what))
    left = next(
        (
            folder
            for folder in (settings.private_home / "drawn-from", settings.home / "series")
            if _has_file(folder)
        ),
        None,
    )
    if left is None and witness is not None and witness.is_there:
        left = witness.path
    if left is not None:
        raise LedgerRefusedError(
            f"releases were charged in another ledger ({what}), as {left} tells; expected the "
            f"newest state home, or `dpicl state restore` with its "
            f"backup; or another state home, in which nothing is charged for the same rows until "
            f"`dpicl budget NAME --cap` states how much"
        )


def _has_file(folder: Path) -> bool:
    return any(path.is_file() for path in folder.rglob("*"))


def lost(what: str) -> str:
    """The message to a user whose ledger is gone or old."""
    return (
        f"releases stand in released/ that were charged in another ledger ({what}); restore the "
        f"ledger from a backup, or "
        f"`dpicl ledger adopt` rebuilds what was spent from the receipts of the releases"
    )
