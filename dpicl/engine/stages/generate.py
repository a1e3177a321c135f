"""Writing demonstrations from private texts, by a local model on a worker: all texts of some units side by side.

Everything is charged before (`charge`); a token is stored before the next is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpicl.engine.artefacts import DRAFTS, PUBLIC_TEXTS, read_split, write_text_drafts
from dpicl.engine.files import write_json
from dpicl.engine.journal import FileJournal
from dpicl.engine.models import writer_of
from dpicl.engine.run_folder import open_unit, read_plan
from dpicl.engine.stage import stage, timed
from dpicl.engine.stages.charge import charged, progress_writer, rows_state
from dpicl.methods import few_shot_generation, on_texts


@stage("generate", "generate {unit_keys[0]}", "model worker", together=True)
def generate(run: str, unit_keys: Sequence[str]) -> str:
    """Write what is charged and missing, of units on one data set."""
    folders = [folder for folder in (open_unit(run, key) for key in unit_keys) if not (folder.private / DRAFTS).exists()]
    if folders:
        first = folders[0]
        with timed(first.run, first.unit.key, "generate"):
            contract, writer = first.texts, writer_of(first.run, first.settings)
            jobs = []
            for folder in folders:
                missing = charged(folder)
                journal = FileJournal(folder.settings, missing, folder.draws, rows_state(folder))
                jobs.append(few_shot_generation.job_of(folder.texts, folder.unit, journal, list(missing)))
            train, progress = read_split(first).train, progress_writer(folders, "writing demonstrations, token")
            written = few_shot_generation.write(train, contract, writer, jobs, progress=progress)
            for folder, texts in zip(folders, written, strict=True):
                if read_plan(folder.run).is_evaluated:
                    public = few_shot_generation.write_public(contract, folder.unit, writer)
                    encode = on_texts(folder.unit.method).encode
                    write_json(folder.path / PUBLIC_TEXTS, {cell.key: encode(one) for cell, one in public.items()})
                write_text_drafts(folder, texts)
    return f"{len(folders)} of {len(unit_keys)} units now"
