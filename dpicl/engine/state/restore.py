"""Restoring a backup into a state home without a ledger: whole or not at all, and never so that
something is charged a second time unseen.

    mark      nothing is spent in the home until the end
    compare   every byte is authenticated, and what is in the home has to be the backup's; nothing
              was written so far
    close     in a copy of the ledger the budgets are closed by a record of its chain, which holds
              every record that this host has seen
    place     keys, releases, then the ledger: each appears whole
    open      anchor and receipts see the new record, and the mark goes

Killed anywhere, the same command goes on.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from secrets import token_hex

from sqlalchemy import URL

import dpicl
from dpicl.accounting.ledger import Account, Ledger, load_key
from dpicl.accounting.ledger.anchor import Anchor, Head
from dpicl.accounting.ledger.anew import restore as restore_ledger
from dpicl.engine.benchmarks import REGISTRY
from dpicl.engine.files import PRIVATE_MODE, publish
from dpicl.engine.open_ledger import address_of, ledger_file, witness_of
from dpicl.engine.receipts import cap_of, newest, released_folder, write_adopted
from dpicl.engine.settings import Settings
from dpicl.engine.state.backup import KEYS, MANIFEST, RELEASED, Manifest, ledger_place
from dpicl.engine.state.sealed import read_archive, read_key
from dpicl.engine.state_home import KEY, LEDGER, RESTORE_LOCK, RESTORING, check_restored
from dpicl.errors import DpiclError, LedgerError, LedgerRefusedError, ParameterError
from dpicl.files.durable import sync_folder
from dpicl.files.locks import locked

ANCHOR = "ledger.anchor.json"
_ASIDE = "put it aside, with its -wal and -shm, and give the same command again"
"""What to do about a ledger that another process has made while the home was marked."""
_DEPTHS = {KEYS: 2, RELEASED: 3, REGISTRY: 1}
"""Parts of a name in a backup, by the first of them."""


@dataclass(frozen=True)
class Restored:
    """What was restored, the record that says so, all accounts with what they have spent, and what
    this user's witness had seen of accounts that had spent more.
    """

    manifest: Manifest
    record: int
    accounts: list[tuple[Account, float]]
    witnessed: list[tuple[str, float]]


def restore(settings: Settings, source: Path, key_file: Path) -> Restored:
    """Restore a backup, or finish doing so.

    Raises:
        ParameterError: the file is no whole backup under this key, or of a ledger that is kept
            elsewhere.
        LedgerRefusedError: the home has a ledger, or something that is not in the backup; or this
            host has seen more than the backup holds.
    """
    key, home = read_key(key_file), settings.make_home()
    with locked(home / RESTORE_LOCK):
        manifest = _manifest(source, key)
        if manifest.ledger != ledger_place(settings):
            expected = (
                "no DPICL_LEDGER"
                if manifest.ledger == "file"
                else "the address of the PostgreSQL that it was charged in"
            )
            raise ParameterError(
                "DPICL_LEDGER",
                "set" if settings.ledger else "not set",
                f"{expected}, as where {source.name} was written",
            )
        file = ledger_file(settings)
        attempt, is_new = _begin(home, file, f"{manifest.taken_utc} {manifest.identity}")
        if file is None or not file.exists():
            try:
                _check_alone(file)
                _compare(settings, source, key)
                _close(settings, manifest, attempt, source, key)
            except DpiclError:
                if is_new:  # nothing was placed
                    (home / RESTORING).unlink()
                raise
            _place(settings, source, key)
            if file is not None:
                _appear(file)
        restored = _open(settings, manifest, attempt)
        if file is not None:
            _closed(file).unlink(missing_ok=True)
        (home / RESTORING).unlink()
        sync_folder(home)
    return restored


def _manifest(source: Path, key: bytes) -> Manifest:
    for name, content in read_archive(source, key):
        if name == MANIFEST:
            told = json.loads(content)
            if told.keys() != {one.name for one in fields(Manifest)}:
                by, ours = (
                    f"dpicl {told.get('dpicl_version')}",
                    f"this is dpicl {dpicl.__version__}",
                )
                raise ParameterError(
                    "backup",
                    source.name,
                    f"one that this version can read: it was written by {by}, and {ours}",
                )
            return Manifest(**told)
        break
    raise ParameterError("backup", source.name, "a file that `dpicl state backup` wrote")


def _begin(home: Path, file: Path | None, backup: str) -> tuple[str, bool]:
    """Mark the home; gives a random name of this attempt, and whether it is no earlier one that
    goes on.
    """
    if (home / RESTORING).exists():
        marked, _, attempt = (home / RESTORING).read_text("utf-8").rpartition(" ")
        if marked != backup:
            check_restored(home)
        return attempt, False
    check_restored(home)
    attempt = token_hex(16)
    publish(
        home / RESTORING, lambda file: file.write(f"{backup} {attempt}".encode()), mode=PRIVATE_MODE
    )
    # looked at under the mark, else another process may make one meanwhile
    if file is not None and file.exists():
        (home / RESTORING).unlink()
        raise LedgerRefusedError(
            f"{file}: is a ledger already; expected a state home without one, or DPICL_HOME set "
            f"to a new folder"
        )
    return attempt, True


def _check_alone(file: Path | None) -> None:
    """Refuse what was left of the ledger that is gone."""
    for log in [] if file is None else _logs(file):
        if os.path.lexists(log):
            raise LedgerRefusedError(
                f"{log}: belongs to a ledger that is gone, and would be read with the restored "
                f"one; put it aside with the ledger"
            )


def _logs(file: Path) -> list[Path]:
    """Files that SQLite keeps beside a database and reads with it, whichever it belongs to."""
    return [file.with_name(file.name + suffix) for suffix in ("-wal", "-shm", "-journal")]


def _compare(settings: Settings, source: Path, key: bytes) -> None:
    """Authenticate the whole backup; what is in the home has to be in it."""
    names = set()
    for name, content in read_archive(source, key):
        if name not in (MANIFEST, LEDGER):
            path = _path(settings, name)
            names.add(path)
            if path.exists() and path.read_bytes() != content:
                # what was released since cannot be stepped round by restoring elsewhere
                known = path.is_relative_to(released_folder(settings))
                way_out = (
                    "a newer backup, or `dpicl ledger adopt`"
                    if known
                    else "a state home of the same installation, or a new folder"
                )
                raise LedgerRefusedError(f"{path}: is not the backup's; expected {way_out}")
    folder = released_folder(settings)
    for path in sorted(folder.glob("*/[!.]*")):
        if path not in names and path.name != cap_of(settings, "any").name:
            raise LedgerRefusedError(
                f"{path}: was released and is not in the backup; expected a newer backup, or "
                f"`dpicl ledger adopt`, which rebuilds the ledger "
                "from the receipts in released/"
            )


def _path(settings: Settings, name: str) -> Path:
    parts = PurePosixPath(name).parts
    if ".." in parts or len(parts) != _DEPTHS.get(parts[0] if parts else ""):
        raise ParameterError("backup", name[:80], "names of a state home")
    return settings.home.joinpath(*parts)


def _close(settings: Settings, manifest: Manifest, attempt: str, source: Path, key: bytes) -> None:
    """Close the budgets in a copy of the backup's ledger, beside its place; of one on a server, in
    it.
    """
    contents = {
        name: content
        for name, content in read_archive(source, key)
        if name in (LEDGER, KEY.as_posix())
    }
    file, url = ledger_file(settings), address_of(settings)
    if file is not None:
        copy = _closed(file)
        for log in _logs(copy):  # of a killed try
            log.unlink(missing_ok=True)
        publish(
            copy, lambda target: target.write(contents[LEDGER]), mode=PRIVATE_MODE, replace=True
        )
        url = URL.create("sqlite", database=str(copy))
    seen = [anchor.read() for anchor in (Anchor(settings.home / ANCHOR), newest(settings))]
    backup = {
        "identity": manifest.identity,
        "attempt": attempt,
        "taken_utc": manifest.taken_utc,
        "record": manifest.record,
    }
    try:
        restore_ledger(
            url, contents[KEY.as_posix()], backup, [Head(manifest.record, manifest.hash), *seen]
        )
    except LedgerRefusedError as error:
        if file is not None:
            _closed(file).unlink()
        raise LedgerRefusedError(
            f"{source.name}: {error}; a backup cannot undo what was charged since it was taken: "
            f"expected a newer one, or `dpicl ledger adopt`, "
            "which rebuilds the ledger from the receipts in released/"
        ) from None


def _closed(file: Path) -> Path:
    return file.with_name(f"{file.name}.{RESTORING}")


def _place(settings: Settings, source: Path, key: bytes) -> None:
    for name, content in read_archive(source, key):
        if name not in (MANIFEST, LEDGER):
            path = _path(settings, name)
            settings.own(*path.relative_to(settings.home).parts[:-1])
            publish(path, lambda file, content=content: file.write(content), mode=PRIVATE_MODE)  # type: ignore[misc]


def _appear(file: Path) -> None:
    """Give the closed ledger its name."""
    try:
        os.link(_closed(file), file)
    except FileExistsError:
        raise LedgerRefusedError(f"{file}: somebody made a ledger meanwhile; {_ASIDE}") from None
    sync_folder(file.parent)


def _open(settings: Settings, manifest: Manifest, attempt: str) -> Restored:
    """The ledger in its place, after its chain and the record that closes its budgets were
    checked.
    """
    key = load_key(settings.home / KEY)
    witness = witness_of(settings, key)
    # the witness may have seen more: budgets are closed
    with Ledger.open(address_of(settings), key, settings.home / ANCHOR) as ledger:
        ledger.verify()
        record = ledger.adopted_record()
        if json.loads(record.get("content", "{}")).get("backup", {}).get("attempt") != attempt:
            raise LedgerError(
                f"{ledger.place}: does not say that it comes from the backup of "
                f"{manifest.taken_utc}; {_ASIDE}"
            )
        write_adopted(ledger, settings)
        accounts = [
            (account, ledger.spent(account.name).epsilon)
            for account in ledger.accounts()
            if not account.benchmark
        ]
        spent = {account.name: epsilon for account, epsilon in accounts}
        seen = witness.read()
        ledger.witness_anew(witness)
    more = (
        []
        if seen is None
        else [
            (one.name, one.epsilon)
            for one in seen.accounts
            if one.epsilon > spent.get(one.name, 0.0)
        ]
    )
    return Restored(manifest, int(record["sequence"]), accounts, more)
