"""Calls to one server: the one retry layer, its deadline, its limit of calls at once, its counts.

Every request goes to the address that the model's entry names: no redirect is followed, no
key, cookie or login from elsewhere is sent. Nothing that was sent or received is logged.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar
from urllib.request import getproxies, proxy_bypass

import httpx
from pydantic import SecretStr

from dpicl import __version__
from dpicl.errors import ModelError
from dpicl.lm.endpoint.adaptive_limiter import AdaptiveLimiter
from dpicl.lm.endpoint.address import is_loopback
from dpicl.lm.endpoint.failures import GaveUpError, Transient, Unanswered, backoff, check_status
from dpicl.lm.endpoint.protocol import MOST_TOKENS, GarbledError, Reply, read_reply
from dpicl.lm.spec import ModelSpec

log = logging.getLogger(__name__)
T = TypeVar("T")
ATTEMPTS = 10
"""Of one call, not counting those that the server put off (429)."""
CONNECT_SECONDS, ATTEMPTS_IN_DEADLINE = 10.0, 4
SILENT_SECONDS = 6.0
"""Until a server that does not even list its models is given up."""
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


class Client:
    """An open connection pool; belongs to one event loop.

    Args:
        spec: where requests go, and how patiently.
        key: the server's, sent with every request and never printed; empty for none.
        usage: counts that are added to.
        start: how many calls at once to begin with.
    """

    def __init__(self, spec: ModelSpec, key: SecretStr, usage: Usage, start: float) -> None:
        self.spec, self.usage, self.limiter = (
            spec,
            usage,
            AdaptiveLimiter(spec.max_connections, start),
        )
        self._url = httpx.URL(str(spec.url).rstrip("/"))
        headers = {
            "User-Agent": f"dpicl/{__version__}",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
        }
        self._headers = headers | (
            {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
        )
        self._free: list[httpx.AsyncClient] = []

    async def aclose(self) -> None:
        """Close the connections."""
        for http in self._free:
            await http.aclose()

    @contextmanager
    def _connection(self) -> Iterator[httpx.AsyncClient]:
        """A connection that no other call uses meanwhile; through the user's proxy for https to
        other machines, directly for the rest.

        Each is a pool for itself, the one that was used last is used first: one pool of httpx would
        look at all of its connections at every request, which makes hundreds of them slower than
        one.
        """
        if self._free:
            http = self._free.pop()
        else:
            host, is_https = self._url.host, self._url.scheme != "http"
            proxy = (
                getproxies().get("https")
                if is_https and not proxy_bypass(host) and not is_loopback(host)
                else None
            )
            limits = httpx.Limits(
                max_connections=1, max_keepalive_connections=1, keepalive_expiry=30.0
            )
            transport = httpx.AsyncHTTPTransport(
                verify=_certificates(is_https), limits=limits, proxy=proxy
            )
            timeout = httpx.Timeout(
                self.spec.deadline_seconds / ATTEMPTS_IN_DEADLINE,
                connect=CONNECT_SECONDS,
                pool=None,
            )
            # trust_env off: it would also take logins from ~/.netrc
            http = httpx.AsyncClient(
                transport=transport, timeout=timeout, headers=self._headers, trust_env=False
            )
        try:
            yield http
        finally:
            self._free.append(http)

    async def post(
        self,
        path: str,
        body: dict[str, Any],
        read: Callable[[Reply], T],
        *,
        attempts: int = ATTEMPTS,
    ) -> T:
        """What `read` makes of the server's reply; a reply that it finds garbled is requested
        again.

        Raises:
            Unanswered: this prompt's content gets no answer.
            GaveUpError: the server failed too often or too long; says how to resume.
            ModelError: no request of this kind can succeed.
        """
        return await self.send(
            path, body, lambda content: read(read_reply(content)), attempts=attempts
        )

    async def send(
        self, path: str, body: dict[str, Any], read: Callable[[Any], T], *, attempts: int = ATTEMPTS
    ) -> T:
        """The same for a reply that holds no text: `read` is given its JSON."""
        return await self._call("POST", path, json.dumps(body).encode(), read, attempts)

    async def models(self, *, attempts: int) -> Any:
        """What the server lists at /models, for which no model has to be loaded; for errors see
        `post`, of a silent server too.
        """
        try:
            async with asyncio.timeout(SILENT_SECONDS):
                return await self._call("GET", "/models", None, lambda content: content, attempts)
        except TimeoutError:
            raise GaveUpError(
                f"model {self.spec.name!r}: the server is silent for {SILENT_SECONDS:g} seconds; "
                f"expected one that answers"
            ) from None

    async def _call(
        self, method: str, path: str, body: bytes | None, read: Callable[[Any], T], attempts: int
    ) -> T:
        self.usage.calls += 1
        async with self.limiter:
            try:
                async with asyncio.timeout(self.spec.deadline_seconds):
                    return await self._repeat(method, path, body, read, attempts)
            except TimeoutError:
                raise self._gave_up(
                    f"a call took more than {self.spec.deadline_seconds:g} seconds"
                ) from None

    async def _repeat(
        self, method: str, path: str, body: bytes | None, read: Callable[[Any], T], attempts: int
    ) -> T:
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
                raise self._gave_up(
                    f"the last {self.limiter.failures} calls failed ({problem})",
                    problem.status,
                    of_all=True,
                )
            if counted >= attempts:
                raise self._gave_up(f"one call failed {counted} times ({problem})", problem.status)
            wait = backoff(attempt, problem.retry_after)
            log.debug("attempt %d failed (%s), next one in %.1f s", attempt, problem, wait)
            await asyncio.sleep(wait)
            self.usage.repeated_calls += 1

    async def _attempt(self, method: str, path: str, body: bytes | None) -> Any:
        """One HTTP request: its content as JSON, and its tokens counted."""
        received, content = bytearray(), None
        try:
            with self._connection() as http:
                async with http.stream(method, f"{self._url}{path}", content=body) as response:
                    async for part in response.aiter_raw():
                        received += part
                        if len(received) > MAX_REPLY_BYTES:
                            raise ModelError(
                                f"{self._url.host}: answers with more than {MAX_REPLY_BYTES} bytes"
                            )
            with suppress(ValueError, RecursionError):
                content = json.loads(received)
            check_status(response.status_code, response.headers, content, self.spec.name)
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
        return GaveUpError(f"model {self.spec.name!r}: {why}; {RESUME}", status, of_all=of_all)


@cache
def _certificates(is_https: bool) -> ssl.SSLContext:
    """Loading them takes a tenth of a second: once is enough. For http none: nothing that needs TLS
    can succeed.
    """
    return httpx.create_ssl_context() if is_https else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
