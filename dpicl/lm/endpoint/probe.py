"""What a server can do, found out before a run with a public prompt of our own.

Tried, best first: completions that echo, completions and then a chat that list the likeliest
tokens, and, only where the model's entry allows it, text that is parsed. The first manner that
scores the labels is used for the whole run.

Not covered a server that cuts long prompts silently and does not say its context's length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from dpicl.errors import ModelError
from dpicl.lm.endpoint.asking import Asker
from dpicl.lm.endpoint.client import Client
from dpicl.lm.endpoint.failures import GaveUpError, StopError, Unanswered
from dpicl.lm.endpoint.labels import Answer
from dpicl.lm.endpoint.protocol import Api, Manner

TOPS = (20, 5)
"""How many likely tokens servers list at most: vLLM and clouds 20 by default, others 5."""
REPEATS, ATTEMPTS = 3, 2
_CONTEXT_KEYS = ("max_model_len", "context_length", "context_window", "n_ctx", "max_context_length")


@dataclass(frozen=True)
class Capabilities:
    """What a probe found."""

    manner: Manner
    context: int | None
    """Length in tokens, where the server states it."""
    spread: float
    """Largest difference between repeats of one score, in nats."""
    called: str
    """The server's own name for the model that answered."""
    fingerprint: str

    @property
    def note(self) -> str:
        """One line for manifest and report."""
        context = "context length not stated" if self.context is None else f"context {self.context} tokens"
        repeats = "repeats agree" if self.spread == 0 else f"repeats differ by up to {self.spread:.2g} nats"
        return f"{context}; {repeats}" + (f"; the server calls it {self.called[:100]}" if self.called else "")


async def probe(client: Client, model: str, labels: tuple[str, ...], api: Api | Literal["auto"], *, fallback: bool) -> Capabilities:
    """The best manner in which this server scores these labels.

    Raises:
        ModelError: the server cannot be reached, refuses the key, does not have the model, or
            can do nothing of what is allowed; gives the reason for every manner.
    """
    context = _context(await _listed(client), model)
    reasons: dict[str, str] = {}
    for manner in _manners(api, fallback=fallback):
        asker = Asker(client, model, manner, labels, context, attempts=ATTEMPTS)
        try:
            return await _tried(asker)
        except _Unfit as reason:
            reasons[manner.label] = str(reason)
    told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    expected = "a server that gives log-probabilities" + ("" if fallback else ", or `allow_fallback: true` to parse its text")
    raise ModelError(f"model {client.server.name!r} cannot score {' and'.join(labels).strip()} ({told}); expected {expected}")


class _Unfit(Exception):
    """Why a manner does not do."""


def _manners(api: Api | Literal["auto"], *, fallback: bool) -> Iterator[Manner]:
    apis: tuple[Api, ...] = ("completions", "chat") if api == "auto" else (api,)
    if "completions" in apis:
        yield Manner("completions", "echo")
    yield from (Manner(one, "top-logprobs", top) for one in apis for top in TOPS)
    yield from (Manner(one, "generated") for one in apis if fallback)


async def _tried(asker: Asker) -> Capabilities:
    """One manner, asked several times over."""
    prompt = "\n".join(f"Answer:{label}" for label in (*asker.labels[::-1], ""))
    try:
        await asker.learn([prompt])
        answers = [await asker.answer(prompt) for _ in range(REPEATS)]
    except StopError:
        raise
    except (ModelError, Unanswered) as problem:
        asker.client.gate.failures = 0
        raise _Unfit(_WHY["rejected"] if isinstance(problem, Unanswered) else _reason(problem)) from None
    if answers[0].outcome in _WHY:
        raise _Unfit(_WHY[answers[0].outcome])
    called = "" if asker.called == asker.model else asker.called
    return Capabilities(asker.manner, asker.context, _spread(answers), called, asker.fingerprint)


_WHY = {
    "no-label": "the labels are not among the likeliest tokens",
    "unparsed": "the text starts with no label",
    "rejected": "the server rejects the request",
    "filtered": "the content filter takes it",
    "refused": "the model refuses",
}


def _reason(problem: ModelError) -> str:
    """The clause of an error that says why."""
    clause = str(problem).partition(": ")[2].partition("; ")[0]
    inner = re.search(r"\((.*)\)$", clause)
    return inner[1] if inner else clause


def _spread(answers: list[Answer]) -> float:
    table = [answer.scores for answer in answers]
    return max(max(column) - min(column) for column in zip(*table, strict=True))


async def _listed(client: Client) -> Any:
    """What the server says of its models; many say nothing, and some break."""
    try:
        return await client.models(attempts=ATTEMPTS)
    except StopError:
        raise
    except GaveUpError as problem:
        if not problem.status:
            raise
        client.gate.failures = 0
    except (ModelError, Unanswered):
        pass
    return None


def _context(listed: Any, model: str) -> int | None:
    """The length of a model's context in a list of models, if it is told."""
    entries = listed.get("data") if isinstance(listed, dict) else None
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("id") == model:
            lengths = [entry[key] for key in _CONTEXT_KEYS if isinstance(entry.get(key), int) and entry[key] > 0]
            return min(lengths, default=None)
    return None
