"""Writing demonstrations from private texts: charged first, written by a local model on a worker, published once.

charge    in the flow's own process: every release of a unit, for all its tokens
generate  on a worker: all texts of some units side by side; a token is kept before the next is drawn
release   in the flow's own process: a unit's texts go to the ledger, and the first ones stand
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from time import monotonic

from dpicl.errors import RunError
from dpicl.methods import few_shot_generation
from dpicl.methods.common import check_supported, draws_for
from dpicl.methods.few_shot_voting import Job
from dpicl.pipeline import Cell
from tasks.artefacts import DRAFTS, PUBLIC_TEXTS, TEXTS, TO_WRITE, WRITING, read_split, read_texts, texts_bytes, write_texts
from tasks.doorway import doorway, timed, unit_stage
from tasks.files import PRIVATE_MODE, read_json, write_json
from tasks.journal import FileJournal, forget
from tasks.models import writer_of
from tasks.releases import UnitReleases, open_ledger, release_missing
from tasks.run_folder import UnitFolder, open_unit


@unit_stage("charge", TO_WRITE, private=True)
def charge(folder: UnitFolder) -> str:
    """Charge every release of the unit; which ones are to be written, and under which names."""
    check_supported(folder.declared, folder.unit)
    releases = UnitReleases.of(folder)
    with open_ledger(folder.settings) as ledger:
        missing = releases.reserve(ledger)
    names = {cell.key: releases.named[cell].release_id for cell in missing}
    write_json(folder.private / TO_WRITE, names, mode=PRIVATE_MODE)
    return f"{len(names)} releases to write"


def _generate(run: str, unit_keys: Sequence[str]) -> str:
    """Write what is charged and missing, of units on one data set."""
    folders = [open_unit(run, key) for key in unit_keys]
    open_folders = [folder for folder in folders if not (folder.private / DRAFTS).exists()]
    if open_folders:
        with timed(open_folders[0].run, open_folders[0].unit.key, "generate"):
            _write(open_folders)
    return f"{len(open_folders)} of {len(folders)} units now"


def _write(folders: Sequence[UnitFolder]) -> None:
    first = folders[0]
    contract, writer = first.texts, writer_of(first.run, first.settings)
    jobs = [_job(folder) for folder in folders]
    train = read_split(first).train
    written = few_shot_generation.write(train, contract, writer, jobs, progress=_teller(folders))
    for folder, texts in zip(folders, written, strict=True):
        write_texts(folder.path / PUBLIC_TEXTS, few_shot_generation.write_public(contract, folder.unit, writer))
        write_texts(folder.private / DRAFTS, texts, mode=PRIVATE_MODE)


def _job(folder: UnitFolder) -> Job:
    """What is charged and not published by anybody else meanwhile."""
    names = _charged(folder)
    with open_ledger(folder.settings) as ledger:
        missing = {cell: name for cell, name in names.items() if ledger.published(name) is None}
    journal = FileJournal(folder.settings, missing, draws_for(folder.texts, folder.unit.seed))
    return few_shot_generation.job_of(folder.texts, folder.unit, journal, list(missing))


def _charged(folder: UnitFolder) -> dict[Cell, str]:
    """The releases that were charged to be written.

    Raises:
        RunError: none was, or what would be written here is not what was charged: then no row may be read.
    """
    path = folder.private / TO_WRITE
    if not path.exists():
        raise RunError(f"{folder.unit.key}: its releases are not charged; nothing is written before they are")
    charged, here = read_json(path), {cell: release.release_id for cell, release in UnitReleases.of(folder).named.items()}
    found = {cell: name for cell, name in here.items() if charged.get(cell.key) == name}
    if len(found) < len(charged):
        raise RunError(
            f"{folder.unit.key}: {len(charged) - len(found)} of {len(charged)} releases were charged under another contract, model or data; "
            f"expected those of the charge (on a worker: the same DPICL_CONTRACTS), or a new run"
        )
    return found


def _teller(folders: Sequence[UnitFolder]) -> Callable[[int, int], None]:
    """Tell once a second how many tokens there are of how many."""
    told = [0.0]

    def tell(token: int, most: int) -> None:
        if monotonic() - told[0] > 1 or token == most:
            told[0] = monotonic()
            for folder in folders:
                write_json(folder.run / WRITING / f"{folder.unit.key}.json", {"tokens": token, "of": most}, replace=True)

    return tell


@unit_stage("release", TEXTS)
def release_texts(folder: UnitFolder) -> str:
    """Publish what was written, unless something is published already, and read back what stands."""
    charged = _charged(folder)

    def drafts(cells: list[Cell]) -> Mapping[Cell, bytes]:
        texts = read_texts(folder.private / DRAFTS, cells)
        if len(texts) < len(cells):
            raise RunError(f"{folder.unit.key}: {len(cells) - len(texts)} releases are charged and not written; resume the run")
        return {cell: texts_bytes(demonstrations) for cell, demonstrations in texts.items()}

    artefacts = release_missing(folder, drafts)
    for name in charged.values():
        forget(folder.settings, name)
    write_json(folder.path / TEXTS, {cell.key: json.loads(content) for cell, content in artefacts.items()})
    return f"demonstrations in {len(artefacts)} cells"


generate = doorway("generate", "generate {unit_keys[0]}", _generate)
