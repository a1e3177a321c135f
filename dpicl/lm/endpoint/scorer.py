"""A `Scorer` for one model behind an OpenAI-compatible server.

A distinct prompt is asked once: its answer is kept for as long as the process lives. Calls of
several threads take turns, each with up to `max_connections` requests at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from dpicl.errors import ModelError
from dpicl.lm.endpoint.asking import Asker
from dpicl.lm.endpoint.client import Client, Server, Spending
from dpicl.lm.endpoint.labels import Answer
from dpicl.lm.endpoint.probe import probe
from dpicl.lm.layout import CONTINUATIONS
from dpicl.lm.models import ModelSpec
from dpicl.lm.requests import ModelDescription, Progress, ScoreRequest

START = 8
"""Calls at once to begin with."""
T = TypeVar("T")
Key = tuple[bytes, tuple[str, ...]]


class EndpointScorer:
    """One model of one server; opening it asks the server what it can do.

    Args:
        spec: an entry of kind endpoint; the key is read from the environment here.

    Raises:
        ModelError: the variable with the key is empty, or `probe.probe` finds no way to ask.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self._spec, self._model = spec, str(spec.id)
        self._server = Server(spec.name, str(spec.url).rstrip("/"), _key(spec), spec.max_connections, spec.deadline_seconds)
        self._turn, self._start = Lock(), float(START)
        self._answers: dict[Key, Answer] = {}
        self._spending = Spending()
        self._can = _finished(
            self._with_client(lambda client: probe(client, self._model, CONTINUATIONS, spec.api, fallback=spec.allow_fallback))
        )
        self.description = ModelDescription(
            name=spec.name,
            kind=spec.kind,
            revision=self._can.fingerprint,
            digest=hashlib.sha256(json.dumps([spec.url, spec.id, self._can.manner.label]).encode()).hexdigest(),
            trained=True,
            trust=spec.trust,
            note=self._can.note,
            mode=self._can.manner.label,
        )

    def score(self, prompts: Sequence[str], continuations: Sequence[str], *, progress: Progress | None = None) -> np.ndarray:
        """See `Scorer.score`; what the scores mean follows from the description's mode (`labels`).

        A prompt that the server does not answer because of its content gets equal scores.

        Raises:
            ModelError: the server is down, its quota is spent, or a prompt does not fit its
                context; answers so far are kept for the next call.
        """
        labels = tuple(continuations)
        keys = [_key_of(prompt, labels) for prompt in prompts]
        with self._turn:
            missing = sorted({prompt for prompt, key in zip(prompts, keys, strict=True) if key not in self._answers})
            copies = Counter(prompts)
            done = len(prompts) - sum(copies[prompt] for prompt in missing)

            def keep(prompt: str, answer: Answer) -> None:
                nonlocal done
                self._answers[_key_of(prompt, labels)] = answer
                done += copies[prompt]
                if progress is not None:
                    progress(done)

            if missing:
                _finished(self._with_client(lambda client: self._ask_all(client, missing, labels, keep)))
            scores = [self._answers[key].scores for key in keys]
        return np.array(scores, dtype=np.float64).reshape(len(prompts), len(labels))

    def tally(self, prompts: Sequence[str], continuations: Sequence[str]) -> dict[str, float]:
        """See `Tallying.tally`: prompts by outcome, and what was asked of the server since the last tally."""
        with self._turn:
            counts = Counter(self._answers[_key_of(prompt, tuple(continuations))].outcome for prompt in prompts)
            spent: dict[str, float] = asdict(self._spending)
            self._spending = Spending()
        if self._spec.price_per_million_tokens is not None:
            spent["cost"] = (spent["prompt_tokens"] + spent["completion_tokens"]) * self._spec.price_per_million_tokens / 1e6
        return {**{str(outcome): count for outcome, count in counts.items()}, **spent}

    async def _ask_all(self, client: Client, prompts: Sequence[str], labels: tuple[str, ...], keep: Callable[[str, Answer], None]) -> None:
        asker = Asker(client, self._model, self._can.manner, labels, self._can.context)
        await asker.learn(prompts)
        rest = iter(prompts)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._server.max_connections, len(prompts))):
                    group.create_task(_ask_in_turn(asker, rest, keep))
        except ExceptionGroup as problems:
            raise problems.exceptions[0] from None

    async def _with_client(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Work with connections that are closed after it; how many calls the server bears is remembered."""
        async with Client(self._server, self._spending, self._start) as client:
            try:
                return await work(client)
            finally:
                self._start = client.gate.limit


async def _ask_in_turn(asker: Asker, prompts: Iterator[str], keep: Callable[[str, Answer], None]) -> None:
    for prompt in prompts:
        keep(prompt, await asker.answer(prompt))


def _finished(work: Any) -> Any:
    """The result of a coroutine, also where the caller's thread has an event loop of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _key(spec: ModelSpec) -> str:
    key = os.environ.get(spec.key_env, "") if spec.key_env else ""
    if spec.key_env and not (key and key.isascii() and key.isprintable()):
        raise ModelError(f"model {spec.name!r}: the variable {spec.key_env} holds no key; expected the server's key, in printable ASCII")
    return key


def _key_of(prompt: str, labels: tuple[str, ...]) -> Key:
    return ScoreRequest(prompt).digest, labels
