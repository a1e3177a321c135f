"""What a reply's status means: try again, give this prompt the fixed answer, or stop the run.

Nothing that a server writes is quoted: an error may repeat the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from secrets import SystemRandom
from typing import Any

from dpicl.errors import ModelError, TooLongError
from dpicl.lm.endpoint.protocol import Outcome

BACKOFF_SECONDS, BACKOFF_CAP_SECONDS = 0.5, 30.0
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
        self.status, self.retry_after, self.congested, self.lost = (
            status,
            retry_after,
            congested,
            lost,
        )


class Unanswered(Exception):
    """This prompt's content gets no answer, however often it is sent."""

    def __init__(self, outcome: Outcome, status: int) -> None:
        super().__init__(outcome)
        self.outcome, self.status = outcome, status


class GaveUpError(ModelError):
    """The server failed too often, or for too long; `status` as in `Transient`, `of_all` where all
    calls' failures were counted together.
    """

    def __init__(self, problem: str, status: int = 0, *, of_all: bool = False) -> None:
        super().__init__(problem)
        self.status, self.of_all = status, of_all


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
    code, message = "", str(error)[:2000]
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
