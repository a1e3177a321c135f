"""Batches of tasks: each follows from the seed, the step and the level alone, whoever makes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from dpicl.processes import fork_server
from dpicl.randomness import stream
from dpicl.training.curriculum import LEVELS, drawn_level
from dpicl.training.encoding import Batch, Encoded, batch_of, encode_task
from dpicl.training.tasks import make_task

_PARTS = 4
"""Batches of a step: tasks of like length stand together, which leaves little padding."""
_JOBS_PER_PROCESS = 200
"""The serialiser remembers every template; a generator is replaced before that adds up."""


@dataclass(frozen=True)
class Job:
    """What one step is made of; `reached` is the highest open level."""

    seed: int
    step: int
    reached: int
    step_tokens: int
    tokenizer: Path


@dataclass(frozen=True)
class StepBatches:
    """Batches of one step, and the level that its tasks are of."""

    step: int
    level: int
    batches: tuple[Batch, ...]


def make_step(job: Job) -> StepBatches:
    """Draw tasks until the step is full; tasks too long for a step of their own are drawn again."""
    rng = stream(job.seed, "batches", "bundled", str(job.step)).generator()
    level, tokenizer = drawn_level(rng, job.reached), _tokenizer(job.tokenizer)
    encoded: list[Encoded] = []
    total = 0
    while True:
        task = encode_task(tokenizer, make_task(rng, LEVELS[level]))
        if total + len(task.tokens) <= job.step_tokens:
            encoded.append(task)
            total += len(task.tokens)
        elif encoded:
            return StepBatches(job.step, level, tuple(_parts(encoded)))


def _parts(encoded: Sequence[Encoded]) -> Iterator[Batch]:
    ordered = sorted(encoded, key=lambda task: len(task.tokens))
    bounds = np.linspace(0, len(ordered), min(_PARTS, len(ordered)) + 1).astype(int)
    for start, stop in pairwise(bounds):
        yield batch_of(ordered[start:stop])


@lru_cache(maxsize=4)
def _tokenizer(path: Path) -> Tokenizer:
    return Tokenizer.from_file(str(path))


class Generators:
    """Makes steps in other processes, in order; with none, in this one."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def steps(self, jobs: Sequence[Job]) -> Iterator[StepBatches]:
        """The jobs' steps in the order given."""
        return map(make_step, jobs) if self._pool is None else self._pool.imap(make_step, jobs)


@contextmanager
def generators(count: int) -> Iterator[Generators]:
    """`count` processes that end with the block."""
    if not count:
        yield Generators(None)
        return
    with fork_server().Pool(count, maxtasksperchild=_JOBS_PER_PROCESS) as pool:
        yield Generators(pool)
