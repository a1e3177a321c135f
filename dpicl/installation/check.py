"""The doctor: whether an installation is in order. Each finding has a place, a rule, and what to
do; nothing is changed.

A finding is a fault, or a note: what works now, which versions, how much room, and what
`dpicl state clean` would remove. No private value is read, and no count of private files or their
size is told.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from sqlalchemy import Connection

import dpicl
from dpicl.ground.errors import DpiclError, LedgerRefusedError
from dpicl.ground.files import is_free
from dpicl.home.accounts import (
    check_not_lost,
    ledger_file,
    looked_at,
    named_by,
    newest,
    witness_of,
)
from dpicl.home.settings import ANCHOR, KEY, RESTORE_LOCK, Settings, check_restored
from dpicl.installation.clean import DAY, not_behind_links, orphans, published
from dpicl.ledger import chain
from dpicl.ledger.database import SCHEMA, other_schema, schema_of
from dpicl.ledger.fold import Fold
from dpicl.ledger.keys import KEY_BYTES, Anchor
from dpicl.ledger.witness import Witness
from dpicl.release.one_release import BEGIN_LOCK, RELEASE_LOCK
from dpicl.runs.run_folder import LOCK

LEAST_FREE_BYTES = 500 * 10**6
"""Less room than this is a fault: a run and its report take some megabytes, a table that is read in
batches more.
"""
_PLACES = ("keys", "released", "private", "locks")


@dataclass(frozen=True)
class Finding:
    """Something that is so: where, which rule, and what to do about it; whether that is a fault."""

    path: str
    rule: str
    do: str
    is_fault: bool = True


def findings(settings: Settings) -> Iterator[Finding]:
    """All of them, faults or not."""
    for look in (_modes, _restored, _ledger, _locks, _leftovers, _versions, _room):
        yield from look(settings)


def _note(path: Path | str, rule: str, do: str = "") -> Finding:
    return Finding(str(path), rule, do, is_fault=False)


def _refused(path: Path | str, error: DpiclError) -> Finding:
    """What any command would say."""
    rule, _, do = str(error).removeprefix(f"{path}: ").partition("; ")
    return Finding(str(path), rule, do or "see docs/how-to/keep.md")


# Modes.


def _modes(settings: Settings) -> Iterator[Finding]:
    """Home and runs are for their owner only, and so is every file of state; in a folder of the
    home one path stands for all.
    """
    if os.name == "nt":
        return
    home = settings.home
    if not home.exists():
        yield _note(home, "no state home so far", "nothing: the first release makes it")
    for folder in (home, settings.runs):
        yield from _open_to_others([folder], f"chmod 700 {shlex.quote(str(folder))}")
    yield from _open_to_others(
        sorted(path for path in home.glob("*") if path.is_file()),
        f"chmod 600 {shlex.quote(str(home))}/FILE",
    )
    for place in (home / name for name in _PLACES):
        yield from _open_to_others(
            sorted(_files(place)), f"chmod -R go-rwx {shlex.quote(str(place))}"
        )


def _files(folder: Path) -> Iterator[Path]:
    return (Path(parent, name) for parent, _, names in os.walk(folder) for name in names)


def _open_to_others(paths: list[Path], do: str) -> Iterator[Finding]:
    for path in paths:
        with suppress(FileNotFoundError):
            if (mode := stat.S_IMODE(path.stat().st_mode)) & 0o077:
                yield Finding(str(path), f"mode {mode:04o} lets others use it", do)
                return


# The ledger.


def _restored(settings: Settings) -> Iterator[Finding]:
    """No restore is unfinished."""
    try:
        check_restored(settings.home)
    except LedgerRefusedError as error:
        yield _refused(settings.home, error)


def _ledger(settings: Settings) -> Iterator[Finding]:
    """There is one where releases stand; its schema is known, its chain whole, and neither anchor
    nor receipts have seen more.
    """
    file = ledger_file(settings)
    key = settings.home / KEY
    if file is not None and not file.exists():
        try:
            check_not_lost(
                settings, witness_of(settings, key.read_bytes()) if key.exists() else None
            )
        except LedgerRefusedError as error:
            yield _refused(file, error)
        return
    if not key.exists() or key.stat().st_size != KEY_BYTES:
        yield Finding(
            str(key),
            "is no secret key" if key.exists() else "the secret key of the ledger is gone",
            "restore it: `dpicl state restore`; nothing can be charged without it",
        )
    else:
        place = str(file or "DPICL_LEDGER")
        try:
            with looked_at(settings) as connection:
                yield from _intact(connection, key.read_bytes(), place, settings)
        except DpiclError as error:
            yield _refused(place, error)


def _intact(
    connection: Connection, key: bytes, place: str, settings: Settings
) -> Iterator[Finding]:
    schema = schema_of(connection)
    if schema is None:
        yield _note(place, "is empty so far", "nothing: the first release opens it")
        return
    if schema != SCHEMA:
        raise LedgerRefusedError(other_schema(connection))
    end = chain.read_end(connection, None)
    for anchor in (Anchor(settings.home / ANCHOR), newest(settings)):
        try:
            chain.check_seen(connection, anchor.read(), end)
        except LedgerRefusedError as error:
            yield Finding(
                str(anchor.path),
                str(error).partition("; ")[0],
                f"restore the newest ledger, or `dpicl ledger adopt`; {place} was read, "
                f"{named_by(settings)}",
            )
    fold = chain.verify(connection, key, end)
    yield from _witnessed(connection, witness_of(settings, key), fold)
    yield _note(place, f"schema {schema}, {end.sequence} records, chain intact")


def _witnessed(connection: Connection, witness: Witness, fold: Fold) -> Iterator[Finding]:
    """What is known outside the state home says no more than the ledger, and is there where
    something was spent.
    """
    path = str(witness.path or "witness")
    try:
        seen = witness.read()
        chain.check_witness(connection, seen, fold)
    except LedgerRefusedError as error:
        yield _refused(path, error)
        return
    if seen is not None:
        yield _note(
            path, f"the witness outside the state home has seen record {seen.head.sequence}"
        )
    elif witness.path is None:
        do = "set XDG_CONFIG_HOME or HOME to a folder outside of the state home"
        yield _note(
            path, "there is no folder of this user for a witness outside the state home", do
        )
    elif fold.has_spent:
        yield _note(
            path,
            "there is no witness outside the state home yet",
            "nothing: the next charge writes it",
        )


# What works, and what was left.


def _locks(settings: Settings) -> Iterator[Finding]:
    """Who works here now."""
    home = settings.home
    names = {
        home / RESTORE_LOCK: "the ledger is being restored",
        home / BEGIN_LOCK: "a release begins",
    }
    names |= {
        lock: f"run {lock.parent.name} is being worked on"
        for lock in sorted(settings.runs.glob(f"[!.]*/{LOCK}"))
    }
    names |= {
        lock: f"release {lock.parent.name} is being made"
        for lock in sorted(settings.private_home.glob(f"*/*/{RELEASE_LOCK}"))
    }
    names |= {
        lock: f"scheduled run {lock.name} is being worked on"
        for lock in sorted(home.glob("locks/*"))
    }
    for lock, sentence in names.items():
        if not is_free(lock):
            yield _note(lock, sentence)


def _leftovers(settings: Settings) -> Iterator[Finding]:
    """What killed processes have left; private files that nobody needs are a fault."""
    standing: set[str] = set()
    with suppress(DpiclError):  # told above
        standing = published(settings)
    now = time.time()
    left = orphans(settings, now, standing, rows_elsewhere=now - (settings.keep_days or 90) * DAY)
    for link in not_behind_links(left, settings):
        yield Finding(
            str(link.path), link.what, "`dpicl state clean` removes it", is_fault=link.is_private
        )
    drafts = (
        path for path in settings.home.glob("released/*/.*") if path.lstat().st_mtime < now - DAY
    )
    for path in drafts:  # nothing in released/ is removed by a command
        yield _note(path, "draft of a process that was killed", f"rm {shlex.quote(str(path))}")


# Around it.


def _versions(_settings: Settings) -> Iterator[Finding]:
    """Of this program and Python; installed packages are what it states."""
    ours = f"dpicl {dpicl.__version__}, ledger schema {SCHEMA}, Python {platform.python_version()}"
    yield _note("versions", ours)
    try:
        from packaging.requirements import Requirement
    except ModuleNotFoundError:
        return
    for requirement in map(Requirement, requires("dpicl") or ()):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            try:
                installed = version(requirement.name)
            except PackageNotFoundError:
                yield Finding(requirement.name, "is not installed", f"pip install '{requirement}'")
                continue
            if not requirement.specifier.contains(installed, prereleases=True):
                yield Finding(
                    requirement.name,
                    f"version {installed} was not tried",
                    f"pip install '{requirement}'",
                )


def _room(settings: Settings) -> Iterator[Finding]:
    """On the disks of state and runs."""
    for place in (settings.home, settings.runs):
        there = next(folder for folder in (place, *place.parents) if folder.exists())
        free = shutil.disk_usage(there).free
        if free < LEAST_FREE_BYTES:
            yield Finding(
                str(place),
                f"{free // 10**6} MB are free",
                f"free some space: {LEAST_FREE_BYTES // 10**6} MB at least are expected",
            )
        else:
            yield _note(place, f"{free / 10**9:.1f} GB are free")
