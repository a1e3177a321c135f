"""Writing demonstrations from private texts, by a local model on a worker: all texts of some units side by side.

Everything is charged before (`charge`); a token is kept before the next is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpicl.engine.artefacts import DRAFTS, PUBLIC_TEXTS, read_split, write_texts
from dpicl.engine.files import PRIVATE_MODE
from dpicl.engine.journal import FileJournal
from dpicl.engine.models import writer_of
from dpicl.engine.run_folder import UnitFolder, open_unit
from dpicl.engine.stage import stage, timed
from dpicl.engine.stages.charge import begin_drawing, still_missing, teller
from dpicl.methods import few_shot_generation
from dpicl.methods.common import draws_for
from dpicl.methods.few_shot.voting import Job


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
    written = few_shot_generation.write(train, contract, writer, jobs, progress=teller(folders, "writing demonstrations, token"))
    for folder, texts in zip(folders, written, strict=True):
        write_texts(folder, folder.path / PUBLIC_TEXTS, few_shot_generation.write_public(contract, folder.unit, writer))
        write_texts(folder, folder.private / DRAFTS, texts, mode=PRIVATE_MODE)


def _job(folder: UnitFolder) -> Job:
    missing = still_missing(folder)
    journal = FileJournal(folder.settings, missing, draws_for(folder.texts, folder.unit.seed), begin_drawing(folder, missing))
    return few_shot_generation.job_of(folder.texts, folder.unit, journal, list(missing))


generate = stage("generate", "generate {unit_keys[0]}", _generate)
