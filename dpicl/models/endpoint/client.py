"""Calls to one server, and asking it for many answers: the one layer of retries with its deadline,
how many calls are under way at once, what is counted, and when a server is beyond help.

Every request goes to the address that the model's entry names: no redirect is followed, no
key, cookie or login from elsewhere is sent. Nothing that was sent or received is logged.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar
from urllib.request import getproxies, proxy_bypass

import httpx
from pydantic import SecretStr

from dpicl import __version__
from dpicl.ground.errors import ModelError, TooLongError
from dpicl.models.endpoint.protocol import (
    MOST_TOKENS,
    PATHS,
    Answer,
    Api,
    GarbledError,
    GaveUpError,
    Limit,
    Outcome,
    Reply,
    Request,
    RequestMode,
    Transient,
    Unanswered,
    backoff,
    check_status,
    is_loopback,
    read_reply,
)

if TYPE_CHECKING:
    from dpicl.models.spec import ModelSpec

log = logging.getLogger("dpicl.endpoint")
T = TypeVar("T")
ATTEMPTS = 10
"""Of one call, not counting those that the server put off (429)."""
CONNECT_SECONDS = 10.0
ATTEMPTS_IN_DEADLINE = 4
SILENT_SECONDS = 6.0
"""Until a server that does not even list its models is given up."""
UNREACHED = "no connection"
MAX_REPLY_BYTES = 64 << 20


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
class _Call(Generic[T]):
    """What is sent, what `read` makes of the JSON that comes, and how often it is tried."""

    method: str
    path: str
    body: bytes | None
    read: Callable[[Any], T]
    attempts: int


class Client:
    """An open connection pool; belongs to one event loop.

    Args:
        spec: where requests go, and how patiently.
        key: the server's, sent with every request and never printed; empty for none.
        usage: counts that are added to.
        start: how many calls at once to begin with.
    """

    def __init__(self, spec: ModelSpec, key: SecretStr, usage: Usage, start: float) -> None:
        self.spec = spec
        self.usage = usage
        self.limiter = AdaptiveLimiter(spec.max_connections, start)
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
            host = self._url.host
            is_https = self._url.scheme != "http"
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

    async def send(
        self, path: str, body: dict[str, Any], read: Callable[[Any], T], *, attempts: int = ATTEMPTS
    ) -> T:
        """What `read` makes of the JSON of the server's reply; a reply that it finds garbled is
        requested again.

        Raises:
            Unanswered: this prompt's content gets no answer.
            GaveUpError: the server failed too often or too long.
            ModelError: no request of this kind can succeed.
        """
        return await self._call(_Call("POST", path, json.dumps(body).encode(), read, attempts))

    async def models(self, *, attempts: int) -> Any:
        """What the server lists at /models, for which no model has to be loaded; for errors see
        `post`, of a silent server too.
        """
        try:
            async with asyncio.timeout(SILENT_SECONDS):
                listing = _Call[Any]("GET", "/models", None, lambda content: content, attempts)
                return await self._call(listing)
        except TimeoutError:
            raise self._gave_up(f"it is silent for {SILENT_SECONDS:g} seconds") from None

    async def _call(self, call: _Call[T]) -> T:
        self.usage.calls += 1
        async with self.limiter:
            try:
                async with asyncio.timeout(self.spec.deadline_seconds):
                    return await self._repeat(call)
            except TimeoutError:
                raise self._gave_up(
                    f"a call took more than {self.spec.deadline_seconds:g} seconds"
                ) from None

    async def _repeat(self, call: _Call[T]) -> T:
        """Attempts until one succeeds, or none is worth another."""
        attempt = counted = 0
        while True:
            era = self.limiter.era
            try:
                answer = call.read(await self._attempt(call))
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
            attempt += 1
            counted = counted + (not put_off)
            self.usage.lost_answers += problem.lost
            if self.limiter.failed(era, congested=problem.congested, alive=put_off):
                raise self._gave_up(
                    f"the last {self.limiter.failures} calls failed ({problem})",
                    problem,
                    of_all=True,
                )
            if counted >= call.attempts:
                raise self._gave_up(f"one call failed {counted} times ({problem})", problem)
            wait = backoff(attempt, problem.retry_after)
            log.debug("attempt %d failed (%s), next one in %.1f s", attempt, problem, wait)
            await asyncio.sleep(wait)
            self.usage.repeated_calls += 1

    async def _attempt(self, call: _Call[Any]) -> Any:
        """One HTTP request: its content as JSON, and its tokens counted."""
        received = bytearray()
        content = None
        try:
            with self._connection() as http:
                url = f"{self._url}{call.path}"
                async with http.stream(call.method, url, content=call.body) as response:
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
            raise Transient(UNREACHED) from None
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

    def _gave_up(
        self, why: str, problem: Transient | None = None, *, of_all: bool = False
    ) -> GaveUpError:
        told = (
            f"nothing answers at {self._url}"
            if str(problem) == UNREACHED
            else f"the server at {self._url} gives no answer"
        )
        status = problem.status if problem else 0
        return GaveUpError(f"model {self.spec.name!r}: {told}: {why}", status, of_all=of_all)


@cache
def _certificates(is_https: bool) -> ssl.SSLContext:
    """Loading them takes a tenth of a second: once is enough. For http none: nothing that needs TLS
    can succeed.
    """
    return httpx.create_ssl_context() if is_https else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


ROUNDS = 6
"""After so many failures in a row for every call that is under way the server counts as down."""


class AdaptiveLimiter:
    """Lets up to `limit` calls through; belongs to one event loop.

    Args:
        most: the limit's upper bound.
        start: the limit to start with.
    """

    def __init__(self, most: int, start: float) -> None:
        self.most = most
        self.limit = min(max(start, 1.0), float(most))
        self.failures = 0
        self.era = 0
        """Failures since the last success; number of times that the limit was halved."""
        self._active = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        while self._active >= int(self.limit):
            place = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            await place
        self._active += 1

    async def __aexit__(self, *_: object) -> None:
        self._active -= 1
        self._wake()

    def succeeded(self) -> None:
        """A call was answered."""
        self.failures = 0
        self.limit = min(self.limit + (1 / self.limit if self.era else 1), float(self.most))
        self._wake()

    def failed(self, era: int, *, congested: bool, alive: bool) -> bool:
        """A call that began in `era` failed; gives whether the server counts as down.

        Args:
            congested: fewer calls at once would have helped.
            alive: the server answered, and put the call off.
        """
        self.failures += not alive
        if congested and era == self.era:
            self.limit = max(self.limit / 2, 1.0)
            self.era = era + 1
        return self.failures >= ROUNDS * max(self._active, 1)

    def _wake(self) -> None:
        for _ in range(min(int(self.limit) - self._active, len(self._waiting))):
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)


REJECTED_IN_A_ROW = 50
"""After so many prompts without an answer a public request is sent: perhaps it is no matter of
their content.
"""
WORTH_WAITING = 64
"""Characters, about the 16 tokens of a block that vLLM keeps: for less, or for less than a quarter
of what is left to read, no request waits.
"""
TURNS = 3
"""How often a prompt is sent again that was given up because of others' failures."""
R = TypeVar("R", bound=Request)


def in_order(requests: Sequence[R], at_once: int) -> list[tuple[R, R]]:
    """Each request with the one it waits for, itself if none: of `at_once` groups first the firsts,
    then those that wait for them, and so on.

    Args:
        requests: sorted by prompt.
        at_once: how many groups that share nothing are begun together.
    """
    groups = _groups(requests, None)
    ordered = list[tuple[int, R, R]]()
    for start in range(0, len(groups), at_once):
        some = [
            waiting
            for group in groups[start : start + at_once]
            for waiting in _waiting(group, None, 0)
        ]
        ordered += sorted(some, key=lambda waiting: waiting[0])
    return [(request, first) for _, request, first in ordered]


def _waiting(group: Sequence[R], first: R | None, depth: int) -> list[tuple[int, R, R]]:
    """How many requests are before each of these, one after another, and which is the last of
    them.
    """
    leader = group[0]
    return [
        (depth, leader, first or leader),
        *(
            waiting
            for some in _groups(group[1:], leader)
            for waiting in _waiting(some, leader, depth + 1)
        ),
    ]


def _groups(requests: Sequence[R], read: R | None) -> list[list[R]]:
    """Neighbours that share enough with the first of them, beyond what that one shares with a
    prompt that the server has read.

    Each level spares a quarter of what is left, so that they are few; copies of a prompt have
    nothing left, and each is a group of its own.
    """
    groups = list[list[R]]()
    shared = ""
    least = 0
    for request in requests:
        if not groups or len(shared) < least or not request.prompt.startswith(shared):
            known = len(commonprefix([request.prompt, read.prompt])) if read else 0  # noqa: RUF071, of texts, not of paths
            least = known + max(WORTH_WAITING, (len(request.prompt) - known) // 4)
            shared = request.prompt[:least]
            groups.append([])
        groups[-1].append(request)
    return groups


@dataclass
class Requester(Generic[R]):
    """One model, asked in one way and mode.

    `public` is a request of no private content; `context` the model's length in tokens, where it is
    known; `tokens` a label's tokens after a prompt's ending, of which those that are known are not
    asked for again.
    """

    asks: ClassVar[str]
    """What is asked for, in words."""
    probe: ClassVar[Any]
    """The public request by which a server is tried."""
    client: Client
    mode: RequestMode
    public: R
    _: KW_ONLY
    context: int | None = None
    tokens: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    attempts: int = ATTEMPTS
    served_name: str = ""
    fingerprint: str = ""
    """The server's own name for the model, and its mark for how it is run; of the last reply."""
    _rejected: int = 0

    @classmethod
    def modes(cls, api: Api, limit: Limit) -> list[RequestMode]:
        """In which modes of an interface a server may be asked in this way, best first."""
        return [RequestMode(api, cls.asks, limit=limit)]

    @classmethod
    def faster(cls, mode: RequestMode) -> list[RequestMode]:
        """What is worth a try once a server can be asked in this mode, best first."""
        return []

    @classmethod
    def is_allowed(cls, spec: ModelSpec) -> bool:
        """Whether a model's entry allows this way."""
        return True

    @staticmethod
    def repeats(answers: Sequence[Answer]) -> str:
        """How far answers to one request agree, in words."""
        raise NotImplementedError

    async def prepare(self, requests: Sequence[R]) -> None:
        """Find out what these requests' answers are read with."""

    async def attempt(self, request: R) -> Answer:
        """The answer to one request; for errors see `Client.send`."""
        raise NotImplementedError

    def fixed(self, request: R, outcome: Outcome) -> Answer:
        """The answer to a prompt that the server does not answer because of its content."""
        raise NotImplementedError

    async def answer(self, request: R) -> Answer:
        """The answer to a request that was prepared for, or the fixed one.

        Raises:
            ModelError: the prompt gets no answer, or the server rejects everything.
        """
        try:
            answer = await self.attempt(request)
            self._rejected = 0
            return answer
        except Unanswered as problem:
            self._rejected += problem.outcome == "rejected"
            if self._rejected >= REJECTED_IN_A_ROW:
                self._rejected = 0
                await self.check()
            return self.fixed(request, problem.outcome)
        except TooLongError as problem:
            size = len(request.prompt)
            raise TooLongError(
                f"{problem}: it has {size} characters; expected fewer demonstrations or a longer "
                f"context"
            ) from None

    async def answer_all(
        self, requests: Sequence[R], keep: Callable[[R, Answer], None]
    ) -> dict[tuple[Any, ...], ModelError]:
        """Every request once, many at a time; each answer is kept as soon as it is there, also if a
        later one fails.

        Requests that share a beginning wait for the first of them (`in_order`): the server keeps
        what they share from then on.

        Returns:
            What the server fails on although it answers others, by key.

        Raises:
            ModelError: it answers nothing any more.
        """
        await self.prepare(requests)
        failed = dict[tuple[Any, ...], ModelError]()
        answered = defaultdict[R, asyncio.Event](asyncio.Event)
        rest = iter(in_order(requests, self.client.spec.max_connections))

        async def in_turn() -> None:
            for request, first in rest:
                if request is not first:
                    await answered[first].wait()
                try:
                    keep(request, await self._persistent(request))
                except ModelError as problem:
                    await self.check()
                    failed[request.key] = problem
                answered[request].set()

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self.client.spec.max_connections, len(requests))):
                    group.create_task(in_turn())
        except ExceptionGroup as problems:
            raise problems.exceptions[0] from None
        return failed

    async def _persistent(self, request: R) -> Answer:
        """Sent again where other prompts' failures made the client give up, for these must not take
        this one's answer.
        """
        for _ in range(TURNS):
            try:
                return await self.answer(request)
            except GaveUpError as problem:
                if not problem.of_all:
                    raise
            await self.check()
        return await self.answer(request)

    async def public_answers(self, repeats: int) -> list[Answer]:
        """The answers to the public request, sent so often; for errors see `answer`."""
        await self.prepare([self.public])
        return [await self.answer(self.public) for _ in range(repeats)]

    async def check(self) -> None:
        """Whether the server still answers anything at all.

        Raises:
            ModelError: it does not; says why, of the public request.
        """
        await self.prepare([self.public])
        await self.required(self.attempt(self.public))

    async def required(self, answer: Awaitable[T]) -> T:
        """The answer to something public.

        Raises:
            ModelError: there is none.
        """
        try:
            return await answer
        except Unanswered as problem:
            status = problem.status
        raise ModelError(
            f"model {self.client.spec.name!r}: the server rejects a public question too (status "
            f"{status}); expected a server that still answers {self.mode.label}"
        )

    async def send(self, body: dict[str, Any], read: Callable[[Reply], T]) -> T:
        """One HTTP request in this mode; for errors see `Client.send`."""

        def read_whole(content: Any) -> T:
            reply = read_reply(content)
            self.served_name = reply.model
            self.fingerprint = reply.fingerprint
            if reply.refused or reply.finish_reason == "content_filter":
                raise Unanswered("refused" if reply.refused else "filtered", 200)
            if self.context is not None and reply.prompt_tokens >= self.context:
                raise TooLongError(
                    f"model {self.client.spec.name!r}: a prompt fills its context of "
                    f"{self.context} tokens and may have been cut"
                )
            return read(reply)

        return await self.client.send(
            PATHS[self.mode.api],
            {"model": self.client.spec.id, **body},
            read_whole,
            attempts=self.attempts,
        )
