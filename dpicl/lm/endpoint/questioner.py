"""Asking one model, whatever for: what no answer means, and when a server is beyond help.

Whether it is beyond help must not follow from a prompt's content, which may be private: a failure stops
nothing unless a public question, asked then in the same manner, fails too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dpicl.errors import ModelError, TooLongError
from dpicl.lm.endpoint.client import ATTEMPTS, Client
from dpicl.lm.endpoint.failures import GaveUpError, Unanswered
from dpicl.lm.endpoint.labels import Outcome
from dpicl.lm.endpoint.protocol import PATHS, Reply, RequestMode

REJECTED_IN_A_ROW = 50
"""After so many prompts without an answer a public question is asked: perhaps it is no matter of their content."""
TURNS = 3
"""So often a prompt is asked again that was given up because of others' failures."""
Q = TypeVar("Q")
T = TypeVar("T")


@dataclass
class Requester:
    """One model, asked in one manner.

    `context` is its length in tokens, where it is known.
    """

    client: Client
    model: str
    manner: RequestMode
    context: int | None = field(default=None, kw_only=True)
    attempts: int = field(default=ATTEMPTS, kw_only=True)
    called: str = field(default="", kw_only=True)
    fingerprint: str = field(default="", kw_only=True)
    """The server's own name for the model, and its mark for how it is run; of the last reply."""
    _rejected: int = field(default=0, kw_only=True)

    async def answered(self, prompt: str, asked: Awaitable[T], fixed: Callable[[Outcome], T]) -> T:
        """What was asked about a prompt, or the fixed answer.

        Raises:
            ModelError: the prompt gets no answer, or the server rejects everything.
        """
        try:
            answer = await asked
            self._rejected = 0
            return answer
        except Unanswered as problem:
            self._rejected += problem.outcome == "rejected"
            if self._rejected >= REJECTED_IN_A_ROW:
                self._rejected = 0
                await self.check()
            return fixed(problem.outcome)
        except TooLongError as problem:
            raise TooLongError(f"{problem}: it has {len(prompt)} characters; expected fewer demonstrations or a longer context") from None

    async def question(self) -> None:
        """Ask something public, in this manner."""
        raise NotImplementedError

    async def check(self) -> None:
        """Whether the server still answers anything at all.

        Raises:
            ModelError: it does not; says why, of the public question.
        """
        await self.publicly(self.question())

    async def publicly(self, asked: Awaitable[T]) -> T:
        """What is asked of something public, and must have an answer.

        Raises:
            ModelError: it has none.
        """
        try:
            return await asked
        except Unanswered as problem:
            status = problem.status
        raise ModelError(
            f"model {self.client.server.name!r}: the server rejects a public question too (status {status}); "
            f"expected a server that still answers {self.manner.label}"
        )

    async def ask(self, body: dict[str, Any], read: Callable[[Reply], T]) -> T:
        """One request in this manner; see `Client.ask`."""
        return await self.client.ask(PATHS[self.manner.api], body, lambda reply: self._read(reply, read), attempts=self.attempts)

    def _read(self, reply: Reply, read: Callable[[Reply], T]) -> T:
        self.called, self.fingerprint = reply.model, reply.fingerprint
        if reply.refused or reply.finish_reason == "content_filter":
            raise Unanswered("refused" if reply.refused else "filtered", 200)
        if self.context is not None and reply.prompt_tokens >= self.context:
            raise TooLongError(
                f"model {self.client.server.name!r}: a prompt fills its context of {self.context} tokens and may have been cut"
            )
        return read(reply)


async def ask_all(
    asker: Requester, answer: Callable[[Q], Awaitable[T]], questions: Sequence[Q], keep: Callable[[Q, T], None], *, at_once: int
) -> dict[Q, ModelError]:
    """Every question once, so many of them at once; each answer is kept as soon as it is there, also if a later one fails.

    Returns:
        What the server fails on although it answers others.

    Raises:
        ModelError: it answers nothing any more.
    """
    rest, failed = iter(questions), dict[Q, ModelError]()

    async def in_turn() -> None:
        for question in rest:
            try:
                keep(question, await _persistent(asker, answer, question))
            except ModelError as problem:
                await asker.check()
                failed[question] = problem

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, len(questions))):
                group.create_task(in_turn())
    except ExceptionGroup as problems:
        raise problems.exceptions[0] from None
    return failed


async def _persistent(asker: Requester, answer: Callable[[Q], Awaitable[T]], question: Q) -> T:
    """Asked again where other prompts' failures made the client give up, for these must not take this one's answer."""
    for _ in range(TURNS):
        try:
            return await answer(question)
        except GaveUpError as problem:
            if not problem.of_all:
                raise
        await asker.check()
    return await answer(question)


def public_prompt(labels: Sequence[str]) -> str:
    """A public prompt that every model can go on with."""
    return "\n".join(f"Answer:{label}" for label in (*labels[::-1], ""))
