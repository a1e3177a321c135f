"""A `Scorer` and `TextGenerator` for one model behind an OpenAI-compatible server.

What is asked is asked once: its answer is kept for as long as the process lives. Calls of
several threads take turns, each with up to `max_connections` requests at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import asdict
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from dpicl.errors import ModelError
from dpicl.lm.endpoint.asking import LabelRequester
from dpicl.lm.endpoint.client import Client, Server, Usage
from dpicl.lm.endpoint.labels import Answer, Outcome
from dpicl.lm.endpoint.probe import Capabilities, probe, probe_text
from dpicl.lm.endpoint.questioner import ask_all
from dpicl.lm.endpoint.texts import Key as TextKey
from dpicl.lm.endpoint.texts import Text, TextRequest, TextRequester, wishes
from dpicl.lm.requests import CONTINUATIONS, ModelDescription, Progress, ScoreRequest
from dpicl.lm.spec import ModelSpec, Wanted

START = 8
"""Calls at once to begin with."""
T = TypeVar("T")
Key = tuple[bytes, tuple[str, ...]]


class EndpointScorer:
    """One model of one server; opening it asks the server what it can do of what is wanted.

    The other of scores and texts may be asked for too: whether the server can do it is found
    out then.

    Args:
        spec: an entry of kind endpoint; the key is read from the environment here.
        wanted: what it is opened for; the description says how the server is asked for that.

    Raises:
        ModelError: the variable with the key is empty, or `probe` finds no way to ask.
    """

    def __init__(self, spec: ModelSpec, *, wanted: Wanted = "scores") -> None:
        self._spec, self._model = spec, str(spec.id)
        self._server = Server(spec.name, str(spec.url).rstrip("/"), _key(spec), spec.max_connections, spec.deadline_seconds)
        self._turn, self._start = Lock(), float(START)
        self._answers: dict[Key, Answer] = {}
        self._texts: dict[TextKey, Text] = {}
        self._failed: dict[Key | TextKey, ModelError] = {}
        """What gets no answer although others do, and why: it is not asked again."""
        self._told: dict[bytes, list[Outcome]] = {}
        """By prompt, how its texts came about in the last call that held it."""
        self._spending = Usage()
        self._found: dict[Wanted, Capabilities] = {}
        can = self._can(wanted)
        self.description = ModelDescription(
            name=spec.name,
            kind=spec.kind,
            revision=can.fingerprint,
            digest=hashlib.sha256(json.dumps([spec.url, spec.id, can.manner.label]).encode()).hexdigest(),
            trained=True,
            trust=spec.trust,
            note=can.note,
            mode=can.manner.label,
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
            known = self._answers.keys() | self._failed.keys()
            missing = sorted({prompt for prompt, key in zip(prompts, keys, strict=True) if key not in known})
            copies = Counter(prompts)
            done = len(prompts) - sum(copies[prompt] for prompt in missing)

            def keep(prompt: str, answer: Answer) -> None:
                nonlocal done
                self._answers[_key_of(prompt, labels)] = answer
                done += copies[prompt]
                if progress is not None:
                    progress(done)

            if missing:
                failed = self._score_all(missing, labels, keep)
                self._failed |= {_key_of(prompt, labels): problem for prompt, problem in failed.items()}
            self._raise_first(keys)
            scores = [self._answers[key].scores for key in keys]
        return np.array(scores, dtype=np.float64).reshape(len(prompts), len(labels))

    def generate(
        self, prompts: Sequence[str], *, new_tokens: int, stop: Sequence[str] = (), temperature: float = 0.0, seed: int = 0
    ) -> list[str]:
        """See `TextGenerator.generate`; a prompt that the server does not answer because of its content gets an empty text.

        Samples can be repeated by their seed as far as the server honours it; the description
        of a model that was opened for texts says if none is sent.

        Raises:
            ModelError: as `score`, and if prompt and new tokens do not fit the context together.
        """
        wanted = wishes(prompts, new_tokens=new_tokens, stop=stop, temperature=temperature, seed=seed)
        with self._turn:
            known = self._texts.keys() | self._failed.keys()
            missing = sorted({wish for wish in wanted if wish.key not in known}, key=lambda wish: (wish.prompt, wish.seed or 0))
            if missing:
                self._failed |= {wish.key: problem for wish, problem in self._write_all(missing).items()}
            self._raise_first([wish.key for wish in wanted])
            told: dict[bytes, list[Outcome]] = {}
            for wish in wanted:
                told.setdefault(wish.digest, []).append(self._texts[wish.key].outcome)
            self._told |= told
            return [self._texts[wish.key].text for wish in wanted]

    def _raise_first(self, keys: Sequence[Key | TextKey]) -> None:
        """A failure of one of these, the first in their order."""
        for key in keys:
            if key in self._failed:
                raise copy(self._failed[key])

    def tally(self, prompts: Sequence[str], continuations: Sequence[str]) -> dict[str, float]:
        """See `Tallying.tally`: prompts by outcome, and what was asked of the server since the last tally."""
        with self._turn:
            counts = Counter(self._outcomes(prompts, tuple(continuations)))
            spent: dict[str, float] = asdict(self._spending)
            self._spending = Usage()
        if self._spec.price_per_million_tokens is not None:
            spent["cost"] = (spent["prompt_tokens"] + spent["completion_tokens"]) * self._spec.price_per_million_tokens / 1e6
        return {**{str(outcome): count for outcome, count in counts.items()}, **spent}

    def _outcomes(self, prompts: Sequence[str], labels: tuple[str, ...]) -> list[Outcome]:
        """How the scores or, without labels, the texts of these prompts came about."""
        if labels:
            return [self._answers[_key_of(prompt, labels)].outcome for prompt in prompts]
        return [outcome for prompt in dict.fromkeys(prompts) for outcome in self._told[ScoreRequest(prompt).digest]]

    def _can(self, wanted: Wanted) -> Capabilities:
        """What the server can do, found out when it is first wanted."""
        if wanted not in self._found:
            self._found[wanted] = _finished(self._with_client(lambda client: self._probed(client, wanted)))
        return self._found[wanted]

    def _probed(self, client: Client, wanted: Wanted) -> Awaitable[Capabilities]:
        if wanted == "text":
            return probe_text(client, self._model, self._spec.api)
        return probe(client, self._model, CONTINUATIONS, self._spec.api, fallback=self._spec.allow_fallback)

    def _score_all(self, prompts: Sequence[str], labels: tuple[str, ...], keep: Callable[[str, Answer], None]) -> dict[str, ModelError]:
        can = self._can("scores")

        async def work(client: Client) -> dict[str, ModelError]:
            asker = LabelRequester(client, self._model, can.manner, labels, context=can.context)
            await asker.learn(prompts)
            return await ask_all(asker, asker.answer, prompts, keep, at_once=self._server.max_connections)

        found: dict[str, ModelError] = _finished(self._with_client(work))
        return found

    def _write_all(self, missing: Sequence[TextRequest]) -> dict[TextRequest, ModelError]:
        can = self._can("text")

        def keep(wish: TextRequest, text: Text) -> None:
            self._texts[wish.key] = text

        async def work(client: Client) -> dict[TextRequest, ModelError]:
            asker = TextRequester(client, self._model, can.manner, context=can.context)
            return await ask_all(asker, asker.answer, missing, keep, at_once=self._server.max_connections)

        found: dict[TextRequest, ModelError] = _finished(self._with_client(work))
        return found

    async def _with_client(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Work with connections that are closed after it; how many calls the server bears is remembered."""
        async with Client(self._server, self._spending, self._start) as client:
            try:
                return await work(client)
            finally:
                self._start = client.gate.limit


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
