"""How the stages of a run follow each other, for every flow alike.

The flow's own process prepares tables and makes the releases, one after another; the
cluster scores and fits. A unit whose worker dies is handed in again; a unit that fails
leaves the others alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from distributed.scheduler import KilledWorker
from prefect import Task
from prefect.context import FlowRunContext
from prefect.futures import PrefectFuture

from dpicl.errors import DpiclError, RunError
from flows.gpus import on_gpus
from flows.report import build_report
from tasks.aggregate import aggregate
from tasks.artefacts import RESULTS, remove_private
from tasks.collect import collect
from tasks.doorway import StageFailed, doorway
from tasks.evaluate import evaluate
from tasks.fit_baselines import fit_baselines
from tasks.ingest import ingest
from tasks.publish import show_checks, show_release, show_results
from tasks.randomise import randomise
from tasks.reconstruct import reconstruct
from tasks.run_folder import read_plan
from tasks.score import PARTS, score
from tasks.serialize import serialize
from tasks.settings import Settings
from tasks.split import split
from tasks.subsample import subsample
from tasks.validate import validate

log = logging.getLogger("dpicl.flows")
HAND_IN_AGAIN = 3
Job = tuple[PrefectFuture[Any], Callable[[], PrefectFuture[Any]]]

collect_run = doorway("collect", "collect", collect)
write_report = doorway("report", "report", lambda run: str(build_report(Path(run))[0].name))


def release_ldp(run: str, unit: str) -> None:
    """LDP-TabICL: randomise at the client, reconstruct."""
    randomise(run, unit)
    reconstruct(run, unit)


def release_gdp(run: str, unit: str) -> None:
    """GDP-TabICL: subsample and group, aggregate."""
    subsample(run, unit)
    aggregate(run, unit)


RELEASE: dict[str, Callable[[str, str], None]] = {"ldp_tabicl": release_ldp, "gdp_tabicl": release_gdp}


def run_units(run: str) -> str:
    """Do what a run's plan says and is not yet done, then report.

    Raises:
        RunError: some units failed; the others are done and reported.
        DpiclError: the only thing there was to do broke a rule.
    """
    plan = read_plan(Path(run))
    missing = [key for key in plan.units if not (Path(run) / "units" / key / RESULTS).exists()]
    failures: dict[str, Exception] = {}
    waiting: dict[str, list[Job]] = {}
    prepared: set[str] = set()
    for key in missing:
        unit = plan.units[key]
        if unit.dataset not in prepared:
            prepared.add(unit.dataset)
            _prepare(run, unit.dataset, failures)
        if unit.dataset not in failures:
            _guarded(failures, key, lambda key=key, method=unit.method: waiting.update({key: _hand_in(run, key, RELEASE[method])}))  # type: ignore[misc]
    for key, jobs in waiting.items():
        _guarded(failures, key, lambda key=key, jobs=jobs: _finish(run, key, jobs))  # type: ignore[misc]
    if not plan.units or any((Path(run) / "units" / key / RESULTS).exists() for key in plan.units):
        _guarded(failures, "report", lambda: _close(run))
    if failures:
        _raise(run, failures)
    remove_private(Path(run), Settings.from_environment())
    return f"{len(plan.units)} units, {len(missing)} of them now"


def _guarded(failures: dict[str, Exception], key: str, step: Callable[[], object]) -> None:
    """Keep one unit's failure from stopping the others."""
    try:
        step()
    except (DpiclError, StageFailed, KilledWorker) as error:
        failures[key] = error


def _prepare(run: str, dataset: str, failures: dict[str, Exception]) -> None:
    def steps() -> None:
        ingest(run, dataset)
        try:
            validate(run, dataset)
        finally:
            if (Path(run) / "validation" / f"{dataset}.json").exists():
                show_checks(run, dataset)
        split(run, dataset)

    _guarded(failures, dataset, steps)


def _hand_in(run: str, key: str, release: Callable[[str, str], None]) -> list[Job]:
    release(run, key)
    serialize(run, key)
    show_release(run, key)
    return [_submit(fit_baselines, run, key), *(_submit(score, run, key, part) for part in range(PARTS))]


def _submit(stage: Task[..., Any], *arguments: Any) -> Job:
    """A future, and how to hand the same in again."""

    def hand_in() -> PrefectFuture[Any]:
        if stage is not score:
            return stage.submit(*arguments)
        with on_gpus(FlowRunContext.get().task_runner.client):  # type: ignore[union-attr]
            return stage.submit(*arguments)

    return hand_in(), hand_in


def _finish(run: str, key: str, jobs: list[Job]) -> None:
    for future, again in jobs:
        for attempt in range(HAND_IN_AGAIN):
            try:
                future.result()
                break
            except KilledWorker:
                if attempt == HAND_IN_AGAIN - 1:
                    raise
                log.warning("%s: its worker died; handed in again", key)
                future = again()
    evaluate(run, key)


def _close(run: str) -> None:
    collect_run(run)
    write_report(run)
    show_results(run)


def _raise(run: str, failures: dict[str, Exception]) -> None:
    name, first = next(iter(failures.items()))
    if len(failures) == 1 and isinstance(first, DpiclError):
        raise first
    told = "its workers were killed, perhaps for lack of memory" if isinstance(first, KilledWorker) else first
    raise RunError(
        f"run {Path(run).name}: {len(failures)} {'part' if len(failures) == 1 else 'parts'} failed, first {name}: "
        f"{told}; the rest is done and `dpicl run --resume {Path(run).name}` does what is missing"
    ) from None
