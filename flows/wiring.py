"""How the stages of a run follow each other, for every flow alike.

The flow's own process prepares tables, charges and makes the releases, one after another; the
cluster reads and counts the batches of large tables, writes, scores and fits. A unit whose
worker dies is handed in again; a unit that fails leaves the others alone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
from distributed.scheduler import KilledWorker
from prefect import Task
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.context import FlowRunContext
from prefect.exceptions import PrefectException
from prefect.futures import PrefectFuture

from dpicl.engine import order
from dpicl.engine.artefacts import RESULTS, remove_private
from dpicl.engine.batches import parts_of
from dpicl.engine.quote import accounts_of, unheeded_caps
from dpicl.engine.run_folder import read_plan
from dpicl.engine.settings import Settings
from dpicl.engine.stage import StageFailed
from dpicl.engine.stages.fit_baselines import has_baselines
from dpicl.engine.stages.score import parts_to_score
from dpicl.errors import BudgetError, DpiclError, RefusedError, RunError
from dpicl.methods import METHODS
from dpicl.pipeline import Unit
from dpicl.report import stages
from flows.gpus import on_gpus, scoring_workers
from flows.recovery import BROKEN_RULES
from tasks.charge import charge
from tasks.count import count
from tasks.evaluate import evaluate
from tasks.fit_baselines import fit_baselines
from tasks.ingest import ingest
from tasks.prepare import prepare_batches
from tasks.probe import probe
from tasks.publish import show_budget, show_checks, show_figures, show_release, show_results
from tasks.score import score
from tasks.serialize import serialize
from tasks.split import split
from tasks.validate import validate
from tasks.wrapper import as_task, task_of

log = logging.getLogger("dpicl.flows")
HAND_IN_AGAIN = 3
ON_GPUS = {"probe", "score", "generate", "consult"}
"""Stages that ask a model."""
Job = tuple[PrefectFuture[Any], Callable[[], PrefectFuture[Any]]]

collect_run, write_report = as_task(stages.collect_run), as_task(stages.write_report)


def run_units(run: str) -> str:
    """Do what a run's plan says and is not yet done, then report.

    Raises:
        RunError: some units failed; the others are done and reported.
        DpiclError: the only thing there was to do broke a rule.
    """
    plan, settings = read_plan(Path(run)), Settings.from_environment()
    _warn_of_caps(plan.units.values(), settings)
    missing = [key for key in plan.units if not (Path(run) / "units" / key / RESULTS).exists()]
    failures: dict[str, Exception] = {}
    waiting: dict[str, list[Job]] = {}
    _ask_models(run, missing)

    def hand_in(key: str, written: Sequence[Job] = ()) -> None:
        def steps() -> None:
            _await(key, written)
            waiting[key] = _hand_in(run, key, plan.units[key])

        _guarded(failures, key, steps)

    writing: list[tuple[str, Job]] = []
    for dataset, keys in _by_dataset(missing, plan.units).items():
        _prepare(run, dataset, failures)
        if dataset not in failures:
            written = [key for key in keys if METHODS[plan.units[key].method].model_reads_rows]
            for key in (key for key in keys if key not in written):
                hand_in(key)
            writing += _hand_in_writing(run, {key: plan.units[key] for key in written}, failures)
    for key, job in writing:
        hand_in(key, [job])
    done = Progress(len(plan.units), len(plan.units) - len(missing))
    for key, jobs in waiting.items():
        _guarded(failures, key, lambda key=key, jobs=jobs: _finish(run, key, jobs))  # type: ignore[misc]
        done.one_more()
    if not plan.units or any((Path(run) / "units" / key / RESULTS).exists() for key in plan.units):
        _guarded(failures, "report", lambda: _close(run))
    if failures:
        _raise(run, failures)
    remove_private(Path(run), settings)
    return f"{len(plan.units)} units, {len(missing)} of them now"


def _ask_models(run: str, missing: Sequence[str]) -> None:
    """Before the first charge: a model that cannot answer must not cost anything."""
    failures: dict[str, Exception] = {}
    if missing:
        _guarded(failures, "probe", lambda: _await("probe", [_submit(probe, run)]))
    if failures:
        _raise(run, failures)


def _warn_of_caps(units: Iterable[Unit], settings: Settings) -> None:
    """On the run's page, since nobody sees the terminal of a scheduled run."""
    for sentence in unheeded_caps(accounts_of(((unit.dataset, unit.method) for unit in units), settings), settings):
        log.warning("%s", sentence)


class Progress:
    """A bar on the flow run's page: units that are finished; an update a second at most, and one at the end."""

    def __init__(self, total: int, finished: int) -> None:
        self._total, self._finished, self._told = total, finished, time.monotonic()
        share = 100 * finished / total if total else 100.0
        self._artifact: Any = create_progress_artifact(share, description=f"{total} units")

    def one_more(self) -> None:
        """Another unit has finished, or failed."""
        self._finished += 1
        if self._finished == self._total or time.monotonic() - self._told > 1:
            self._told = time.monotonic()
            with suppress(httpx.HTTPError, PrefectException):  # a bar is not worth a run
                update_progress_artifact(self._artifact, 100 * self._finished / self._total)


def _by_dataset(keys: Sequence[str], units: Mapping[str, Unit]) -> dict[str, list[str]]:
    """Units in their order, those of a data set together."""
    found: dict[str, list[str]] = {}
    for key in keys:
        found.setdefault(units[key].dataset, []).append(key)
    return found


def _hand_in_writing(run: str, units: Mapping[str, Unit], failures: dict[str, Exception]) -> list[tuple[str, Job]]:
    """Charge these units of a data set, and let the workers read their rows: ensembles one by one, texts in parts, all of a part side by side."""
    reading = {key: _reading(unit) for key, unit in units.items()}
    for key in units:
        _guarded(failures, key, lambda key=key: charge(run, key))  # type: ignore[misc]
    charged = [key for key in units if key not in failures]
    found = [(key, _submit(reading[key][0], run, key)) for key in charged if not reading[key][1]]
    workers = scoring_workers(FlowRunContext.get().task_runner.client)  # type: ignore[union-attr]
    for writing in {task for task, together in reading.values() if together}:
        texts = [key for key in charged if reading[key][0] is writing]
        for part in (texts[number::workers] for number in range(workers)):
            if part:
                job = _submit(writing, run, tuple(part))
                found += [(key, job) for key in part]
    return found


def _reading(unit: Unit) -> tuple[Task[..., Any], bool]:
    """The task in which a model reads a unit's rows, and whether it takes several units together."""
    found = order.reading_stage(unit.method)
    assert found is not None
    return task_of(found[0]), found[1]


def _guarded(failures: dict[str, Exception], key: str, step: Callable[[], object]) -> None:
    """Keep one unit's failure from stopping the others."""
    try:
        step()
    except (DpiclError, StageFailed, KilledWorker) as error:
        failures[key] = error


def _prepare(run: str, dataset: str, failures: dict[str, Exception]) -> None:
    def steps() -> None:
        ingest(run, dataset)
        _share_out(prepare_batches, run, dataset, dataset)
        try:
            validate(run, dataset)
        finally:
            if (Path(run) / "validation" / f"{dataset}.json").exists():
                show_checks(run, dataset)
        split(run, dataset)

    _guarded(failures, dataset, steps)


def _share_out(stage: Task[..., Any], run: str, dataset: str, owner: str) -> None:
    """Let the workers do a stage's batches in parts, beside each other; nothing for a table that is whole."""
    parts = parts_of(run, dataset)
    _await(owner, [_submit(stage, run, owner, part, parts) for part in range(parts)])


def _hand_in(run: str, key: str, unit: Unit) -> list[Job]:
    tasks = (*map(task_of, order.release_stages(unit.method)), serialize)
    if parts_of(run, unit.dataset):
        charge(run, key)
        _share_out(count, run, unit.dataset, key)
    for task in tasks:
        task(run, key)
    show_release(run, key)
    fits = [_submit(fit_baselines, run, key)] if has_baselines(unit, Settings.from_environment().declared(unit.dataset)) else []
    return [*fits, *(_submit(score, run, key, part) for part in parts_to_score(run, key))]


def _submit(stage: Task[..., Any], *arguments: Any) -> Job:
    """A future, and how to hand the same in again."""

    def hand_in() -> PrefectFuture[Any]:
        if stage.name not in ON_GPUS:
            return stage.submit(*arguments)
        with on_gpus(FlowRunContext.get().task_runner.client):  # type: ignore[union-attr]
            return stage.submit(*arguments)

    return hand_in(), hand_in


def _finish(run: str, key: str, jobs: Sequence[Job]) -> None:
    _await(key, jobs)
    evaluate(run, key)


def _await(key: str, jobs: Sequence[Job]) -> None:
    """Wait for workers; what a dead one had is handed in again."""
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


def _close(run: str) -> None:
    collect_run(run)
    write_report(run)
    show_results(run)
    show_figures(run)
    show_budget(run)


def _raise(run: str, failures: dict[str, Exception]) -> None:
    name, first = next(iter(failures.items()))
    if len(failures) == 1 and isinstance(first, DpiclError):
        raise first
    told = "its workers were killed, perhaps for lack of memory" if isinstance(first, KilledWorker) else first
    raise _kind(list(failures.values()))(
        f"run {Path(run).name}: {len(failures)} {'part' if len(failures) == 1 else 'parts'} failed, first {name}: "
        f"{told}; the rest is done and `dpicl run --resume {Path(run).name}` does what is missing"
    ) from None


def _kind(failures: Sequence[Exception]) -> type[DpiclError]:
    """What all failures of a run have in common: a cap, a broken rule of any kind, or nothing that stays so."""
    for kind, kinds in ((BudgetError, BudgetError), (RefusedError, BROKEN_RULES)):
        if all(isinstance(error, kinds) for error in failures):
            return kind
    return RunError
