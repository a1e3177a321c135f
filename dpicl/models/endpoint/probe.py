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
from typing import TYPE_CHECKING, Any

from dpicl.ground.errors import ModelError
from dpicl.models.endpoint.client import Client, Requester
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
from dpicl.models.endpoint.ways import (
    BareTextWay,
    ChoiceWay,
    EchoWay,
    ListWay,
    TextStartWay,
    TextWay,
)
from dpicl.models.requests import CONTINUATIONS

if TYPE_CHECKING:
    from dpicl.models.spec import ModelSpec, Wanted

Way = type[Requester[Any]]
WAYS: dict[Wanted, tuple[tuple[Way, ...], ...]] = {
    "scores": ((EchoWay,), (ListWay,), (ChoiceWay, TextStartWay)),
    "text": ((TextWay, BareTextWay),),
}
"""By what is wanted, best first; those of one group are tried interface by interface."""
_INTERFACES: tuple[tuple[Api, Limit], ...] = (
    ("completions", "max_tokens"),
    ("chat", "max_tokens"),
    ("chat", "max_completion_tokens"),
)
REPEATS = 3
ATTEMPTS = 2
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

    way: Way
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
        context = (
            "context length not stated"
            if self.context is None
            else f"context {self.context} tokens"
        )
        return f"{context}; {self.way.repeats(self.answers)}" + (
            f"; the server calls it {self.served_name[:100]}" if self.served_name else ""
        )


async def probe(client: Client, wanted: Wanted, known: str = "") -> Capabilities:
    """The best mode that its entry allows, in which this server scores labels or writes texts; the
    mode that is `known` of it, by its label, if it still answers so: of many workers the first one
    finds out, and the others send a third of its requests.

    Raises:
        ModelError: the server cannot be reached, refuses the key, does not have the model, or
            can do nothing of what is allowed; gives the reason for every mode.
    """
    context = await _context(client)
    spec = client.spec
    modes = _modes(spec, wanted)
    every = [(way, each) for way, mode in modes for each in (mode, *way.faster(mode))]
    for way, mode in every:
        if mode.label == known and (found := await _tried(client, way, mode, context, {}, 1)):
            return found
    reasons: dict[str, str] = {}
    for way, mode in modes:
        if (
            mode.limit != "max_tokens"
            and reasons.get(replace(mode, limit="max_tokens").label) != _WHY["rejected"]
        ):
            continue  # not its name was refused
        if found := await _tried(client, way, mode, context, reasons):
            for faster in way.faster(mode):
                if better := await _tried(client, way, faster, context, reasons):
                    return better
            return found
    failing = f"cannot score {' and'.join(CONTINUATIONS).strip()}"
    expected = "a server that gives log-probabilities"
    expected += "" if spec.allow_fallback else ", or `allow_fallback: true` to parse its text"
    if wanted == "text":
        failing = "cannot write"
        expected = "a server that gives text"
    failed = {
        reason: ", ".join(label for label, given in reasons.items() if given == reason)
        for reason in reasons.values()
    }
    listed = "; ".join(f"{labels}: {reason}" for reason, labels in failed.items())
    raise ModelError(f"model {spec.name!r} {failing} ({listed}); expected {expected}")


async def _tried(
    client: Client,
    way: Way,
    mode: RequestMode,
    context: int | None,
    reasons: dict[str, str],
    repeats: int = REPEATS,
) -> Capabilities | None:
    """What a server can do in this mode, or None: the reason is added."""
    requester = way(client, mode, way.probe, context=context, attempts=ATTEMPTS)
    try:
        answers = await requester.public_answers(repeats)
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
        return Capabilities(way, mode, context, tuple(answers), name, requester.fingerprint)
    client.limiter.failures = 0
    reasons[mode.label] = _WHY[answers[0].outcome]
    return None


def _modes(spec: ModelSpec, wanted: Wanted) -> list[tuple[Way, RequestMode]]:
    return [
        (way, mode)
        for group in WAYS[wanted]
        for api, limit in _INTERFACES
        if spec.api in ("auto", api)
        for way in group
        if way.is_allowed(spec)
        for mode in way.modes(api, limit)
    ]


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
