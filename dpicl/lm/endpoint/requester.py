"""Asking one model, whatever for: what no answer means, and when a server is beyond help.

Whether it is beyond help must not follow from a prompt's content, which may be private: a failure
stops nothing unless a public request, sent then in the same mode, fails too.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from os.path import commonprefix
from typing import Any, Generic, TypeVar

from dpicl.errors import ModelError, TooLongError
from dpicl.lm.endpoint.client import ATTEMPTS, Client
from dpicl.lm.endpoint.failures import GaveUpError, Unanswered
from dpicl.lm.endpoint.protocol import PATHS, Answer, Outcome, Reply, Request, RequestMode

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
T = TypeVar("T")


def in_order(requests: Sequence[R], at_once: int) -> list[tuple[R, R]]:
    """Each request with the one it waits for, itself if none: of `at_once` groups first the firsts,
    then those that wait for them, and so on.

    Args:
        requests: sorted by prompt.
        at_once: how many groups that share nothing are begun together.
    """
    groups, ordered = _groups(requests, None), list[tuple[int, R, R]]()
    for start in range(0, len(groups), at_once):
        some = [
            one for group in groups[start : start + at_once] for one in _waiting(group, None, 0)
        ]
        ordered += sorted(some, key=lambda one: one[0])
    return [(request, first) for _, request, first in ordered]


def _waiting(group: Sequence[R], first: R | None, depth: int) -> list[tuple[int, R, R]]:
    """How many requests are before each of these, one after another, and which is the last of
    them.
    """
    leader = group[0]
    rest = [one for some in _groups(group[1:], leader) for one in _waiting(some, leader, depth + 1)]
    return [(depth, leader, first or leader), *rest]


def _groups(requests: Sequence[R], read: R | None) -> list[list[R]]:
    """Neighbours that share enough with the first of them, beyond what that one shares with a
    prompt that the server has read.

    Each level spares a quarter of what is left, so that they are few; copies of a prompt have
    nothing left, and each is a group of its own.
    """
    groups, shared, least = list[list[R]](), "", 0
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
    """One model, asked in one mode.

    `public` is a request of no private content; `context` the model's length in tokens, where it is
    known.
    """

    client: Client
    mode: RequestMode
    public: R
    context: int | None = field(default=None, kw_only=True)
    attempts: int = field(default=ATTEMPTS, kw_only=True)
    served_name: str = field(default="", kw_only=True)
    fingerprint: str = field(default="", kw_only=True)
    """The server's own name for the model, and its mark for how it is run; of the last reply."""
    _rejected: int = field(default=0, kw_only=True)

    async def prepare(self, requests: Sequence[R]) -> None:
        """Find out what these requests' answers are read with."""

    async def attempt(self, request: R) -> Answer:
        """The answer to one request; for errors see `Client.post`."""
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
        failed, answered = (
            dict[tuple[Any, ...], ModelError](),
            defaultdict[R, asyncio.Event](asyncio.Event),
        )
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
            f"{status}); "
            f"expected a server that still answers {self.mode.label}"
        )

    async def send(self, body: dict[str, Any], read: Callable[[Reply], T]) -> T:
        """One HTTP request in this mode; for errors see `Client.post`."""

        def read_whole(reply: Reply) -> T:
            self.served_name, self.fingerprint = reply.model, reply.fingerprint
            if reply.refused or reply.finish_reason == "content_filter":
                raise Unanswered("refused" if reply.refused else "filtered", 200)
            if self.context is not None and reply.prompt_tokens >= self.context:
                raise TooLongError(
                    f"model {self.client.spec.name!r}: a prompt fills its context of "
                    f"{self.context} tokens and may have been cut"
                )
            return read(reply)

        return await self.client.post(
            PATHS[self.mode.api],
            {"model": self.client.spec.id, **body},
            read_whole,
            attempts=self.attempts,
        )
