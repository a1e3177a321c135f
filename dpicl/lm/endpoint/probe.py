"""What a server can do, found out before a run with a public prompt of our own.

For scores, best first: completions that echo, completions and then a chat that list the
likeliest tokens, and, only where the model's entry allows it, text that is parsed. For texts:
completions, which go on with a prompt as a local model does, then a chat. The first manner
that does is used for the whole run.

Not covered a server that cuts long prompts silently and does not say its context's length.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from dpicl.errors import ModelError
from dpicl.lm.endpoint.asking import LabelRequester
from dpicl.lm.endpoint.client import Client
from dpicl.lm.endpoint.failures import GaveUpError, StopError, Unanswered
from dpicl.lm.endpoint.labels import Outcome
from dpicl.lm.endpoint.protocol import GENERATED_TOKENS, Api, Mode, RequestMode
from dpicl.lm.endpoint.questioner import public_prompt
from dpicl.lm.endpoint.texts import TextRequest, TextRequester
from dpicl.lm.requests import CONTINUATIONS

TOPS = (20, 5)
"""How many likely tokens servers list at most: vLLM and clouds 20 by default, others 5."""
TEXT_MODES: tuple[Mode, ...] = ("text", "bare-text")
REPEATS, ATTEMPTS = 3, 2
AnyAsker = TypeVar("AnyAsker", LabelRequester, TextRequester)
_CONTEXT_KEYS = ("max_model_len", "context_length", "context_window", "n_ctx", "max_context_length")


@dataclass(frozen=True)
class Capabilities:
    """What a probe found."""

    manner: RequestMode
    context: int | None
    """Length in tokens, where the server states it."""
    repeats: str
    """How far repeats of one request agree, in words."""
    called: str
    """The server's own name for the model that answered."""
    fingerprint: str

    @property
    def note(self) -> str:
        """One line for manifest and report."""
        context = "context length not stated" if self.context is None else f"context {self.context} tokens"
        return f"{context}; {self.repeats}" + (f"; the server calls it {self.called[:100]}" if self.called else "")


async def probe(client: Client, model: str, labels: tuple[str, ...], api: Api | Literal["auto"], *, fallback: bool) -> Capabilities:
    """The best manner in which this server scores these labels.

    Raises:
        ModelError: the server cannot be reached, refuses the key, does not have the model, or
            can do nothing of what is allowed; gives the reason for every manner.
    """
    context = _context(await _listed(client), model)
    manners = _manners(api, fallback=fallback)
    askers = (LabelRequester(client, model, manner, labels, context=context, attempts=ATTEMPTS) for manner in manners)
    expected = "a server that gives log-probabilities" + ("" if fallback else ", or `allow_fallback: true` to parse its text")
    return await _first(client, askers, _tried_scores, f"cannot score {' and'.join(labels).strip()}", expected)


async def probe_text(client: Client, model: str, api: Api | Literal["auto"]) -> Capabilities:
    """The best manner in which this server writes texts; it needs no log-probabilities.

    Raises:
        ModelError: as `probe`.
    """
    context = _context(await _listed(client), model)
    manners: Iterator[RequestMode] = (RequestMode(one, mode) for one in _apis(api) for mode in TEXT_MODES)
    askers = (TextRequester(client, model, manner, context=context, attempts=ATTEMPTS) for manner in manners)
    return await _first(client, askers, _tried_texts, "cannot write", "a server that gives text")


class _Unfit(Exception):
    """Why a manner does not do."""


def _apis(api: Api | Literal["auto"]) -> tuple[Api, ...]:
    return ("completions", "chat") if api == "auto" else (api,)


def _manners(api: Api | Literal["auto"], *, fallback: bool) -> Iterator[RequestMode]:
    apis = _apis(api)
    if "completions" in apis:
        yield RequestMode("completions", "echo")
    yield from (RequestMode(one, "top-logprobs", top) for one in apis for top in TOPS)
    yield from (RequestMode(one, "generated") for one in apis if fallback)


async def _first(
    client: Client, askers: Iterable[AnyAsker], tried: Callable[[AnyAsker], Awaitable[str]], failing: str, expected: str
) -> Capabilities:
    """The first manner that does, with what `tried` says of repeats."""
    reasons: dict[str, str] = {}
    for asker in askers:
        try:
            repeats = await tried(asker)
        except StopError:
            raise
        except (ModelError, Unanswered, _Unfit) as problem:
            client.gate.failures = 0
            reasons[asker.manner.label] = _reason(problem)
        else:
            called = "" if asker.called == asker.model else asker.called
            return Capabilities(asker.manner, asker.context, repeats, called, asker.fingerprint)
    told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    raise ModelError(f"model {client.server.name!r} {failing} ({told}); expected {expected}")


async def _tried_scores(asker: LabelRequester) -> str:
    prompt = public_prompt(asker.labels)
    await asker.learn([prompt])
    answers = [await asker.answer(prompt) for _ in range(REPEATS)]
    _check(answers[0].outcome)
    spread = max(max(column) - min(column) for column in zip(*(answer.scores for answer in answers), strict=True))
    return "repeats agree" if spread == 0 else f"repeats differ by up to {spread:.2g} nats"


async def _tried_texts(asker: TextRequester) -> str:
    wish = TextRequest(public_prompt(CONTINUATIONS), GENERATED_TOKENS, stop=("Answer:",), seed=0)
    texts = [await asker.answer(wish) for _ in range(REPEATS)]
    _check(texts[0].outcome)
    agreed = "repeats agree" if len(set(texts)) == 1 else "repeats differ"
    return agreed + ("; neither seed nor stop strings are sent" if asker.manner.mode == "bare-text" else "")


def _check(outcome: Outcome) -> None:
    if outcome in _WHY:
        raise _Unfit(_WHY[outcome])


_WHY = {
    "no-label": "the labels are not among the likeliest tokens",
    "unparsed": "the text starts with no label",
    "rejected": "the server rejects the request",
    "filtered": "the content filter takes it",
    "refused": "the model refuses",
}


def _reason(problem: Exception) -> str:
    """The clause of an error that says why."""
    if isinstance(problem, Unanswered):
        return _WHY["rejected"]
    if isinstance(problem, _Unfit):
        return str(problem)
    clause = str(problem).partition(": ")[2].partition("; ")[0]
    inner = re.search(r"\((.*)\)$", clause)
    return inner[1] if inner else clause


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
