"""A run's stages one after another, without an orchestrator, in a process that may be killed at any file."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from prefect import Task

from dpicl.engine.artefacts import remove_private
from dpicl.engine.plan import make_plan
from dpicl.engine.run_folder import read_plan
from dpicl.engine.settings import Settings
from dpicl.engine.stages.fit_baselines import has_baselines
from dpicl.engine.stages.score import parts_to_score
from flows.wiring import collect_run, write_report
from tasks.aggregate import aggregate
from tasks.charge import charge
from tasks.consult import consult
from tasks.evaluate import evaluate
from tasks.fit_baselines import fit_baselines
from tasks.generate import generate
from tasks.ingest import ingest
from tasks.measure import measure
from tasks.probe import probe
from tasks.randomise import randomise
from tasks.reconstruct import reconstruct
from tasks.release import release
from tasks.score import score
from tasks.serialize import serialize
from tasks.split import split
from tasks.subsample import subsample
from tasks.validate import validate

with suppress(ImportError):
    import great_expectations  # noqa: F401 - seconds; here the forks below share it

End = Literal["finished", "torn", "placed"]
RELEASE: Mapping[str, tuple[Task[..., Any], ...]] = {
    "ldp_tabicl": (randomise, reconstruct),
    "gdp_tabicl": (subsample, aggregate),
    "mst_tabicl": (measure, reconstruct),
    "few_shot_generation": (charge, generate, release),
    "dp_icl": (charge, consult, release),
}


def steps(run: str) -> Iterator[tuple[Task[..., Any], tuple[Any, ...]]]:
    """Every stage of a run with its references, in the order of the flow."""
    units = read_plan(Path(run)).units
    yield probe, (run,)
    for dataset in dict.fromkeys(unit.dataset for unit in units.values()):
        yield from ((stage, (run, dataset)) for stage in (ingest, validate, split))
    for key, unit in units.items():
        units_or_one = {generate: (run, (key,))}
        yield from ((stage, units_or_one.get(stage, (run, key))) for stage in (*RELEASE[unit.method], serialize))
        yield from ((fit_baselines, (run, key)) for _ in range(has_baselines(unit, Settings.from_environment().declared(unit.dataset))))
        yield from ((score, (run, key, part)) for part in parts_to_score(run, key))
        yield evaluate, (run, key)
    yield from ((stage, (run,)) for stage in (collect_run, write_report))


def work(environment: Mapping[str, str], pipeline: str, changes: Mapping[str, Any], run_id: str, end: End) -> None:
    """Plan and do a run; unless `end` is `finished`, die at a new file.

    `torn`     at the second new file, with half of it written under its temporary name
    `placed`   at the first new file, right after it got its name

    Drafts of releases do not count: every try draws another one. `protocol` kills around those.
    """
    os.environ.update(environment)
    if end != "finished":
        _die(end)
    run = str(make_plan(pipeline, changes, run_id))
    for stage, references in steps(run):
        stage.fn(*references)
    remove_private(Path(run), Settings.from_environment())


def _die(end: End) -> None:
    link, new = os.link, []

    def deadly(source: os.PathLike[str], target: os.PathLike[str], **options: Any) -> None:
        if Path(target).exists() or Path(target).suffix == ".draft":
            link(source, target, **options)
            return
        new.append(target)
        if end == "torn" and len(new) == 2:
            os.truncate(source, Path(source).stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        link(source, target, **options)
        if end == "placed":
            os.kill(os.getpid(), signal.SIGKILL)

    os.link = deadly  # type: ignore[assignment]


def in_process(*arguments: Any) -> int:
    """`work` in a fresh fork of a process that has imported everything; gives its exit code."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process = context.Process(target=work, args=arguments)
    process.start()
    process.join(60)
    assert process.exitcode is not None, "the stages hang"
    return process.exitcode
