"""A run on worker processes of this machine: no orchestrator, no server, no port.

The owner of the ledger gives each worker one step at a time through a pipe. A worker that dies
takes its own step with it and nothing else; where the owner ends or dies, its workers end.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Self

from dpicl.engine.execute import Executor, Step, WorkerDied, failure_of
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError
from dpicl.printable import filter_streams
from dpicl.processes import ONE_THREAD, OWN_GROUP, VISIBLE, fork_server, gpus_here
from dpicl.runs.chain import stage_named


@dataclass(eq=False)
class _Job:
    step: Step


class _Worker:
    """A process that does one step at a time, and is replaced when it dies."""

    def __init__(self, settings: Settings, gpu: str | None) -> None:
        self._settings, self._gpu = settings, gpu
        self.opens_models = gpu != ""
        self.start()

    def start(self) -> None:
        """A new process, with this one's environment and working directory."""
        self.job: _Job | None = None
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

    def give(self, job: _Job) -> None:
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


class Pool(Executor):
    """So many workers, at least one; where this machine has GPUs, models are opened by one worker
    for each.
    """

    def __init__(self, workers: int, settings: Settings) -> None:
        gpus = gpus_here()
        self.model_workers = len(gpus) or workers
        self._gpus: list[str | None] = (
            [*gpus, *[""] * (workers - len(gpus))] if gpus else [None] * workers
        )
        self._settings = settings
        self._workers: list[_Worker] = []
        self._queue: deque[_Job] = deque()

    def __enter__(self) -> Self:
        self._workers = [_Worker(self._settings, gpu) for gpu in self._gpus]
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()

    def submit(self, step: Step) -> Any:
        """Give a step to an idle worker, or keep it for the next one."""
        job = _Job(step)
        self._queue.append(job)
        self._hand_out()
        return job

    def wait(self, jobs: Collection[Any], *, at_once: bool) -> Mapping[Any, Exception | None]:
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
