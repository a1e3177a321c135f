"""Batches of tasks: each follows from the seed, the step and the level alone, whoever makes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from dpicl.ground.processes import fork_server
from dpicl.ground.randomness import stream
from lab.training.curriculum import LEVELS, drawn_level
from lab.training.encoding import Batch, Encoded, batch_of, encode_task
from lab.training.tasks import make_task

_JOBS_PER_PROCESS = 200
"""The serialiser remembers every template; a generator is replaced before that adds up."""

_LONG, _LONG_KEPT = 1536, 0.1
"""Tokens beyond which a task is long, and the chance that such a one is learned from."""


@dataclass(frozen=True)
class Job:
    """What one step is made of; `reached` is the highest open level."""

    seed: int
    step: int
    reached: int
    step_tokens: int
    batch_tokens: int
    tokenizer: Path


@dataclass(frozen=True)
class StepBatches:
    """Batches of one step."""

    step: int
    batches: tuple[Batch, ...]


def make_step(job: Job) -> StepBatches:
    """Draw tasks until the step is full, the last one over its brim, and of the longest only some:
    attention's cost is the square of their length.
    """
    rng = stream(job.seed, "batches", "bundled", str(job.step)).generator()
    tokenizer, encoded = _tokenizer(job.tokenizer), list[Encoded]()
    while sum(len(task.tokens) for task in encoded) < job.step_tokens:
        level = drawn_level(rng, job.reached)
        task = encode_task(tokenizer, make_task(rng, LEVELS[level]), level)
        if len(task.tokens) <= _LONG or rng.random() < _LONG_KEPT:
            encoded.append(task)
    return StepBatches(job.step, tuple(_parts(encoded, job.batch_tokens)))


def _parts(encoded: Sequence[Encoded], batch_tokens: int) -> Iterator[Batch]:
    """Tasks of like length together, which leaves little padding; as many as fit, padding counted,
    and one at least.
    """
    part: list[Encoded] = []
    for task in sorted(encoded, key=lambda task: len(task.tokens)):
        if part and (len(part) + 1) * len(task.tokens) > batch_tokens:
            yield batch_of(part)
            part = []
        part.append(task)
    yield batch_of(part)


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
