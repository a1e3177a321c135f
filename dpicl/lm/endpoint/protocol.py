"""How one server is asked, what its replies hold, and the outcome of a prompt; pure, no network.

Servers write log-probabilities in two ways: lists of their own (completions of OpenAI, vLLM)
or one list `content` (every chat, and also completions of llama.cpp). Both are read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dpicl.lm.requests import prompt_digest

Api = Literal["completions", "chat"]
Limit = Literal["max_tokens", "max_completion_tokens"]
PATHS: dict[Api, str] = {"completions": "/completions", "chat": "/chat/completions"}
GENERATED_TOKENS = 8
"""How much of an answer is read where it has to be parsed."""
MOST_TOKENS = 1 << 32
"""No prompt and no answer has more; a server that counts more does not count."""
_ROUNDING = 1e-3
"""A log-probability may be so far above 0 by what rounding does, and is taken as 0 then."""
Outcome = Literal[
    "scored",
    "one-label",
    "no-label",
    "parsed",
    "unparsed",
    "generated",
    "empty",
    "filtered",
    "refused",
    "rejected",
]
"""`scored`: every label; `one-label`: some, the others got the floor; `parsed`: from text.

Where a text was wanted: `generated`: there is one; `empty`: the model wrote nothing.

Fixed answers: `no-label`: none of them was listed; `unparsed`: text that starts with none;
`filtered`: the server's content filter; `refused`: by the model; `rejected`: status 4xx.
"""


class GarbledError(Exception):
    """A reply that is not what was requested; says in what way."""


@dataclass(frozen=True)
class RequestMode:
    """How one server is asked: for scores in one of the ways of `labels`, or for a text,
    `bare-text` without seed and stop strings.

    `top` is the number of likeliest tokens that are requested, of `echo` too where the server does
    both; `limit` the parameter with the number of new tokens, whose name newer chats have changed.
    """

    api: Api
    kind: Literal["echo", "top-logprobs", "choice", "generated", "text", "bare-text"]
    top: int = 0
    limit: Limit = "max_tokens"

    @property
    def label(self) -> str:
        """As manifests and messages name it: `completions echo`,
        `completions top-20 logprobs, else echo`, `chat top-20 logprobs`.
        """
        listed = f"top-{self.top} logprobs" if self.top else self.kind
        renamed = "" if self.limit == "max_tokens" else f" ({self.limit})"
        return (
            f"{self.api} "
            f"{listed}{', else echo' if self.top and self.kind == 'echo' else ''}{renamed}"
        )


@dataclass(frozen=True)
class Request:
    """One prompt with everything that its answer depends on."""

    prompt: str

    @property
    def key(self) -> tuple[Any, ...]:
        """The request's identity, without its prompt."""
        return prompt_digest(self.prompt), *list(vars(self).values())[1:]


@dataclass(frozen=True)
class Answer:
    """What a prompt got, and how: scores of its labels, in nats, or a text."""

    outcome: Outcome
    scores: tuple[float, ...] = ()
    text: str = ""


@dataclass(frozen=True)
class Reply:
    """One choice of a reply.

    `tokens` and `logprobs` cover the prompt too if it is echoed; `top` has the likeliest
    tokens at the first position that was generated. Logarithms are natural.
    """

    text: str
    finish_reason: str
    refused: bool
    tokens: tuple[str, ...]
    logprobs: tuple[float | None, ...]
    top: tuple[tuple[str, float], ...]
    prompt_tokens: int
    model: str
    fingerprint: str


def chat_messages(text: str, labels: Sequence[str]) -> list[dict[str, str]]:
    """What a chat is asked to choose a label: one message, since not every template has a system's;
    chat models like to explain.
    """
    instruction = f"Answer with one word: {' or '.join(label.strip() for label in labels)}."
    return [{"role": "user", "content": f"{instruction}\n\n{text.rstrip()}"}]


def public_prompt(labels: Sequence[str]) -> str:
    """A prompt of our own that every model can go on with."""
    return "\n".join(f"Answer:{label}" for label in (*labels[::-1], ""))


def read_reply(content: Any) -> Reply:
    """The first choice of a reply.

    Raises:
        GarbledError: a part is missing or of a kind that the protocol does not allow.
    """
    try:
        choice = content["choices"][0]
        message = choice.get("message") or {}
        usage = content.get("usage") or {}
        tokens, logprobs, top = _logprobs(choice.get("logprobs") or {})
        counts = [int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens")]
        if not all(0 <= count <= MOST_TOKENS for count in counts):
            raise ValueError
        return Reply(
            text=str(choice.get("text") or message.get("content") or ""),
            finish_reason=str(choice.get("finish_reason") or ""),
            refused=bool(message.get("refusal")),
            tokens=tokens,
            logprobs=logprobs,
            top=top,
            prompt_tokens=counts[0],
            model=str(content.get("model") or ""),
            fingerprint=str(content.get("system_fingerprint") or ""),
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError):
        raise GarbledError("the reply is not what the protocol says") from None


def _logprobs(
    written: Any,
) -> tuple[tuple[str, ...], tuple[float | None, ...], tuple[tuple[str, float], ...]]:
    """Tokens, their log-probabilities, and what was likely at the first position."""
    if written.get("content"):
        entries = written["content"]
        tokens, logprobs = (
            [entry["token"] for entry in entries],
            [entry["logprob"] for entry in entries],
        )
        likely = [
            (entry["token"], entry["logprob"]) for entry in entries[0].get("top_logprobs") or []
        ]
    else:
        tokens, logprobs = written.get("tokens") or [], written.get("token_logprobs") or []
        first = (written.get("top_logprobs") or [None])[0] or {}
        likely = list(first.items())
    if len(tokens) != len(logprobs):
        raise ValueError
    # what was chosen need not be among the likeliest
    likely += zip(tokens[:1], logprobs[:1], strict=True)
    top = {
        str(token): _logprob(logprob)
        for token, logprob in likely
        if logprob is not None and math.isfinite(logprob)
    }
    return (
        tuple(map(str, tokens)),
        tuple(None if value is None else _logprob(value) for value in logprobs),
        tuple(top.items()),
    )


def _logprob(value: Any) -> float:
    number = float(value)
    if not (math.isfinite(number) and number <= _ROUNDING):
        raise ValueError
    return min(number, 0.0)
