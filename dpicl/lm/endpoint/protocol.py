"""What is sent to a server and what its replies mean; pure, no network.

Servers write log-probabilities in two ways: lists of their own (completions of OpenAI, vLLM)
or one list `content` (every chat, and also completions of llama.cpp). Both are read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Api = Literal["completions", "chat"]
Mode = Literal["echo", "top-logprobs", "generated", "text", "bare-text"]
"""How labels are scored, or how a text is asked for: with seed and stop strings, or without them."""
PATHS: dict[Api, str] = {"completions": "/completions", "chat": "/chat/completions"}
GENERATED_TOKENS = 8
"""How much of an answer is read where it has to be parsed."""
MOST_TOKENS = 1 << 32
"""No prompt and no answer has more; a server that counts more does not count."""
_ROUNDING = 1e-3
"""A log-probability may be so far above 0 by what rounding does, and is taken as 0 then."""


class GarbledError(Exception):
    """A reply that is not what was asked for; says in what way."""


@dataclass(frozen=True)
class RequestMode:
    """How one server is asked; `top` is the number of likeliest tokens that are asked for."""

    api: Api
    mode: Mode
    top: int = 0

    @property
    def label(self) -> str:
        """As manifests and messages name it: `completions echo`, `chat top-20 logprobs`."""
        return f"{self.api} top-{self.top} logprobs" if self.mode == "top-logprobs" else f"{self.api} {self.mode}"


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
    completion_tokens: int
    model: str
    fingerprint: str


def request_body(manner: RequestMode, model: str, text: str, labels: Sequence[str]) -> dict[str, Any]:
    """The JSON of one request for scores; a chat is told the labels, because chat models like to explain."""
    body: dict[str, Any] = {"model": model, "temperature": 0, "max_tokens": GENERATED_TOKENS if manner.mode == "generated" else 1}
    if manner.api == "completions":
        options = {"echo": {"echo": True, "logprobs": 1}, "top-logprobs": {"logprobs": manner.top}, "generated": {}}[manner.mode]
        return {**body, "prompt": text, **options}
    told = f"Answer with one word: {' or '.join(label.strip() for label in labels)}."
    messages = [{"role": "system", "content": told}, {"role": "user", "content": text}]
    options = {"logprobs": True, "top_logprobs": manner.top} if manner.mode == "top-logprobs" else {}
    return {**body, "messages": messages, **options}


def read_reply(content: Any) -> Reply:
    """The first choice of a reply.

    Raises:
        GarbledError: a part is missing or of another kind than the protocol says.
    """
    try:
        choice = content["choices"][0]
        message = choice.get("message") or {}
        usage = content.get("usage") or {}
        tokens, logprobs, tops = _logprobs(choice.get("logprobs") or {})
        prompt_tokens, completion_tokens = (_token_count(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens"))
        return Reply(
            text=str(choice.get("text") or message.get("content") or ""),
            finish_reason=str(choice.get("finish_reason") or ""),
            refused=bool(message.get("refusal")),
            tokens=tokens,
            logprobs=logprobs,
            top=tops,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            model=str(content.get("model") or ""),
            fingerprint=str(content.get("system_fingerprint") or ""),
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError):
        raise GarbledError("the reply is not what the protocol says") from None


def _logprobs(given: Any) -> tuple[tuple[str, ...], tuple[float | None, ...], tuple[tuple[str, float], ...]]:
    """Tokens, their log-probabilities, and what was likely at the first position."""
    if given.get("content"):
        entries = given["content"]
        tokens, logprobs = [entry["token"] for entry in entries], [entry["logprob"] for entry in entries]
        likely = [(entry["token"], entry["logprob"]) for entry in entries[0].get("top_logprobs") or []]
    else:
        tokens, logprobs = given.get("tokens") or [], given.get("token_logprobs") or []
        first = (given.get("top_logprobs") or [None])[0] or {}
        likely = list(first.items())
    if len(tokens) != len(logprobs):
        raise ValueError
    likely += zip(tokens[:1], logprobs[:1], strict=True)  # what was chosen need not be among the likeliest
    top = {str(token): _logprob(logprob) for token, logprob in likely if logprob is not None and math.isfinite(logprob)}
    return tuple(map(str, tokens)), tuple(None if value is None else _logprob(value) for value in logprobs), tuple(top.items())


def _logprob(value: Any) -> float:
    number = float(value)
    if not (math.isfinite(number) and number <= _ROUNDING):
        raise ValueError
    return min(number, 0.0)


def _token_count(value: Any) -> int:
    count = int(value)
    if not 0 <= count <= MOST_TOKENS:
        raise ValueError
    return count
