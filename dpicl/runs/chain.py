"""The chain of a run: the only place that says which stage follows which, for every executor.

    ingest → validate → split                               each data set
    → charge → randomise → release → reconstruct            each unit, by LDP-TabICL
            or subsample → aggregate → release              by GDP-TabICL
            or consult, or generate → release               of texts
    → serialize → score → evaluate                          each unit

Other methods have other stages in the place of these: each names its own (`draw_stage`,
`derive_stage`). A function here submits stages, and yields where it has to wait for all that it has
submitted: `execute` collects them, and does them itself, in a pool of processes, or as the tasks of
a flow, which are those of `tasks/stages.py`. Data sets, and then their units, go on beside each
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from dpicl.methods import METHODS
from dpicl.methods.tabular_method import TabularMethod
from dpicl.methods.text_method import TextMethod
from dpicl.release.rows import counted_batches
from dpicl.release.table_files import PARTS
from dpicl.runs.draw import (
    advance,
    charge,
    consult,
    count,
    derive_stage,
    draw_stage,
    generate,
    prepare_stage,
    release,
)
from dpicl.runs.evaluate import evaluate, fit_baselines, parts_to_score, score, serialize
from dpicl.runs.prepare import ingest, prepare_batches, receive, split, validate
from dpicl.runs.probe import probe
from dpicl.runs.run_folder import open_unit, read_plan, rows_of
from dpicl.runs.stage import Stage

Submit = Callable[..., object]
"""Called with a stage and its references: have it done."""


def chain(submit: Submit, run: str, unit_key: str, *, parts: int = PARTS) -> Iterator[object]:
    """All that is done for a unit once its data set's rows are ready."""
    yield from released(submit, run, unit_key, parts=parts)
    yield from answered(submit, run, unit_key)


def rows_ready(submit: Submit, run: str, dataset: str, *, parts: int = PARTS) -> Iterator[object]:
    """From a data set's files to rows that mechanisms may read, or from clients' reports to counts
    that stand for releases; `parts` are pieces of work of a table in batches.
    """
    if read_plan(Path(run)).pipeline.reports is not None:
        yield submit(receive, run, dataset)
        yield submit(split, run, dataset)
        return
    yield submit(ingest, run, dataset)
    if rows_of(run, dataset).batches is not None:
        yield [submit(prepare_batches, run, dataset, part, parts) for part in range(parts)]
    yield submit(validate, run, dataset)
    yield submit(split, run, dataset)


def published(submit: Submit, run: str, unit_key: str, *, parts: int = PARTS) -> Iterator[object]:
    """Charge a unit, draw and publish; of a horizon, all its periods that are over and missing. Of
    reports nothing: they were received.
    """
    plan = read_plan(Path(run))
    unit = plan.units[unit_key]
    if plan.pipeline.reports is not None:
        return
    method = METHODS[unit.method]
    # those of texts are charged as others are, and written period by period
    if isinstance(method, TabularMethod) and method.is_series(open_unit(run, unit_key).declared):
        yield submit(advance, run, unit_key)
        return
    yield submit(charge, run, unit_key)
    if counted_batches(rows_of(run, unit.dataset), unit.method) is not None:
        yield [submit(count, run, unit_key, part, parts) for part in range(parts)]
    for stage in drawing_stages(unit.method):
        yield submit(stage, run, (unit_key,) if stage.together else unit_key)
    yield submit(release, run, unit_key)


def released(submit: Submit, run: str, unit_key: str, *, parts: int = PARTS) -> Iterator[object]:
    """Charge a unit, draw, publish, and derive rows."""
    yield from published(submit, run, unit_key, parts=parts)
    for stage in deriving_stages(read_plan(Path(run)).units[unit_key].method):
        yield submit(stage, run, unit_key)


def answered(submit: Submit, run: str, unit_key: str) -> Iterator[object]:
    """From a unit's releases to its results."""
    yield submit(serialize, run, unit_key)
    folder = open_unit(run, unit_key)
    if folder.unit.baselines and folder.method.fits_baselines(folder.declared):
        submit(fit_baselines, run, unit_key)
    yield [submit(score, run, unit_key, part) for part in parts_to_score(run, unit_key)]
    yield submit(evaluate, run, unit_key)


def drawing_stages(name: str) -> tuple[Stage, ...]:
    """The stages that read private rows, of a method: what they draft is published after them."""
    method = METHODS[name]
    if isinstance(method, TextMethod):
        return (generate if method.votes_on_tokens else consult,)
    assert isinstance(method, TabularMethod)
    prepared = () if method.prepare_stage is None else (prepare_stage(method.prepare_stage),)
    return (*prepared, draw_stage(method.draw_stage))


def deriving_stages(name: str) -> tuple[Stage, ...]:
    """The stages that make rows of what was published, of a method."""
    method = METHODS[name]
    if isinstance(method, TabularMethod) and method.derive_stage is not None:
        return (derive_stage(method.derive_stage),)
    return ()


def stages() -> tuple[Stage, ...]:
    """Every stage up to a unit's results, in the order of a run: those that draw, of all
    methods.
    """
    drawing = [stage for name in METHODS for stage in drawing_stages(name)]
    deriving = [stage for name in METHODS for stage in deriving_stages(name)]
    before = (probe, receive, ingest, prepare_batches, validate, split, advance, charge, count)
    after = (serialize, score, fit_baselines, evaluate)
    return tuple(dict.fromkeys((*before, *drawing, release, *deriving, *after)))


def stage_named(name: str) -> Stage:
    """A stage as workers are told of it."""
    return _by_name()[name]


@cache
def _by_name() -> dict[str, Stage]:
    return {stage.name: stage for stage in stages()}
