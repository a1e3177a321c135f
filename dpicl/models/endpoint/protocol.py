"""The protocol of OpenAI-compatible servers, without a network: which addresses a model may have,
what a reply holds, and what its status means: try again, give this prompt the fixed answer, or stop
the run.

Servers write log-probabilities in two ways: lists of their own (completions of OpenAI, vLLM)
or one list `content` (every chat, and also completions of llama.cpp). Both are read.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from secrets import SystemRandom
from typing import Any, Literal
from urllib.parse import urlsplit

from dpicl.ground.errors import ModelError, TooLongError
from dpicl.models.requests import prompt_digest

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
    """How one server is asked in one of the `ways`.

    `asks` says for what, in words; `top` is the number of likeliest tokens that are requested;
    `limit` the parameter with the number of new tokens, whose name newer chats have changed.
    """

    api: Api
    asks: str
    top: int = 0
    limit: Limit = "max_tokens"

    @property
    def label(self) -> str:
        """As manifests and messages name it: `completions echo`,
        `completions top-20 logprobs, else echo`, `chat top-20 logprobs`.
        """
        renamed = "" if self.limit == "max_tokens" else f" ({self.limit})"
        return f"{self.api} {self.asks}{renamed}"


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

    def pairs(entries: Any) -> list[tuple[Any, Any]]:
        return [(entry["token"], entry["logprob"]) for entry in entries]

    tokens: Sequence[Any]
    logprobs: Sequence[Any]
    if content := written.get("content"):
        tokens, logprobs = zip(*pairs(content), strict=True)
        likely = pairs(content[0].get("top_logprobs") or [])
    else:
        tokens = written.get("tokens") or []
        logprobs = written.get("token_logprobs") or []
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


def check_address(url: str, *, key: bool, private: bool) -> None:
    """Refuse an address that is malformed, or that would get a secret in the clear.

    Args:
        url: the part that `/completions` is appended to.
        key: a key goes with every request.
        private: prompts may hold private rows.

    Raises:
        ValueError: one clause with the rule and the expected shape; never the address.
    """
    try:
        parts = urlsplit(url)
        well_formed = re.fullmatch(r"[\x21-\x7e]*", url) and parts.port != 0
    except ValueError:
        well_formed = None
    if not well_formed:
        raise ValueError("url is no address; expected one such as http://127.0.0.1:8000/v1")
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError(
            "url has no scheme http or https or no host; expected one such as "
            "http://127.0.0.1:8000/v1"
        )
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError(
            "url holds a user, a query or a fragment; expected scheme, host, port and path only, "
            "and the key by key_env"
        )
    address = _literal(host)
    if address is not None and (
        address.is_link_local or address.is_multicast or address.is_unspecified
    ):
        raise ValueError(
            "url is at a link-local, multicast or empty address; expected the address of a server"
        )
    if parts.scheme == "https" or is_loopback(host):
        return
    if key:
        raise ValueError(
            "key_env with http to another machine would send the key in the clear; expected https"
        )
    if private and not (address is not None and address.is_private):
        raise ValueError(
            "trust local with http to another machine would send private rows in the clear; "
            "expected https or a private address"
        )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by number or as `localhost`."""
    address = _literal(host)
    return host == "localhost" if address is None else address.is_loopback


def _literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a host is written as; None for a name."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    inside = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return inside or address


BACKOFF_SECONDS = 0.5
BACKOFF_CAP_SECONDS = 30.0
"""First and longest wait between two attempts; the longest also where the server requests more."""
_PASSING = {408, 409, 424, 425, 429}
"""424 is what TGI says when its model fails; the next try may succeed."""
_CONGESTED = {429, 503, 529}
_CONTENT = re.compile(r"content.?(filter|policy)|moderation|flagged|safety", re.IGNORECASE)
_STATED_LIMIT = re.compile(r"(?:context|maximum)\D{1,60}(\d{2,8})\b")
_TOO_LONG = re.compile(
    r"context.?(length|window|size)|(maximum|max).{0,40}(length|tokens)|too (long|many tokens)",
    re.IGNORECASE,
)


class Transient(Exception):
    """A failure that may pass by itself.

    `status` is the one that the server answered with, 0 without an answer; `retry_after` the
    wait that it requests, in seconds. `congested` says that fewer calls at once would help,
    `lost` that the request had been sent and may be billed although no whole answer came.
    """

    def __init__(
        self,
        problem: str,
        *,
        status: int = 0,
        retry_after: float | None = None,
        congested: bool = False,
        lost: bool = False,
    ) -> None:
        super().__init__(problem)
        self.status = status
        self.retry_after = retry_after
        self.congested = congested
        self.lost = lost


class Unanswered(Exception):
    """This prompt's content gets no answer, however often it is sent."""

    def __init__(self, outcome: Outcome, status: int) -> None:
        super().__init__(outcome)
        self.outcome = outcome
        self.status = status


class GaveUpError(ModelError):
    """The server failed too often, or for too long; `status` as in `Transient`, `of_all` where all
    calls' failures were counted together. `problem` is the sentence without its end, which is
    another one for a run.
    """

    def __init__(self, problem: str, status: int = 0, *, of_all: bool = False) -> None:
        super().__init__(f"{problem}; expected a server that answers: start it and try again")
        self.problem = problem
        self.status = status
        self.of_all = of_all


class StopError(ModelError):
    """The server turns everything away, in every mode."""


def check_status(status: int, headers: Mapping[str, str], content: Any, model: str) -> None:
    """Return on 200, raise on everything else.

    Raises:
        Transient: 408, 409, 424, 425, 429 and 5xx.
        Unanswered: another 4xx that is about this prompt's content.
        ModelError: everything that is about the whole run.
    """
    if status == 200:
        return
    error = content.get("error", content) if isinstance(content, dict) else content
    code = ""
    message = str(error)[:2000]
    if isinstance(error, dict):  # wherever the server puts them
        code = " ".join(str(error.get(name) or "") for name in ("code", "type"))[:200]
        message = str(error.get("message") or error.get("detail") or "")[:2000]
    if status == 402 or "insufficient_quota" in code:
        raise StopError(
            f"model {model!r}: the server says that the quota is spent (status {status}); "
            f"expected an account with credit"
        )
    if status in _PASSING or status >= 500:
        wait = retry_after(headers.get("retry-after", ""))
        raise Transient(
            f"status {status}", status=status, retry_after=wait, congested=status in _CONGESTED
        )
    if 300 <= status < 400:
        raise StopError(
            f"model {model!r}: the server redirects (status {status}); expected the address that "
            f"answers by itself"
        )
    if _CONTENT.search(code) or (status in (400, 403, 422, 451) and _CONTENT.search(message)):
        raise Unanswered("filtered", status)
    if status in (401, 403):
        raise StopError(
            f"model {model!r}: the server refuses the key (status {status}); expected key_env to "
            f"name the variable that holds it"
        )
    if status == 413 or _TOO_LONG.search(f"{code} {message}"):
        limit = _STATED_LIMIT.search(message)
        stated = f" of {limit[1]} tokens" if limit else ""
        raise TooLongError(
            f"model {model!r}: a prompt does not fit its context{stated} (status {status})"
        )
    if status in (400, 422, 451):
        raise Unanswered("rejected", status)
    raise ModelError(
        f"model {model!r}: the server has no such model or no such path (status {status}); "
        f"expected its name and a url up to /v1"
    )


def retry_after(header: str) -> float | None:
    """Seconds of a Retry-After header, which holds a number or a date; None if it holds neither."""
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", header):
        return float(header)
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


def backoff(attempt: int, requested: float | None) -> float:
    """Seconds to wait after the given attempt (1 is the first): full jitter, or what the server
    requests, capped.
    """
    if requested is not None:
        return min(requested, BACKOFF_CAP_SECONDS)
    return SystemRandom().uniform(
        0, min(BACKOFF_CAP_SECONDS, BACKOFF_SECONDS * 2 ** min(attempt - 1, 10))
    )
