"""Budget state of another folder comes into the state home: whole, once, and never spent from in
both.

    copy     under SQLite's exclusive lock, into a state home that is marked: nothing is spent there
             before the end
    close    the old ledger, still locked, gets a form that no program knows: nothing is spent there
             from now on
    carry    keys, releases and all else; each stands whole in its new place before the old one goes
    open     the ledger gets its name in the state home, and the mark goes

Killed anywhere, the same command goes on. Runs stay where they are.
"""

from __future__ import annotations

import errno
import filecmp
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from dpicl.engine.files import PRIVATE_MODE, publish, write_text
from dpicl.engine.settings import Settings
from dpicl.engine.state_home import LEDGER, MOVE_LOCK, MOVED, MOVING, holds_ledger
from dpicl.errors import LedgerError, LedgerRefusedError
from dpicl.files.durable import sync_folder
from dpicl.files.locks import locked

STATE = ("keys", "released", "private", "series", "ledger.anchor.json")
"""What belongs to a ledger, besides its database."""
MADE_AGAIN = ("models", "cache")
"""What could be made or fetched anew: it is carried where there is none yet."""
_COPY, _CLOSED, _WAIT_SECONDS = f"{LEDGER}.{MOVING}", "moved", 10.0


def move_home(origin: Path, settings: Settings) -> None:
    """Move the budget state of `origin` into the state home, or finish doing so.

    Raises:
        LedgerRefusedError: there is none, another move is not finished, or the state home has a
            ledger.
        LedgerError: the ledger is in use, or is none.
    """
    origin, home = origin.resolve(), settings.make_home()
    with locked(home / MOVE_LOCK):
        if (
            not (home / MOVING).exists()
            and (origin / MOVED).exists()
            and (origin / MOVED).read_text("utf-8") == str(home)
        ):
            return  # it was moved before
        _begin(origin, home)
        if not (origin / MOVED).exists():
            _take_ledger(origin / LEDGER, home / _COPY)
            _write(origin / MOVED, str(home))
        for name in STATE:
            _carry(origin / name, home / name)
        for name in MADE_AGAIN:
            if not _has_files(home / name) or _covers(home / name, origin / name):
                _carry(origin / name, home / name)
        _open(origin, home)


def _begin(origin: Path, home: Path) -> None:
    """Mark the state home, unless a try before this one did."""
    if (home / MOVING).exists():
        if (home / MOVING).read_text("utf-8") != str(origin):
            raise LedgerRefusedError(
                f"{home}: a ledger is being moved here from {(home / MOVING).read_text('utf-8')}; "
                f"expected that first"
            )
        return
    if origin == home or not holds_ledger(origin):
        raise LedgerRefusedError(
            f"{origin}: no ledger to move; expected a folder with {LEDGER} and keys, other than "
            f"{home}"
        )
    _write(home / MOVING, str(origin))
    present = [name for name in (LEDGER, *STATE) if _has_files(home / name)]
    if present:  # checked under the mark, else another process may begin one meanwhile
        (home / MOVING).unlink()
        raise LedgerRefusedError(
            f"{home}: has {present[0]} of a ledger already; expected a state home without one, or "
            f"DPICL_HOME set to one"
        )


def _has_files(path: Path) -> bool:
    return path.is_file() or any(not one.is_dir() for one in path.rglob("*"))


def _take_ledger(source: Path, copy: Path) -> None:
    """Copy a database that no other process has open, and close it permanently; a ledger kept
    elsewhere has none here.
    """
    if not source.exists():
        return
    address = f"file:{quote(str(source))}?mode=rw"
    try:
        with closing(
            sqlite3.connect(address, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
        ) as connection:
            connection.execute(
                "PRAGMA journal_mode=DELETE"
            ).close()  # refused while anybody has it open
            connection.execute("PRAGMA locking_mode=EXCLUSIVE").close()
            connection.execute("BEGIN EXCLUSIVE").close()
            connection.execute(
                "CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL)"
            ).close()
            if connection.execute("SELECT version_num FROM alembic_version").fetchall() == [
                (_CLOSED,)
            ]:
                return  # by a try before this one, which had made the copy
            content = connection.serialize()
            publish(copy, lambda file: file.write(content), mode=PRIVATE_MODE, replace=True)
            connection.execute("DELETE FROM alembic_version").close()
            connection.execute("INSERT INTO alembic_version VALUES (?)", (_CLOSED,)).close()
            connection.execute("COMMIT").close()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise LedgerError(f"{source}: {error}") from None
        raise LedgerError(
            f"{source}: is in use; expected the runs that use it to have ended"
        ) from None
    except sqlite3.DatabaseError as error:
        raise LedgerError(f"{source}: {error}; expected a ledger") from None


def _carry(source: Path, target: Path) -> None:
    """Give a file or folder its new place; where that is on another disk, by a copy that appears
    whole.
    """
    if not source.exists():
        return
    if _has_files(target):
        if not _covers(target, source):
            raise LedgerRefusedError(
                f"{target}: is not what {source} holds; expected one of them to be put aside"
            )
        _remove(source)
        return
    _remove(target)  # folders without files
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(source, draft := target.with_name(f".{target.name}.{MOVING}"))
        os.rename(draft, target)
        sync_folder(target.parent)
        _remove(source)
    for folder in (target.parent, source.parent):
        sync_folder(folder)


def _covers(target: Path, source: Path) -> bool:
    """Whether all files below `source` are below `target` too: of a carried folder some may be gone
    already.
    """
    pairs = (
        [(target, source)]
        if source.is_file()
        else [(target / path.relative_to(source), path) for path in source.rglob("*")]
    )
    return all(
        two.is_dir() or (one.is_file() and filecmp.cmp(one, two, shallow=False))
        for one, two in pairs
    )


def _copy(source: Path, draft: Path) -> None:
    _remove(draft)
    if source.is_dir():
        shutil.copytree(source, draft, symlinks=True)
    else:
        shutil.copy2(source, draft)
    for path in (draft, *draft.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        elif path.is_dir():
            sync_folder(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _open(origin: Path, home: Path) -> None:
    """The last steps: where the old database was stands a sentence, at which every program
    stops.
    """
    if (home / _COPY).exists():
        if (home / LEDGER).exists():
            raise LedgerRefusedError(
                f"{home / LEDGER}: somebody made a ledger meanwhile; expected it to be put aside"
            )
        os.rename(home / _COPY, home / LEDGER)
        sync_folder(home)
    _write(origin / LEDGER, f"The ledger was moved to {home} by `dpicl ledger move`.\n")
    logs = [origin / f"{LEDGER}-{log}" for log in ("wal", "shm", "journal")]
    drafts = [
        *home.glob(f".*{MOVING}*"),
        *origin.glob(f".{MOVED}.*"),
        *origin.glob(f".{LEDGER}.*"),
    ]  # of killed tries
    for path in (*logs, *drafts):
        _remove(path)
    (home / MOVING).unlink()
    sync_folder(home)


def _write(path: Path, text: str) -> None:
    write_text(path, text, mode=PRIVATE_MODE, replace=True)
