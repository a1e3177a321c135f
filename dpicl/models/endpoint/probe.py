"""What a server can do, found out before a run with a public prompt of our own.

For scores, best first: completions that list the likeliest tokens and echo, that echo, that list
only, a chat that lists, and, only where the model's entry allows it, text that is parsed, of a
server that can be held to the labels or else of any. For texts:
completions, which go on with a prompt as a local model does, then a chat. The first mode
that does is used for the whole run.

Not covered a server that cuts long prompts silently and does not state its context's length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from dpicl.ground.errors import ModelError
from dpicl.models.endpoint.client import Client
from dpicl.models.endpoint.protocol import (
    Answer,
    Api,
    GaveUpError,
    Limit,
    Outcome,
    RequestMode,
    StopError,
    Unanswered,
)
from dpicl.models.endpoint.replies import (
    PUBLIC_TEXT_REQUEST,
    LabelRequest,
    LabelRequester,
    TextRequester,
)
from dpicl.models.requests import CONTINUATIONS
from dpicl.models.spec import ModelSpec, Wanted

TOPS = (20, 5)
"""How many likely tokens servers list at most: vLLM and clouds 20 by default, others 5."""
REPEATS, ATTEMPTS = 3, 2
_CONTEXT_KEYS = ("max_model_len", "context_length", "context_window", "n_ctx", "max_context_length")
_WHY: dict[Outcome, str] = {
    "no-label": "the labels are not among the likeliest tokens",
    "unparsed": "the text starts with no label",
    "rejected": "the server rejects the request",
    "filtered": "the content filter takes it",
    "refused": "the model refuses",
}


@dataclass(frozen=True)
class Capabilities:
    """What a probe has established."""

    mode: RequestMode
    context: int | None
    """Length in tokens, where the server states it."""
    answers: tuple[Answer, ...]
    """To one request, sent several times."""
    served_name: str
    """The server's own name for the model that answered."""
    fingerprint: str

    @property
    def note(self) -> str:
        """One line for manifest and report; it says how far repeats of one request agree."""
        if self.mode.kind in ("text", "bare-text"):
            repeats = "repeats agree" if len(set(self.answers)) == 1 else "repeats differ"
            repeats += (
                "; neither seed nor stop strings are sent" if self.mode.kind == "bare-text" else ""
            )
        else:
            spread = max(
                max(column) - min(column)
                for column in zip(*(answer.scores for answer in self.answers), strict=True)
            )
            repeats = (
                "repeats agree" if spread == 0 else f"repeats differ by up to {spread:.2g} nats"
            )
        context = (
            "context length not stated"
            if self.context is None
            else f"context {self.context} tokens"
        )
        return f"{context}; {repeats}" + (
            f"; the server calls it {self.served_name[:100]}" if self.served_name else ""
        )


async def probe(client: Client, wanted: Wanted) -> Capabilities:
    """The best mode that its entry allows, in which this server scores labels or writes texts.

    Raises:
        ModelError: the server cannot be reached, refuses the key, does not have the model, or
            can do nothing of what is allowed; gives the reason for every mode.
    """
    context, spec = await _context(client), client.spec
    reasons: dict[str, str] = {}
    for mode in _modes(spec, wanted):
        if (
            mode.limit != "max_tokens"
            and reasons.get(replace(mode, limit="max_tokens").label) != _WHY["rejected"]
        ):
            continue  # not its name was refused
        faster = [replace(mode, top=count) for count in TOPS] if mode.kind == "echo" else []
        if found := await _tried(client, mode, wanted, context, reasons):
            for better in faster:
                if fast := await _tried(client, better, wanted, context, reasons):
                    return fast
            return found
    failing, expected = (
        f"cannot score {' and'.join(CONTINUATIONS).strip()}",
        "a server that gives log-probabilities",
    )
    expected += "" if spec.allow_fallback else ", or `allow_fallback: true` to parse its text"
    if wanted == "text":
        failing, expected = "cannot write", "a server that gives text"
    modes = {
        reason: ", ".join(label for label, given in reasons.items() if given == reason)
        for reason in reasons.values()
    }
    listed = "; ".join(f"{labels}: {reason}" for reason, labels in modes.items())
    raise ModelError(f"model {spec.name!r} {failing} ({listed}); expected {expected}")


async def _tried(
    client: Client, mode: RequestMode, wanted: Wanted, context: int | None, reasons: dict[str, str]
) -> Capabilities | None:
    """What a server can do in this mode, or None: the reason is added."""
    requester: LabelRequester | TextRequester
    if wanted == "scores":
        requester = LabelRequester(
            client, mode, LabelRequest.public(CONTINUATIONS), context=context, attempts=ATTEMPTS
        )
    else:
        requester = TextRequester(
            client, mode, PUBLIC_TEXT_REQUEST, context=context, attempts=ATTEMPTS
        )
    try:
        answers = await requester.public_answers(REPEATS)
    except StopError:
        raise
    except (ModelError, Unanswered) as problem:
        client.limiter.failures = 0
        clause = str(problem).partition(": ")[2].partition("; ")[0]
        inner = re.search(r"\((.*)\)$", clause)
        reasons[mode.label] = (
            _WHY["rejected"] if isinstance(problem, Unanswered) else inner[1] if inner else clause
        )
        return None
    if answers[0].outcome not in _WHY:
        name = "" if requester.served_name == client.spec.id else requester.served_name
        return Capabilities(mode, context, tuple(answers), name, requester.fingerprint)
    client.limiter.failures = 0
    reasons[mode.label] = _WHY[answers[0].outcome]
    return None


def _modes(spec: ModelSpec, wanted: Wanted) -> list[RequestMode]:
    apis: tuple[Api, ...] = ("completions", "chat") if spec.api == "auto" else (spec.api,)
    limits: dict[Api, tuple[Limit, ...]] = {
        "completions": ("max_tokens",),
        "chat": ("max_tokens", "max_completion_tokens"),
    }
    if wanted == "text":
        return [
            RequestMode(api, kind, limit=limit)
            for api in apis
            for limit in limits[api]
            for kind in ("text", "bare-text")
        ]
    echo = [RequestMode("completions", "echo")] if "completions" in apis else []
    top = [
        RequestMode(api, "top-logprobs", count, limit)
        for api in apis
        for limit in limits[api]
        for count in TOPS
    ]
    parsed = [
        RequestMode(api, kind, limit=limit)
        for api in apis
        for limit in limits[api]
        for kind in ("choice", "generated")
    ]
    return echo + top + (parsed if spec.allow_fallback else [])


async def _context(client: Client) -> int | None:
    """The length of a model's context, if the server's list of models states it; many have none,
    and some break.
    """
    listed = None
    try:
        listed = await client.models(attempts=ATTEMPTS)
    except StopError:
        raise
    except GaveUpError as problem:
        if not problem.status:
            raise
        client.limiter.failures = 0
    except (ModelError, Unanswered):
        pass
    entries = listed.get("data") if isinstance(listed, dict) else None
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("id") == client.spec.id:
            lengths = [
                entry[key]
                for key in _CONTEXT_KEYS
                if isinstance(entry.get(key), int) and entry[key] > 0
            ]
            return min(lengths, default=None)
    return None
