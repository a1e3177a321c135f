"""Writing demonstrations from private texts, by a local model on a worker: texts of some units side
by side.

Everything is charged before (`charge`); a token is stored before the next is drawn. Where there are
more workers than units, a unit's cells are written in several parts; each cell is a draft of its
own, so that a resumed run may have other parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpicl.engine.artefacts import (
    DRAFTS_APART,
    PUBLIC_TEXTS,
    read_drafts,
    write_text_drafts,
)
from dpicl.engine.files import write_json
from dpicl.engine.journal import FileJournal
from dpicl.engine.readers import writer_of
from dpicl.engine.run_folder import UnitFolder, open_unit, read_plan
from dpicl.engine.stage import stage, timed
from dpicl.engine.stages.charge import charged, progress_writer
from dpicl.methods import few_shot_generation, on_texts
from dpicl.methods.few_shot.draft import shares
from dpicl.methods.few_shot.plan import plans
from dpicl.pipeline import Cell


@stage("generate", "model worker", together=True)
def generate(run: str, unit_keys: Sequence[str], part: int = 0, parts: int = 1) -> str:
    """Write what is charged and missing, of units on one data set: of each unit's cells this
    part.
    """
    folders = [open_unit(run, key) for key in unit_keys]
    wanted = [_missing(folder, part, parts) for folder in folders]
    begun = [pair for pair in zip(folders, wanted, strict=True) if pair[1]]
    if begun:
        first = begun[0][0]
        with timed(first.run, first.unit.key, "generate", part=str(part)):
            _write(begun, shows=part == 0)
    for folder in folders if part == 0 else ():
        _write_public(folder)
    return f"{sum(map(len, wanted))} releases of {len(begun)} units now"


def _missing(folder: UnitFolder, part: int, parts: int) -> dict[Cell, str]:
    """Releases by cell that this part has to write: what is in which part follows from the plan,
    whatever is missing.
    """
    missing = charged(folder)
    if not missing:
        return {}
    drafted, mine = read_drafts(folder), shares(plans(folder.texts, folder.unit), parts)[part]
    return {cell: missing[cell] for cell in mine if cell in missing and cell.key not in drafted}


def _write(begun: Sequence[tuple[UnitFolder, dict[Cell, str]]], *, shows: bool) -> None:
    """Texts of some cells of some units; the first part of a unit shows how far they are."""
    folders = [folder for folder, _ in begun]
    first, jobs = folders[0], []
    for folder, missing in begun:
        journal = FileJournal(folder.settings, missing, folder.draws, folder.rows.state)
        jobs.append(few_shot_generation.job_of(folder.texts, folder.unit, journal, list(missing)))
    progress = progress_writer(folders, "writing demonstrations, token") if shows else None
    written = few_shot_generation.write(
        first.rows.train(),
        first.texts,
        writer_of(read_plan(first.run).writing_model, first.settings),
        jobs,
        progress=progress,
    )
    for folder, texts in zip(folders, written, strict=True):
        numbers = {
            cell: number
            for number, cell in enumerate(folder.method.releases(folder.texts, folder.unit))
        }
        for cell, demonstrations in texts.items():
            write_text_drafts(
                folder, {cell: demonstrations}, DRAFTS_APART.format(number=numbers[cell])
            )


def _write_public(folder: UnitFolder) -> None:
    """What the model writes from the instruction alone, where queries are asked."""
    path = folder.path / PUBLIC_TEXTS
    if not path.exists():
        writer = writer_of(read_plan(folder.run).writing_model, folder.settings)
        public = few_shot_generation.write_public(folder.texts, folder.unit, writer)
        encode = on_texts(folder.unit.method).encode
        write_json(path, {cell.key: encode(one) for cell, one in public.items()})
