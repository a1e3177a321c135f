"""Restoring a backup into a state home without a ledger: whole or not at all, and never so that
something is charged a second time unseen.

    mark      nothing is spent in the home until the end
    compare   every byte is authenticated, and what is in the home has to be the backup's; nothing
              was written so far
    close     in a copy of the ledger the budgets are closed by a record of its chain, which holds
              every record that this host has seen
    place     keys, releases, then the ledger: each appears whole
    open      anchor and receipts see the new record, and the mark goes

Killed anywhere, the same command goes on. Beside the home in which the same ledger is in use, the
copy can be read, and that home goes on.

A sealed backup of what budgets hang on: the ledger at one moment, the keys, and every release that
it knows as published.

Making a lost ledger anew from the receipts beside the releases that stand.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from secrets import token_hex

from sqlalchemy import URL

import dpicl
from dpicl.ground.errors import DpiclError, LedgerError, LedgerRefusedError, ParameterError
from dpicl.ground.files import PRIVATE_MODE, locked, publish, sha256_of, sync_folder, write_whole
from dpicl.home.accounts import (
    CERTIFICATE,
    DRAFT,
    SUFFIX,
    address_of,
    addresses_of,
    adopted_of,
    artefacts,
    cap_of,
    ledger_file,
    ledger_key,
    newest,
    open_ledger,
    read,
    read_record,
    receipt_of,
    released_folder,
    witness_of,
    write_adopted,
)
from dpicl.home.benchmarks import REGISTRY
from dpicl.home.sealed import made_key, read_archive, read_key, write_archive
from dpicl.home.settings import (
    ANCHOR,
    KEY,
    LEDGER,
    RESTORE_LOCK,
    RESTORING,
    Settings,
    check_restored,
)
from dpicl.ledger import Account, Ledger, load_key
from dpicl.ledger.anew import Remains, Standing
from dpicl.ledger.anew import adopt as adopt_ledger
from dpicl.ledger.anew import restore as restore_ledger
from dpicl.ledger.keys import Anchor, Head
from dpicl.ledger.store import LedgerCopy
from dpicl.ledger.witness import Seen

MANIFEST = "backup.json"
KEYS = KEY.parent.name
RELEASED = "released"


@dataclass(frozen=True)
class BackupManifest:
    """What a backup says of itself: a random name, when and by which dpicl it was taken, the end of
    the ledger's chain, and where that is kept.
    """

    identity: str
    taken_utc: str
    dpicl_version: str
    record: int
    hash: str
    ledger: str
    releases: int


@dataclass(frozen=True)
class Written:
    """A backup that stands: its manifest, whether its key was made now, and published releases
    whose artefact is gone.
    """

    manifest: BackupManifest
    key_made: bool
    size: int
    missing: list[str]


def back_up(settings: Settings, target: Path, key_file: Path) -> Written:
    """Write a backup to a new file, for its owner only; the key is made where there is none.

    Raises:
        LedgerRefusedError: there is no ledger, or it is not in order.
        ParameterError: the file is there, or its folder is not; the key is none; or one of them
            would lie in the state home, of which the backup is one.
        OSError: a folder cannot be written, or the disk is full; then no file is there.
    """
    check_restored(settings.home)
    if not settings.ledger and not any((settings.home / name).exists() for name in (LEDGER, KEY)):
        raise LedgerRefusedError(
            f"{settings.home}: no ledger to back up; expected a state home in which something was "
            f"released"
        )
    if target.exists():
        raise ParameterError("backup", target.name, f"a new file{_standing(target, key_file)}")
    for what, path in (("backup", target), ("key", key_file)):
        if path.resolve().is_relative_to(settings.home.resolve()):
            raise ParameterError(
                what,
                path.name,
                "a file outside the state home: who loses one of them would lose both",
            )
        if not path.parent.is_dir():
            raise ParameterError(
                what, path, f"a file in a folder that is there; {path.parent} is none"
            )
    with open_ledger(settings) as ledger:
        ledger.verify()
        copy = ledger.copy()
    key_made = made_key(key_file)
    key = read_key(key_file)
    place = "file" if copy.content is not None else "server"
    taken = datetime.now(UTC).isoformat(timespec="seconds")
    head = copy.end
    count = len(copy.published)
    manifest = BackupManifest(
        secrets.token_hex(16), taken, dpicl.__version__, head.sequence, head.hash, place, count
    )
    missing: list[str] = []
    contents = _contents(settings, manifest, copy, missing)
    if not write_whole(target, lambda file: write_archive(file, key, contents)):
        raise ParameterError("backup", target.name, "a new file")
    return Written(manifest, key_made, target.stat().st_size, missing)


def _standing(target: Path, key_file: Path) -> str:
    """What is there already, where it is a whole backup, as of a command that was stopped in its
    last moment.
    """
    with suppress(DpiclError, OSError):
        (_, content), *_ = read_archive(target, read_key(key_file))
        return f"; this one is a whole backup of {json.loads(content)['taken_utc']}"
    return ""


def _contents(
    settings: Settings, manifest: BackupManifest, copy: LedgerCopy, missing: list[str]
) -> Iterator[tuple[str, bytes]]:
    yield MANIFEST, json.dumps(asdict(manifest)).encode()
    for path in sorted((settings.home / KEYS).glob("[!.]*")):
        yield f"{KEYS}/{path.name}", path.read_bytes()
    if copy.content is not None:
        yield LEDGER, copy.content
    if (settings.home / REGISTRY).exists():
        yield REGISTRY, (settings.home / REGISTRY).read_bytes()
    for account, release_id, sha256 in copy.published:
        found = _artefact(released_folder(settings) / account / release_id, sha256)
        if found is None:
            missing.append(f"{account}/{release_id}")
        else:
            yield f"{RELEASED}/{account}/{release_id}", found
        for suffix in (SUFFIX, CERTIFICATE):
            with suppress(FileNotFoundError):
                yield (
                    f"{RELEASED}/{account}/{release_id}{suffix}",
                    (released_folder(settings) / account / (release_id + suffix)).read_bytes(),
                )


def _artefact(final: Path, sha256: str) -> bytes | None:
    """What was published, under its name or as the draft that won: of a reader that renames it
    meanwhile, the first look may miss it.
    """
    for path in (final, final.with_name(f"{final.name}.{sha256}{DRAFT}"), final):
        with suppress(FileNotFoundError):
            return path.read_bytes()
    return None


_ASIDE = "put it aside, with its -wal and -shm, and give the same command again"
"""What to do about a ledger that another process has made while the home was marked."""
_DEPTHS = {KEYS: 2, RELEASED: 3, REGISTRY: 1}
"""Parts of a name in a backup, by the first of them."""


@dataclass(frozen=True)
class Restored:
    """What was restored, the record that says so, all accounts with what they have spent, what
    this user's witness had seen of accounts that had spent more, and the home in which the same
    ledger is in use and stays so.
    """

    manifest: BackupManifest
    record: int
    accounts: list[tuple[Account, float]]
    witnessed: list[tuple[str, float]]
    in_use: str | None


def restore(settings: Settings, source: Path, key_file: Path) -> Restored:
    """Restore a backup, or finish doing so.

    Raises:
        ParameterError: the file is no whole backup under this key, or of a ledger that is kept
            elsewhere.
        LedgerRefusedError: the home has a ledger, or something that is not in the backup; or this
            host has seen more than the backup holds.
    """
    key = read_key(key_file)
    home = settings.make_home()
    with locked(home / RESTORE_LOCK):
        manifest = _manifest(source, key)
        if manifest.ledger != ("server" if ledger_file(settings) is None else "file"):
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
                # refuse what was left of the ledger that is gone
                for log in [] if file is None else _logs(file):
                    if os.path.lexists(log):
                        raise LedgerRefusedError(
                            f"{log}: belongs to a ledger that is gone, and would be read with the "
                            "restored one; put it aside with the ledger"
                        )
                _compare(settings, source, key)
                _close(settings, manifest, attempt, source, key)
            except DpiclError:
                if is_new:  # nothing was placed
                    (home / RESTORING).unlink()
                raise
            _place(settings, source, key)
            if file is not None:
                # give the closed ledger its name
                try:
                    os.link(_closed(file), file)
                except FileExistsError:
                    raise LedgerRefusedError(
                        f"{file}: somebody made a ledger meanwhile; {_ASIDE}"
                    ) from None
                sync_folder(file.parent)
        restored = _open(settings, manifest, attempt)
        if file is not None:
            _closed(file).unlink(missing_ok=True)
        (home / RESTORING).unlink()
        sync_folder(home)
    return restored


def _manifest(source: Path, key: bytes) -> BackupManifest:
    for name, content in read_archive(source, key):
        if name == MANIFEST:
            told = json.loads(content)
            if told.keys() != {field.name for field in fields(BackupManifest)}:
                by = f"dpicl {told.get('dpicl_version')}"
                ours = f"this is dpicl {dpicl.__version__}"
                raise ParameterError(
                    "backup",
                    source.name,
                    f"one that this version can read: it was written by {by}, and {ours}",
                )
            return BackupManifest(**told)
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
    publish(home / RESTORING, f"{backup} {attempt}".encode(), mode=PRIVATE_MODE)
    # looked at under the mark, else another process may make one meanwhile
    if file is not None and file.exists():
        (home / RESTORING).unlink()
        raise LedgerRefusedError(
            f"{file}: is a ledger already; expected a state home without one, or DPICL_HOME set "
            f"to a new folder"
        )
    return attempt, True


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
                "`dpicl ledger adopt`, which rebuilds the ledger from the receipts in released/"
            )


def _path(settings: Settings, name: str) -> Path:
    parts = PurePosixPath(name).parts
    if ".." in parts or len(parts) != _DEPTHS.get(parts[0] if parts else ""):
        raise ParameterError("backup", name[:80], "names of a state home")
    return settings.home.joinpath(*parts)


def _close(
    settings: Settings, manifest: BackupManifest, attempt: str, source: Path, key: bytes
) -> None:
    """Close the budgets in a copy of the backup's ledger, beside its place; of one on a server, in
    it.
    """
    contents = {
        name: content
        for name, content in read_archive(source, key)
        if name in (LEDGER, KEY.as_posix())
    }
    file = ledger_file(settings)
    url = address_of(settings)
    if file is not None:
        copy = _closed(file)
        for log in _logs(copy):  # of a killed try
            log.unlink(missing_ok=True)
        publish(copy, contents[LEDGER], mode=PRIVATE_MODE, replace=True)
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


def _open(settings: Settings, manifest: BackupManifest, attempt: str) -> Restored:
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
        in_use = _in_use(settings, key, seen)
        if in_use is None:
            ledger.witness_anew(witness)
    more = (
        []
        if seen is None
        else [
            (account.name, account.epsilon)
            for account in seen.accounts
            if account.epsilon > spent.get(account.name, 0.0)
        ]
    )
    return Restored(manifest, int(record["sequence"]), accounts, more, in_use)


def _in_use(settings: Settings, key: bytes, seen: Seen | None) -> str | None:
    """Another home in which the ledger of this key still lies that the witness saw last; None of
    one on a server, which is the same for all homes.
    """
    if seen is not None and seen.is_elsewhere and ledger_file(settings) is not None:
        home = Path(seen.home)
        with suppress(OSError):
            if (home / LEDGER).exists() and (home / KEY).read_bytes() == key:
                return seen.home
    return None


def adopt(settings: Settings) -> tuple[int, list[str]]:
    """Rebuild what was spent; gives the number of releases, and the accounts that are exhausted as
    their receipts do not prove them.

    Raises:
        LedgerRefusedError: there is a ledger with records, or there are no receipts of this
            installation's key.
    """
    url = address_of(settings)
    key = ledger_key(settings)
    folder = released_folder(settings)
    anchor = settings.home / ANCHOR
    witness = witness_of(settings, key)
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
            and record["sequence"] > newest(settings).read().sequence
        ):
            return _written_down(ledger, settings)
    standing = list(_adopt_standing(settings))
    addresses: dict[str, tuple[str, ...]] = {release.account: () for release in standing}
    for account in addresses:
        with suppress(DpiclError):  # there may be no contract of the account's name
            addresses[account] = addresses_of(settings.declared(account), settings)
    caps = {path.name: cap_of(settings, path.name) for path in sorted(folder.iterdir())}
    remains = Remains(
        standing,
        addresses,
        {name: read_record(path) for name, path in caps.items() if path.exists()},
        read_record(adopted_of(settings)),
        newest(settings).read(),
    )
    adopt_ledger(url, key, anchor, remains, witness)
    with Ledger.open(url, key, anchor, witness) as ledger:
        rebuilt = _written_down(ledger, settings)
        ledger.witness_anew(witness)
    return rebuilt


def _written_down(ledger: Ledger, settings: Settings) -> tuple[int, list[str]]:
    """What the record of a rebuilt ledger says, which is kept beside the receipts."""
    write_adopted(ledger, settings)
    content = json.loads(ledger.adopted_record()["content"])
    return len(content["entries"]), content["exhausted"]


def _adopt_standing(settings: Settings) -> Iterator[Standing]:
    """Every release of which an artefact, a draft or a receipt stands."""
    received = sorted(released_folder(settings).glob(f"*/*{SUFFIX}"))
    files: dict[tuple[str, str], list[Path]] = {
        (path.parent.name, path.name.removesuffix(SUFFIX)): [] for path in received
    }
    for path in artefacts(settings):
        files.setdefault((path.parent.name, path.name.split(".")[0]), []).append(path)
    for (account, release_id), paths in files.items():
        final = sorted(path for path in paths if path.name == release_id)
        drafts = sorted(path for path in paths if path.name.endswith(DRAFT))
        sha256 = sha256_of(final[0].read_bytes()) if final else None
        if sha256 is None and drafts:  # it may have been published, and was not read under its name
            sha256 = drafts[0].name.removesuffix(DRAFT).split(".")[-1]
        yield Standing(account, release_id, read(receipt_of(settings, account, release_id)), sha256)
