"""Doing what a run's plan says, by whatever does its steps: this process, a pool of processes, or
an orchestrator's cluster.

The process that calls `run_units` owns the ledger: it alone charges and publishes. Everything else
is submitted to workers, each data set and each unit as soon as what it needs is done. A step whose
worker dies is submitted again; a unit that fails leaves the others alone.

A run on worker processes of this machine: no orchestrator, no server, no port.
"""

from __future__ import annotations

import logging
import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple, Self

from dpicl.ground.errors import (
    BROKEN_RULES,
    BudgetError,
    DpiclError,
    ModelError,
    RefusedError,
    RunError,
    StageFailed,
)
from dpicl.ground.files import locked
from dpicl.ground.nouns import many
from dpicl.ground.printable import filter_streams
from dpicl.ground.processes import ONE_THREAD, OWN_GROUP, VISIBLE, fork_server, gpus_here
from dpicl.home.settings import Settings
from dpicl.models.endpoint.protocol import GaveUpError
from dpicl.release.table_files import PARTS
from dpicl.runs.artefacts import RESULTS, remove_private
from dpicl.runs.chain import chain, rows_ready, stage_named
from dpicl.runs.observed import observed
from dpicl.runs.probe import probe
from dpicl.runs.run_folder import LOCK, Plan, begun_together, read_plan, running
from dpicl.runs.stage import Stage

log = logging.getLogger("dpicl.runs")
SUBMISSIONS = 3
"""Most of one step, where its workers die."""
PARTS_A_WORKER = 2
"""Pieces of work on a table in batches: none is left alone with the last one for long."""


class Step(NamedTuple):
    """A stage, and the references that it is called with."""

    stage: Stage
    references: tuple[Any, ...]


Group = Sequence[Step]
Ended = Mapping[Any, Exception | None]
"""Jobs that have ended, with why they failed."""
Series = Callable[..., Iterator[object]]
"""A function of the chain: it takes `submit`, and references."""


class WorkerDied(Exception):
    """The process that worked on a step is gone, perhaps for lack of memory."""


FAILURES = (DpiclError, StageFailed, WorkerDied)
"""What ends a unit and not the run."""


def failure_of(work: Callable[..., object], *references: Any) -> Exception | None:
    """Do it; what it failed with, of what ends a unit and not the run."""
    try:
        work(*references)
    except FAILURES as error:
        return error
    return None


class Executor(ABC):
    """Does the steps of a run. What `submit` returns is only passed to `wait`."""

    workers = 1
    """How many there are as the run begins."""
    model_workers = 1
    """How many workers may ask models beside each other."""

    def call(self, step: Step) -> None:
        """Do a step in this process, which owns the ledger."""
        step.stage(*step.references)

    @abstractmethod
    def submit(self, step: Step) -> Any:
        """Let a worker do a step."""

    @abstractmethod
    def wait(self, jobs: Collection[Any], *, at_once: bool) -> Ended:
        """Wait until at least one job has ended, or only look, `at_once`; what each of those failed
        with, `WorkerDied` if it was never done.
        """

    def step_ended(self, step: Step, error: Exception | None) -> None:  # noqa: B027 - most show nothing
        """A step has ended, or failed: there may be something to show."""

    def strand_ended(self, name: str) -> None:  # noqa: B027 - most show nothing
        """All steps of a data set or unit have ended, or one has failed."""


class InProcess(Executor):
    """Every step in this process, one after another."""

    def submit(self, step: Step) -> Future[Exception | None]:
        """Do it at once."""
        job: Future[Exception | None] = Future()
        job.set_result(failure_of(step.stage, *step.references))
        return job

    def wait(self, jobs: Collection[Any], *, at_once: bool) -> Ended:
        """All have ended."""
        del at_once
        return {job: job.result() for job in jobs}


def call_all(series: Series, *references: Any) -> None:
    """Do what a series submits at once, in this process, and let the first failure through."""
    for _ in series(lambda stage, *of: stage(*of), *references):
        pass


def steps_of(series: Series, *references: Any) -> Iterator[Group]:
    """What a series submits until it waits, again and again: ask for the next steps once these are
    done.
    """
    group: list[Step] = []
    for _ in series(lambda stage, *of: group.append(Step(stage, of)), *references):
        yield tuple(group)
        group.clear()
    if group:  # a series need not wait at its end
        yield tuple(group)


@dataclass(eq=False)
class _Strand:
    """Groups of steps that follow each other."""

    name: str
    dataset: str
    groups: Iterator[Group]
    then: Sequence[_Strand] = ()
    """Strands that begin once this one has ended well."""
    open: int = 0
    """Steps of the present group that have not ended."""
    has_begun: bool = False


@dataclass
class _Job:
    step: Step
    strands: Sequence[_Strand]
    submissions: int = 1


@dataclass
class _Schedule:
    """Strands that go on beside each other."""

    executor: Executor
    failures: dict[str, Exception] = field(default_factory=dict)
    _ready: deque[_Strand] = field(default_factory=deque)
    _jobs: dict[Any, _Job] = field(default_factory=dict)
    _together: dict[tuple[Any, str], list[tuple[Step, _Strand]]] = field(default_factory=dict)
    _owned: deque[tuple[Step, _Strand]] = field(default_factory=deque)
    """Steps of the owner. Before each of them workers are given all that they may do; after it
    their results are read.
    """

    def do(self, strands: Iterable[_Strand]) -> None:
        """Until all have ended, or failed."""
        self._ready.extend(strands)
        while self._ready or self._together or self._owned or self._jobs:
            while self._ready:
                self._next_group(self._ready.popleft())
            self._share_complete()
            if self._owned:
                step, strand = self._owned.popleft()
                self._step_ended(step, [strand], failure_of(self.executor.call, step))
            if self._jobs:
                self._notice(
                    self.executor.wait(
                        self._jobs, at_once=bool(self._owned or self._ready or self._together)
                    )
                )

    def _notice(self, ended: Ended) -> None:
        for handle, error in ended.items():
            job = self._jobs.pop(handle)
            if isinstance(error, WorkerDied) and job.submissions < SUBMISSIONS:
                log.warning("%s: its worker died; submitted again", job.strands[0].name)
                job.submissions += 1
                self._submit(job)
            else:
                self._step_ended(job.step, job.strands, error)

    def _next_group(self, strand: _Strand) -> None:
        try:
            group = next(strand.groups, None)
        except FAILURES as error:
            self._fail(strand, error)
            return
        if group is None:
            self.executor.strand_ended(strand.name)
            self._ready.extend(strand.then)
            return
        strand.open = len(group)
        if not group:
            self._ready.append(strand)
        for step in group:
            # of those that have gone on first: what follows keeps workers busy longest
            if step.stage.place == "owner":
                (self._owned.appendleft if strand.has_begun else self._owned.append)((step, strand))
            elif step.stage.together:
                self._together.setdefault((step.stage, strand.dataset), []).append((step, strand))
            else:
                self._submit(_Job(step, [strand]))
        strand.has_begun = True

    def _share_complete(self) -> None:
        """Submit stages that units of a data set share, once the owner has no step left for any of
        these units.
        """
        owned = {strand.dataset for _, strand in self._owned}
        for stage, dataset in [key for key in self._together if key[1] not in owned]:
            self._share(stage, self._together.pop((stage, dataset)))

    def _share(self, stage: Stage, waiting: Sequence[tuple[Step, _Strand]]) -> None:
        """Units of one data set: as many calls as there are workers for it; where these are more
        than units, in parts of each unit.
        """
        workers = self.executor.model_workers
        groups = [waiting[number::workers] for number in range(min(workers, len(waiting)))]
        parts = workers // len(groups)
        for group in groups:
            run = group[0][0].references[0]
            keys = tuple(key for step, _ in group for key in step.references[1])
            strands = [strand for _, strand in group]
            for strand in strands:
                strand.open += parts - 1
            for part in range(parts):
                self._submit(_Job(Step(stage, (run, keys, part, parts)), strands))

    def _submit(self, job: _Job) -> None:
        self._jobs[self.executor.submit(job.step)] = job

    def _step_ended(self, step: Step, strands: Sequence[_Strand], error: Exception | None) -> None:
        self.executor.step_ended(step, error)
        for strand in strands:
            strand.open -= 1
            if error is not None:
                self._fail(strand, error)
            elif not strand.open and strand.name not in self.failures:
                self._ready.append(strand)

    def _fail(self, strand: _Strand, error: Exception) -> None:
        """The first failure of a strand counts, and nothing follows it."""
        if strand.name not in self.failures:
            self.failures[strand.name] = error
            self.executor.strand_ended(strand.name)


def run_units(run: Path, executor: Executor, closing: Iterable[Step] = ()) -> str:
    """Do what a run's plan says and is not yet done; `closing` are steps of the owner once some
    results stand, such as the report.

    Raises:
        RunError: some units failed; the others are done and reported.
        DpiclError: the only thing there was to do broke a rule.
    """
    # the lock, so that the stop of another process leaves the private rows
    with locked(run / LOCK, shared=True), observed(run):
        plan = read_plan(run)
        missing = [key for key in plan.units if not (run / "units" / key / RESULTS).exists()]
        schedule = _Schedule(executor)
        is_probed = False
        with running(run, plan, Settings.current()) as may_begin:
            for name, keys in begun_together(plan, missing).items():
                if not may_begin(name):
                    continue
                if not is_probed:  # a model that cannot answer must not cost anything
                    schedule.do([_Strand("probe", "", iter([[Step(probe, (str(run),))]]))])
                    if schedule.failures:
                        _raise(run, schedule.failures)
                    is_probed = True
                schedule.do(_strands(run, plan, keys, executor.workers))
        if not plan.units or any((run / "units" / key / RESULTS).exists() for key in plan.units):
            schedule.do([_Strand("report", "", iter([[step] for step in closing]))])
        if schedule.failures:
            _raise(run, schedule.failures)
        remove_private(run, Settings.current())
        return f"{many(len(plan.units), 'unit')}, {len(missing)} of them now"


def _strands(run: Path, plan: Plan, keys: Iterable[str], workers: int) -> Iterator[_Strand]:
    """One of each data set, and then of its units, with enough pieces of work for all workers."""
    parts = max(PARTS, PARTS_A_WORKER * workers)
    units: dict[str, list[str]] = {}
    for key in keys:
        units.setdefault(plan.units[key].dataset, []).append(key)
    for dataset, some in units.items():
        of_units = [
            _Strand(key, dataset, steps_of(partial(chain, parts=parts), str(run), key))
            for key in some
        ]
        ready = steps_of(partial(rows_ready, parts=parts), str(run), dataset)
        yield _Strand(dataset, dataset, ready, of_units)


def _raise(run: Path, failures: Mapping[str, Exception]) -> None:
    """The only failure; of several an error of the kind that all of them have in common, a cap or a
    broken rule.
    """
    name, first = next(iter(failures.items()))
    if isinstance(first, GaveUpError):  # to begin again would score anew what is kept
        first = ModelError(
            f"{first.problem}; what was scored is kept: `dpicl run --resume {run.name}` goes on "
            f"once the server answers"
        )
    if len(failures) == 1 and isinstance(first, DpiclError):
        raise first
    reason = (
        "its workers were killed, perhaps for lack of memory"
        if isinstance(first, WorkerDied)
        else first
    )
    kind: type[DpiclError] = RunError
    if all(isinstance(error, BudgetError) for error in failures.values()):
        kind = BudgetError
    elif all(isinstance(error, BROKEN_RULES) for error in failures.values()):
        kind = RefusedError
    failed = (
        f"run {run.name}: {len(failures)} {'part' if len(failures) == 1 else 'parts'} failed, "
        f"first {name}: "
    )
    rest = f"; the rest is done and `dpicl run --resume {run.name}` does what is missing"
    raise kind(f"{failed}{reason}{rest}").with_details(
        f"{failed}{reason.details() if isinstance(reason, DpiclError) else reason}{rest}"
    ) from None


@dataclass(eq=False)
class _PoolJob:
    step: Step


class _Worker:
    """A process that does one step at a time, and is replaced when it dies."""

    def __init__(self, settings: Settings, gpu: str | None) -> None:
        self._settings = settings
        self._gpu = gpu
        self.opens_models = gpu != ""
        self.start()

    def start(self) -> None:
        """A new process, with this one's environment and working directory."""
        self.job: _PoolJob | None = None
        context = fork_server([OWN_GROUP, __name__], ONE_THREAD)
        self.pipe, theirs = context.Pipe()
        environment = {
            **ONE_THREAD,
            **os.environ,
            **({} if self._gpu is None else {VISIBLE: self._gpu}),
        }
        self._process = context.Process(
            target=_work, args=(theirs, self._settings, environment, Path.cwd())
        )
        self._process.start()
        theirs.close()

    def give(self, job: _PoolJob) -> None:
        """Let it do a step; it is idle."""
        self.job = job
        with suppress(OSError):  # it has died meanwhile, which `ended` tells
            self.pipe.send((job.step.stage.name, job.step.references))

    def ended(self) -> Exception | None:
        """What its step ended with; it is idle again."""
        try:
            error, details = self.pipe.recv()
        except (EOFError, OSError):
            self.stop()
            self.start()
            return WorkerDied()
        self.job = None
        ended: Exception | None = (
            error.with_details(details) if isinstance(error, DpiclError) else error
        )
        return ended

    def stop(self) -> None:
        """End it in the middle of whatever it does: files appear whole or not at all."""
        self._process.kill()
        self._process.join()
        self.pipe.close()


class WorkerPool(Executor):
    """So many workers, at least one; where this machine has GPUs, models are opened by one worker
    for each.
    """

    def __init__(self, workers: int, settings: Settings) -> None:
        gpus = gpus_here()
        self.workers = workers
        self.model_workers = len(gpus) or workers
        self._gpus: list[str | None] = (
            [*gpus, *[""] * (workers - len(gpus))] if gpus else [None] * workers
        )
        self._settings = settings
        self._workers: list[_Worker] = []
        self._queue: deque[_PoolJob] = deque()

    def __enter__(self) -> Self:
        self._workers = [_Worker(self._settings, gpu) for gpu in self._gpus]
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()

    def submit(self, step: Step) -> Any:
        """Give a step to an idle worker, or keep it for the next one."""
        job = _PoolJob(step)
        self._queue.append(job)
        self._hand_out()
        return job

    def wait(self, jobs: Collection[Any], *, at_once: bool) -> Ended:
        """Wait until workers have ended their steps, and give them what is queued."""
        busy = {worker.pipe: worker for worker in self._workers if worker.job is not None}
        ended: dict[Any, Exception | None] = {}
        for pipe in wait(list(busy), 0 if at_once else None):
            worker = busy[pipe]  # type: ignore[index]
            job = worker.job
            ended[job] = worker.ended()
        self._hand_out()
        return ended

    def _hand_out(self) -> None:
        """The first of the queue that an idle worker may do, for each."""
        for worker in (worker for worker in self._workers if worker.job is None):
            job = next(
                (
                    job
                    for job in self._queue
                    if worker.opens_models or job.step.stage.place != "model worker"
                ),
                None,
            )
            if job is not None:
                self._queue.remove(job)
                worker.give(job)


def _work(
    pipe: Connection, settings: Settings, environment: Mapping[str, str], folder: Path
) -> None:
    """Do steps until the owner is gone."""
    filter_streams()
    threading.Thread(target=_end_with_owner, daemon=True).start()
    os.environ.update(environment)
    os.chdir(folder)
    with settings.entered(), suppress(EOFError, OSError):
        while True:
            name, references = pipe.recv()
            error = failure_of(stage_named(name), *references)
            # a pickled error is public alone
            pipe.send((error, error.details() if isinstance(error, DpiclError) else ""))


def _end_with_owner() -> None:
    """In the middle of a step too: no worker reads rows, or writes private files anew, once nobody
    waits for it.
    """
    owner = parent_process()
    assert owner is not None
    wait([owner.sentinel])
    os._exit(1)
