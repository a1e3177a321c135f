"""Which stages release, by method, and the order in which one process does all of a unit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpicl.engine.batches import parts_of
from dpicl.engine.run_folder import read_plan
from dpicl.engine.stage import Stage
from dpicl.engine.stages.aggregate import aggregate
from dpicl.engine.stages.charge import charge
from dpicl.engine.stages.consult import consult, release_answers
from dpicl.engine.stages.count import count
from dpicl.engine.stages.generate import generate, release_texts
from dpicl.engine.stages.ingest import ingest
from dpicl.engine.stages.measure import measure
from dpicl.engine.stages.prepare import prepare_batches
from dpicl.engine.stages.randomise import randomise
from dpicl.engine.stages.reconstruct import reconstruct
from dpicl.engine.stages.split import split
from dpicl.engine.stages.subsample import subsample
from dpicl.engine.stages.validate import validate
from dpicl.methods import METHODS
from dpicl.pipeline import wired

Step = tuple[Stage, tuple[Any, ...]]
"""A stage, and the references that it is called with."""

RELEASE: dict[str, tuple[Stage, ...]] = {
    "ldp_tabicl": (randomise, reconstruct),
    "gdp_tabicl": (subsample, aggregate),
    "mst_tabicl": (measure, reconstruct),
    "few_shot_generation": (release_texts,),
    "dp_icl": (release_answers,),
}
"""The stages that release, by method."""
READING: dict[str, tuple[Stage, bool]] = {"few_shot_generation": (generate, True), "dp_icl": (consult, False)}
"""The stage in which a model reads private rows, of methods in which one does, and whether it takes several units together."""
for _name, _method in METHODS.items():
    wired(RELEASE, _name, __name__)
    if _method.MODEL_READS_ROWS:
        wired(READING, _name, __name__)


def rows_ready(run: str, dataset: str) -> Iterator[Step]:
    """From a data set's files to rows that mechanisms may read."""
    yield ingest, (run, dataset)
    parts = parts_of(run, dataset)
    yield from ((prepare_batches, (run, dataset, part, parts)) for part in range(parts))
    yield from ((stage, (run, dataset)) for stage in (validate, split))


def released(run: str, unit_key: str) -> Iterator[Step]:
    """Charge a unit, draw and publish."""
    unit = read_plan(Path(run)).units[unit_key]
    parts = parts_of(run, unit.dataset)
    if parts or unit.method in READING:
        yield charge, (run, unit_key)
    yield from ((count, (run, unit_key, part, parts)) for part in range(parts))
    if unit.method in READING:
        stage, together = READING[unit.method]
        yield stage, (run, (unit_key,) if together else unit_key)
    yield from ((stage, (run, unit_key)) for stage in wired(RELEASE, unit.method, __name__))
