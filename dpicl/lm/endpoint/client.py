"""Calls to one server: the one retry layer, its deadline, its limit of calls at once, its counts.

Every request goes to the address that the model's entry names: no redirect is followed, no
key, cookie or login from elsewhere is sent. Nothing that was sent or received is logged.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx

from dpicl import __version__
from dpicl.errors import ModelError
from dpicl.lm.endpoint.adaptive_limiter import AdaptiveLimiter
from dpicl.lm.endpoint.connection_pool import ConnectionPool
from dpicl.lm.endpoint.failures import GaveUpError, Transient, Unanswered, backoff, check_status
from dpicl.lm.endpoint.protocol import MOST_TOKENS, GarbledError, Reply, read_reply

log = logging.getLogger(__name__)
T = TypeVar("T")
ATTEMPTS = 10
"""Of one call, not counting those that the server put off (429)."""
CONNECT_SECONDS, ATTEMPTS_IN_DEADLINE = 10.0, 4
MAX_REPLY_BYTES = 64 << 20
RESUME = "what was scored is kept: `dpicl run --resume RUN` goes on once the server answers"


@dataclass
class Usage:
    """Requests to a server since the last tally."""

    calls: int = 0
    repeated_calls: int = 0
    """Attempts beyond the first of a call."""
    lost_answers: int = 0
    """Requests that were sent and got no whole answer: they may be billed all the same."""
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True)
class Server:
    """Where a model is and how patiently it is asked; `key` is never printed."""

    name: str
    url: str
    key: str = field(repr=False)
    max_connections: int
    deadline_seconds: float


class Client:
    """An open connection pool; belongs to one event loop.

    Args:
        server: where requests go.
        usage: counts that are added to.
        start: how many calls at once to begin with.
    """

    def __init__(self, server: Server, usage: Usage, start: float) -> None:
        self.server, self.usage, self.limiter = server, usage, AdaptiveLimiter(server.max_connections, start)
        timeout = httpx.Timeout(server.deadline_seconds / ATTEMPTS_IN_DEADLINE, connect=CONNECT_SECONDS, pool=None)
        headers = {"User-Agent": f"dpicl/{__version__}", "Accept-Encoding": "identity", "Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {server.key}"} if server.key else {}
        self._pool = ConnectionPool(server.url, headers, timeout)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.aclose()

    async def post(self, path: str, body: dict[str, Any], read: Callable[[Reply], T], *, attempts: int = ATTEMPTS) -> T:
        """What `read` makes of the server's reply; a reply that it finds garbled is requested again.

        Raises:
            Unanswered: this prompt's content gets no answer.
            GaveUpError: the server failed too often or too long; says how to resume.
            ModelError: no request of this kind can succeed.
        """
        return await self._call("POST", path, json.dumps(body).encode(), lambda content: read(read_reply(content)), attempts)

    async def models(self, *, attempts: int) -> Any:
        """What the server lists at /models; for errors see `post`."""
        return await self._call("GET", "/models", None, lambda content: content, attempts)

    async def _call(self, method: str, path: str, body: bytes | None, read: Callable[[Any], T], attempts: int) -> T:
        self.usage.calls += 1
        async with self.limiter:
            try:
                async with asyncio.timeout(self.server.deadline_seconds):
                    return await self._repeat(method, path, body, read, attempts)
            except TimeoutError:
                raise self._gave_up(f"a call took more than {self.server.deadline_seconds:g} seconds") from None

    async def _repeat(self, method: str, path: str, body: bytes | None, read: Callable[[Any], T], attempts: int) -> T:
        """Attempts until one succeeds, or none is worth another."""
        attempt = counted = 0
        while True:
            era = self.limiter.era
            try:
                answer = read(await self._attempt(method, path, body))
                self.limiter.succeeded()
                return answer
            except Unanswered:
                self.limiter.succeeded()
                raise
            except GarbledError as error:
                problem = Transient(str(error), lost=True)
            except Transient as transient:
                problem = transient
            put_off = problem.status == 429
            attempt, counted = attempt + 1, counted + (not put_off)
            self.usage.lost_answers += problem.lost
            if self.limiter.failed(era, congested=problem.congested, alive=put_off):
                raise self._gave_up(f"the last {self.limiter.failures} calls failed ({problem})", problem.status, of_all=True)
            if counted >= attempts:
                raise self._gave_up(f"one call failed {counted} times ({problem})", problem.status)
            wait = backoff(attempt, problem.retry_after)
            log.debug("attempt %d failed (%s), next one in %.1f s", attempt, problem, wait)
            await asyncio.sleep(wait)
            self.usage.repeated_calls += 1

    async def _attempt(self, method: str, path: str, body: bytes | None) -> Any:
        """One HTTP request: its content as JSON, and its tokens counted."""
        try:
            with self._pool.connection() as http:
                async with http.stream(method, self.server.url + path, content=body) as response:
                    content = await _read_json(response)
            check_status(response.status_code, response.headers, content, self.server.name)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise Transient("no connection") from None
        except httpx.TimeoutException:
            raise Transient("no answer in time", congested=True, lost=True) from None
        except httpx.TransportError:
            raise Transient("the connection broke", lost=True) from None
        if content is None:
            raise Transient("the answer was cut", lost=True)
        billed = content.get("usage") if isinstance(content, dict) else None
        for name in ("prompt_tokens", "completion_tokens"):
            count = billed.get(name) if isinstance(billed, dict) else None
            if isinstance(count, int) and 0 <= count <= MOST_TOKENS:
                setattr(self.usage, name, getattr(self.usage, name) + count)
        return content

    def _gave_up(self, why: str, status: int = 0, *, of_all: bool = False) -> GaveUpError:
        return GaveUpError(f"model {self.server.name!r}: {why}; {RESUME}", status, of_all=of_all)


async def _read_json(response: httpx.Response) -> Any:
    """The whole content; None where it is no JSON."""
    parts, size = [], 0
    async for part in response.aiter_raw():
        parts.append(part)
        size += len(part)
        if size > MAX_REPLY_BYTES:
            raise ModelError(f"{response.url.host}: answers with more than {MAX_REPLY_BYTES} bytes")
    try:
        return json.loads(b"".join(parts))
    except (ValueError, RecursionError):
        return None
