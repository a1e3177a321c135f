"""Which stages release, by method, and the order in which one process does all of a unit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpicl.engine.batches import parts_of
from dpicl.engine.run_folder import read_plan
from dpicl.engine.stage import Stage
from dpicl.engine.stages.charge import charge
from dpicl.engine.stages.consult import consult
from dpicl.engine.stages.count import count
from dpicl.engine.stages.draw import derive_stage, draw_stage, prepare_stage
from dpicl.engine.stages.generate import generate
from dpicl.engine.stages.ingest import ingest
from dpicl.engine.stages.prepare import prepare_batches
from dpicl.engine.stages.release import release
from dpicl.engine.stages.split import split
from dpicl.engine.stages.validate import validate
from dpicl.methods import METHODS
from dpicl.methods.tabular_method import TabularMethod
from dpicl.methods.text_method import TextMethod

Step = tuple[Stage, tuple[Any, ...]]
"""A stage, and the references that it is called with."""


def release_stages(name: str) -> tuple[Stage, ...]:
    """The stages that release, of a method."""
    method = METHODS[name]
    if not isinstance(method, TabularMethod):
        return (release,)
    prepared = [] if method.prepare_stage is None else [prepare_stage(method.prepare_stage)]
    derived = [] if method.derive_stage is None else [derive_stage(method.derive_stage)]
    return (*prepared, draw_stage(method.draw_stage), *derived)


def reading_stage(name: str) -> tuple[Stage, bool] | None:
    """The stage in which a model reads private rows, and whether it takes several units together; None where none does."""
    method = METHODS[name]
    if not isinstance(method, TextMethod):
        return None
    return (generate, True) if method.votes_on_tokens else (consult, False)


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
    reading = reading_stage(unit.method)
    if parts or reading:
        yield charge, (run, unit_key)
    yield from ((count, (run, unit_key, part, parts)) for part in range(parts))
    if reading:
        stage, together = reading
        yield stage, (run, (unit_key,) if together else unit_key)
    yield from ((stage, (run, unit_key)) for stage in release_stages(unit.method))
