"""Retention: runs that are old enough, and whatever killed processes have left, are removed;
budgets and releases never.

Never among it: the ledger, its anchor, keys, `released/`, models, downloads, and the journal of a
release that is charged and not published; nor what lies behind a link, but for `private` and the
folder of runs, which may be links themselves.

A run that is worked on holds the lock in its folder, a release made by itself the one in its
private folder. Whatever is removed is renamed under these locks, and looked at again there: safe
beside anything that works here, safe twice at once, and safe if it is killed: what it had renamed
goes the next time.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from secrets import token_hex

from dpicl.contract.periods import was_over
from dpicl.ground.errors import LedgerRefusedError
from dpicl.ground.files import is_free, locked_if_free
from dpicl.ground.shutdown import GONE
from dpicl.home.accounts import ledger_file, looked_at
from dpicl.home.sealed import is_over
from dpicl.home.settings import Settings, check_restored
from dpicl.ledger import budget
from dpicl.ledger.chain import folded_up_to, read_end
from dpicl.ledger.database import SCHEMA, schema_of
from dpicl.ledger.fold import Fold
from dpicl.release.horizon import FOLDER
from dpicl.release.one_release import RELEASE_LOCK
from dpicl.runs.run_folder import LOCK, PLAN
from dpicl.runs.stage import VERDICTS

HOUR = 3600.0
DAY = 86_400.0
DRAFT_SECONDS = HOUR
ROWS_SECONDS = DAY
"""Age of a draft, and of private rows that no process works on, after which nobody goes on with
them.
"""
_DRAFT_OF_HOME = re.compile(
    r"\.(ledger\.db(\.restoring)?|restoring|benchmarks\.json)\.[0-9a-f]{12}|\.ledger\.anchor\.json\.[a-z0-9_]{8}"
)
_DRAFT_OF_RUNS = re.compile(r"\.dry-run-[a-z0-9_]{8}")
_DRAFT_OF_JOURNALS = re.compile(r"\.[0-9a-f]{64}\.[0-9]+")
"""What we write there and nobody else does: the home may be a folder that its owner keeps other
files in.
"""
_NO_RUNS = ("journals", "drawn-from")
"""Folders of `private/` that hold no folders of runs."""


@dataclass(frozen=True)
class Leftover:
    """A file or folder that may go, if the locks are free and nothing in it is newer than `before`.

    How large private files are is told nowhere: it depends on how many rows there are.
    """

    path: Path
    what: str
    is_private: bool
    locks: tuple[Path, ...] = ()
    before: float | None = None
    is_run: bool = False

    @property
    def size(self) -> int | None:
        """Bytes of its files; None of private ones."""
        return None if self.is_private else size_of(self.path)

    def remove(self) -> bool:
        """Whether it went: not where another process works with it, changed it meanwhile, or was
        faster.
        """
        with ExitStack() as held:
            for lock in self.locks:
                if lock.parent.is_dir() and not held.enter_context(locked_if_free(lock)):
                    return False
            if self.before is not None and not is_older(self.path, self.before):
                return False
            gone = self.path
            try:
                if not gone.is_dir() or gone.is_symlink():
                    gone.unlink()
                elif not gone.name.startswith(GONE):
                    gone = gone.with_name(GONE + token_hex(6))
                    self.path.rename(gone)  # at once, so that nobody finds a part of it
            except FileNotFoundError:
                return False
        shutil.rmtree(gone, ignore_errors=True)
        return True


@dataclass(frozen=True)
class Removed:
    """What went, or would go; bytes are None of private files."""

    path: Path
    what: str
    size: int | None
    is_run: bool


def clean(settings: Settings, keep_days: int | None, *, dry_run: bool = False) -> Iterator[Removed]:
    """Remove what may go, one after another; with `dry_run` only say so.

    Args:
        keep_days: how long runs are kept after their last change; None for ever.

    Raises:
        LedgerRefusedError: a move or a restore is not finished.
    """
    check_restored(settings.home)
    now = time.time()
    before = -math.inf if keep_days is None else now - keep_days * DAY
    old = () if keep_days is None else expired(settings, before)
    seen: set[Path] = set()
    for leftover in (
        *not_behind_links(
            orphans(settings, now, published(settings), rows_elsewhere=before), settings
        ),
        *_ended(settings, before),
        *not_behind_links(old, settings),
    ):
        if leftover.path in seen:
            continue
        seen.add(leftover.path)
        removed = Removed(leftover.path, leftover.what, leftover.size, leftover.is_run)
        if dry_run or leftover.remove():
            yield removed


def published(settings: Settings) -> set[str]:
    """Names of the releases that are published by the ledger; none where there is no ledger."""
    charges = _fold(settings).charges.values()
    return {charge.release_id for charge in charges if charge.artefact_sha256 is not None}


def _fold(settings: Settings) -> Fold:
    """What the ledger says, as it is and unchecked; nothing where there is none of this schema."""
    file = ledger_file(settings)
    if file is None or file.exists():
        with looked_at(settings) as connection:
            if schema_of(connection) == SCHEMA:
                return folded_up_to(connection, None, read_end(connection, None))
    return Fold()


def _ended(settings: Settings, before: float) -> Iterator[Leftover]:
    """Private counts of horizons that go no further: the ledger came back since, or the last period
    was over before that time.
    """
    folders = list((settings.home / FOLDER).glob("[0-9a-f]*"))
    fold = _fold(settings) if folders else Fold()
    for folder in folders:
        if (horizon := fold.charges.get(folder.name)) is None:
            continue
        if math.isfinite(before) and was_over(
            json.loads(horizon.parameters)["last"], datetime.fromtimestamp(before, UTC)
        ):
            yield Leftover(folder, "counts of a horizon that is over", is_private=True)
            continue
        try:
            budget.check_kept(fold, horizon)
        except LedgerRefusedError:
            yield Leftover(folder, "counts of a horizon that cannot go on", is_private=True)


def orphans(
    settings: Settings, now: float, published: Collection[str], *, rows_elsewhere: float
) -> Iterator[Leftover]:
    """What processes have left that were killed.

    Args:
        now: seconds since 1970.
        published: names of releases that stand, whose journals serve nothing.
        rows_elsewhere: before when private rows were last changed of a run that is in no folder
            here, and may be in another one.
    """
    home = settings.home
    private = settings.private_home
    for path in chain(settings.runs.glob(f"{GONE}*"), private.glob(f"*/{GONE}*")):
        yield Leftover(path, "was being removed", is_private=path.is_relative_to(private))
    drafts = (
        (home, _DRAFT_OF_HOME, False),
        (settings.runs, _DRAFT_OF_RUNS, False),
        (private / "journals", _DRAFT_OF_JOURNALS, True),
    )
    for folder, draft, is_private in drafts:
        for path in folder.glob(".*"):
            if draft.fullmatch(path.name) and is_older(path, now - DRAFT_SECONDS):
                yield Leftover(
                    path,
                    "draft of a process that was killed",
                    is_private,
                    before=now - DRAFT_SECONDS,
                )
    yield from _rows(settings, now, rows_elsewhere)
    for path in private.glob("journals/[!.]*"):
        if path.name in published and not (path / "slots").exists():
            yield Leftover(path, "journal of a release that is published", is_private=True)
    has_key = (home / "keys" / "snapshots.key").exists()
    for path in chain(
        private.glob("journals/*/*/votes/*.snapshot"), private.glob("votes/*/*.snapshot")
    ):
        if not has_key or is_over(path, now):
            what = "snapshot whose lifetime is over" if has_key else "snapshot without its key"
            yield Leftover(path, what, is_private=True, locks=(path.parent / ".lock",))


def _rows(settings: Settings, now: float, elsewhere: float) -> Iterator[Leftover]:
    """Private rows that no process works on; a run that goes on reads them again."""
    for folder in settings.private_home.glob("*/[!.]*"):
        if folder.parent.name in _NO_RUNS or not folder.is_dir():
            continue
        run = settings.runs / folder.name
        own = folder / RELEASE_LOCK
        if folder.parent.name == VERDICTS:
            # else they go with the run
            if not (run / PLAN).exists() and is_older(folder, elsewhere):
                yield Leftover(
                    folder, "verdicts of a run that is gone", is_private=True, before=elsewhere
                )
            continue
        locks = (
            *((run / LOCK,) if (run / PLAN).exists() else ()),
            *((own,) if own.exists() else ()),
        )
        before = now - (DRAFT_SECONDS if own.exists() else ROWS_SECONDS) if locks else elsewhere
        if is_older(folder, before) and all(map(is_free, locks)):
            yield Leftover(
                folder,
                "private rows that no process works on",
                is_private=True,
                locks=locks,
                before=before,
            )


def expired(settings: Settings, before: float) -> Iterator[Leftover]:
    """Runs that nothing was written to since, whatever state they are in, with what they keep in
    private; and marks of scheduled runs.
    """
    for folder in sorted(settings.runs.glob("[!.]*/")):
        places = list(settings.private_home.glob(f"*/{folder.name}"))
        locks = (
            folder / LOCK,
            *(place / RELEASE_LOCK for place in places if (place / RELEASE_LOCK).exists()),
        )
        if (
            (folder / PLAN).is_file()
            and all(is_older(place, before) for place in (folder, *places))
            and all(map(is_free, locks))
        ):
            for place in places:
                yield Leftover(
                    place,
                    "private files of an old run",
                    is_private=True,
                    locks=locks,
                    before=before,
                )
            done = (
                ""
                if (folder / "manifest.json").exists()
                else ", not finished: it can no longer be resumed"
            )
            what = (
                f"run, last changed "
                f"{datetime.fromtimestamp(last_change(folder), UTC):%Y-%m-%d}{done}"
            )
            yield Leftover(folder, what, is_private=False, locks=locks, before=before, is_run=True)
    for folder, what in (
        (settings.home / "locks", "mark of an old scheduled run"),
        (settings.home / "dask", "scratch folder"),
    ):
        for path in folder.glob("*"):
            if is_older(path, before) and (path.is_dir() or is_free(path)):
                yield Leftover(
                    path,
                    what,
                    is_private=False,
                    locks=(path,) if path.is_file() else (),
                    before=before,
                )


def not_behind_links(found: Iterable[Leftover], settings: Settings) -> Iterator[Leftover]:
    """Those to which no folder on the way is a link: what lies behind one may be somebody's scratch
    disk.
    """
    for leftover in found:
        path = leftover.path
        places = (settings.runs, settings.private_home, settings.home)
        root = next(place for place in places if path.is_relative_to(place))
        between = (
            parent for parent in path.parents if parent != root and parent.is_relative_to(root)
        )
        if not any(folder.is_symlink() for folder in between):
            yield leftover


def is_older(path: Path, before: float) -> bool:
    """Whether a file, or everything in a folder but its locks, was last changed before a time; so
    is what is gone.
    """
    return all(changed < before for changed in _changes(path))


def last_change(path: Path) -> float:
    """When a file, or anything in a folder but its locks, was last changed, in seconds since 1970;
    0 where it is gone.
    """
    return max(_changes(path), default=0.0)


def _changes(path: Path) -> Iterator[float]:
    is_empty = True
    for parent, folders, files in os.walk(path):
        for name in (*files, *folders):
            if name not in (LOCK, RELEASE_LOCK):
                with suppress(OSError):  # gone meanwhile
                    yield os.lstat(os.path.join(parent, name)).st_mtime  # noqa: PTH118 - of thousands
                    is_empty = False
    if is_empty:
        with suppress(OSError):
            yield path.lstat().st_mtime


def size_of(path: Path) -> int:
    """Bytes of all files below a path; none of what it links to."""
    sizes = [0]
    for below in (path, *(() if path.is_symlink() else path.rglob("*"))):
        with suppress(OSError):
            if below.is_file() and not below.is_symlink():
                sizes.append(below.lstat().st_size)
    return sum(sizes)
