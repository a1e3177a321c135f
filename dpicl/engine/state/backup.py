"""A sealed backup of what budgets hang on: the ledger at one moment, the keys, and every release
that it knows as published.

    backup.json                        when it was taken, and the end of the chain
    keys/…                             of releases' names, of the chain, of certificates' signatures
    ledger.db                          unless it is kept on a server, whose own tools copy it
    benchmarks.json                    which data sets were declared public
    released/<account>/<release_id>…   artefacts with their receipts and certificates, as they are
                                       in that ledger

No private row, seed or snapshot is in it, and no run. What was charged and not published has
nothing to copy: a restored ledger gives its name up (`dpicl.accounting.ledger.anew`).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import dpicl
from dpicl.accounting.ledger.store import LedgerCopy
from dpicl.engine.benchmarks import REGISTRY
from dpicl.engine.open_ledger import ledger_file, open_ledger
from dpicl.engine.receipts import CERTIFICATE, DRAFT, SUFFIX, released_folder
from dpicl.engine.settings import Settings
from dpicl.engine.state.sealed import made_key, read_archive, read_key, write_archive
from dpicl.engine.state_home import KEY, LEDGER, check_restored
from dpicl.errors import DpiclError, LedgerRefusedError, ParameterError
from dpicl.files.durable import write_whole

MANIFEST = "backup.json"
KEYS, RELEASED = KEY.parent.name, "released"


@dataclass(frozen=True)
class Manifest:
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

    manifest: Manifest
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
    head, count = copy.end, len(copy.published)
    manifest = Manifest(
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
    settings: Settings, manifest: Manifest, copy: LedgerCopy, missing: list[str]
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


def ledger_place(settings: Settings) -> str:
    """Where this installation keeps its ledger, as a manifest says it."""
    return "server" if ledger_file(settings) is None else "file"
