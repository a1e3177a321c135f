"""One model behind an OpenAI-compatible server: a `Scorer` and `TextGenerator`, or an `Embedder` by
the server's `/embeddings`.

A request for an answer is sent once: the answer is kept for as long as the process lives. Calls of
several threads take turns, each with up to `max_connections` requests at once.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from copy import copy
from dataclasses import asdict
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import SecretStr

from dpicl.ground.errors import ModelError
from dpicl.ground.files import sha256_of
from dpicl.models.endpoint.client import Client, R, T, Usage
from dpicl.models.endpoint.probe import Capabilities, probe
from dpicl.models.endpoint.protocol import Answer, GarbledError, Outcome
from dpicl.models.endpoint.ways import PUBLIC_TEXT_REQUEST, LabelRequest, TextRequest
from dpicl.models.requests import ModelDescription, Progress, Sampling, prompt_digest

if TYPE_CHECKING:
    from dpicl.models.spec import ModelSpec, Wanted

START = 8
"""Calls at once to begin with."""


def key_of(spec: ModelSpec) -> SecretStr:
    """The server's key, empty where its entry names none. Raises ModelError: the variable that it
    names holds none.
    """
    key = os.environ.get(spec.key_env, "") if spec.key_env else ""
    if spec.key_env and not (key and key.isascii() and key.isprintable()):
        raise ModelError(
            f"model {spec.name!r}: the variable {spec.key_env} holds no key; expected the "
            f"server's key, in printable ASCII"
        )
    return SecretStr(key)


class EndpointScorer:
    """One model of one server; opening it asks the server what it can do of what is wanted.

    The other of scores and texts may be requested too: whether the server can do it is probed then.

    Args:
        spec: an entry of kind endpoint; the key is read from the environment here.
        wanted: what it is opened for; the description says how the server is asked for that.
        mode: how it is known to answer, which is tried first; see `probe`.

    Raises:
        ModelError: the variable with the key is empty, or `probe` finds no mode that does.
    """

    def __init__(self, spec: ModelSpec, *, wanted: Wanted = "scores", mode: str = "") -> None:
        self._spec = spec
        self._key = key_of(spec)
        self._turn = Lock()
        self._start = float(START)
        self._usage = Usage()
        self._answers: dict[tuple[Any, ...], Answer] = {}
        self._failed: dict[tuple[Any, ...], ModelError] = {}
        """What gets no answer although others do, and why: it is not sent again."""
        self._text_outcomes: dict[bytes, list[Outcome]] = {}
        """By prompt, how its texts came about in the last call that held it."""
        self._capabilities: dict[Wanted, Capabilities] = {}
        self._label_tokens: dict[tuple[str, str], tuple[str, ...]] = {}
        can = self._can(wanted, mode)
        self.description = ModelDescription(
            name=spec.name,
            kind=spec.kind,
            revision=can.fingerprint,
            digest=sha256_of(json.dumps([spec.url, spec.id, can.mode.label])),
            trained=True,
            trust=spec.trust,
            note=can.note,
            mode=can.mode.label,
        )

    def score(
        self,
        prompts: Sequence[str],
        continuations: Sequence[str],
        *,
        progress: Progress | None = None,
    ) -> np.ndarray:
        """See `Scorer.score`; what the scores mean follows from the description's mode (`ways`).

        A prompt that the server does not answer because of its content gets equal scores.

        Raises:
            ModelError: the server is down, its quota is spent, or a prompt does not fit its
                context; answers so far are kept for the next call.
        """
        labels = tuple(continuations)
        requests = [LabelRequest(prompt, labels) for prompt in prompts]
        with self._turn:
            answers = self._answer("scores", requests, LabelRequest.public(labels), progress)
        return np.array([answer.scores for answer in answers], dtype=np.float64).reshape(
            len(prompts), len(labels)
        )

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[str]:
        """See `TextGenerator.generate`; a prompt that the server does not answer because of its
        content gets an empty text.

        Samples can be repeated by their seed as far as the server honours it; the description
        of a model that was opened for texts states if none is sent.

        Raises:
            ModelError: as `score`, and if prompt and new tokens do not fit the context together.
        """
        # a sample's seed follows from its place, so that equal prompts get different ones
        requests = [
            TextRequest(
                prompt,
                sampling.new_tokens,
                tuple(sampling.stop),
                float(sampling.temperature),
                sampling.seed + place if sampling.temperature else None,
            )
            for place, prompt in enumerate(prompts)
        ]
        with self._turn:
            answers = self._answer("text", requests, PUBLIC_TEXT_REQUEST)
            outcomes: dict[bytes, list[Outcome]] = {}
            for prompt, answer in zip(prompts, answers, strict=True):
                outcomes.setdefault(prompt_digest(prompt), []).append(answer.outcome)
            self._text_outcomes |= outcomes
        return [answer.text for answer in answers]

    def tally(self, prompts: Sequence[str], continuations: Sequence[str]) -> dict[str, float]:
        """See `Tallying.tally`: prompts by outcome, and what was sent to the server since the last
        tally.
        """
        labels = tuple(continuations)
        with self._turn:
            if labels:
                outcomes = Counter(
                    self._answers[LabelRequest(prompt, labels).key].outcome for prompt in prompts
                )
            else:
                outcomes = Counter(
                    outcome
                    for prompt in dict.fromkeys(prompts)
                    for outcome in self._text_outcomes[prompt_digest(prompt)]
                )
            usage: dict[str, float] = asdict(self._usage)
            self._usage = Usage()
        if self._spec.price_per_million_tokens is not None:
            usage["cost"] = (
                (usage["prompt_tokens"] + usage["completion_tokens"])
                * self._spec.price_per_million_tokens
                / 1e6
            )
        return {**{str(outcome): count for outcome, count in outcomes.items()}, **usage}

    def _answer(
        self, wanted: Wanted, requests: Sequence[R], public: R, progress: Progress | None = None
    ) -> list[Answer]:
        """The answer to each request, in order; a failure of one of these is raised, the first in
        their order.
        """
        copies = Counter(requests)
        known = self._answers.keys() | self._failed.keys()
        missing = sorted(
            (request for request in copies if request.key not in known),
            key=lambda request: request.prompt,
        )
        done = len(requests) - sum(copies[request] for request in missing)

        def keep(request: R, answer: Answer) -> None:
            nonlocal done
            self._answers[request.key] = answer
            done += copies[request]
            if progress is not None:
                progress(done)

        if missing:
            can = self._can(wanted)

            self._failed |= self._run(
                lambda client: can.way(
                    client, can.mode, public, context=can.context, tokens=self._label_tokens
                ).answer_all(missing, keep)
            )
        keys = [request.key for request in requests]
        for key in keys:
            if key in self._failed:
                raise copy(self._failed[key])
        return [self._answers[key] for key in keys]

    def _can(self, wanted: Wanted, mode: str = "") -> Capabilities:
        """What the server can do, probed when it is first wanted."""
        if wanted not in self._capabilities:
            self._capabilities[wanted] = self._run(lambda client: probe(client, wanted, mode))
        return self._capabilities[wanted]

    def _run(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Work with connections that are closed after it, also where the caller's thread has an
        event loop of its own.
        """

        async def connected() -> T:
            async with aclosing(Client(self._spec, self._key, self._usage, self._start)) as client:
                try:
                    return await work(client)
                finally:
                    # how many calls at once the server can take is remembered
                    self._start = client.limiter.limit

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(connected())
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, connected()).result()


class EndpointEmbedder:
    """One embedding model of one server; its key is read from the environment here. Raises
    ModelError: there is none where one is named.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec
        self._key = key_of(spec)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `Embedder.embed`; texts without content are not sent. Raises ModelError: the server
        does not answer.
        """
        places = [place for place, text in enumerate(texts) if text.strip()]
        # the caller's thread may have an event loop of its own
        with ThreadPoolExecutor(1) as thread:
            found = thread.submit(
                asyncio.run, self._points([texts[place] for place in places])
            ).result()
        points = np.zeros((len(texts), found.shape[1]))
        points[places] = found
        return points

    async def _points(self, texts: Sequence[str]) -> np.ndarray:
        """One request for each text: what a server makes of one private answer, an error too, then
        moves no other from here on.
        """
        async with aclosing(Client(self._spec, self._key, Usage(), float(START))) as client:
            bodies = (
                {"model": self._spec.id, "input": [text], "encoding_format": "float"}
                for text in texts
            )
            points = await asyncio.gather(
                *(client.send("/embeddings", body, _read) for body in bodies)
            )
        return np.stack(points) if points else np.zeros((0, 1))


def _read(reply: Any) -> np.ndarray:
    """A point of norm 1. Raises GarbledError: the reply is of another shape."""
    try:
        (entry,) = reply["data"]
        point = np.array(entry["embedding"], dtype=np.float64)
        length = float(np.linalg.norm(point))
    except (KeyError, TypeError, ValueError):
        raise GarbledError("the reply holds no embedding") from None
    if point.ndim != 1 or not np.isfinite(length) or not length > 0:
        raise GarbledError("the reply holds no embedding")
    return np.asarray(point / length)
