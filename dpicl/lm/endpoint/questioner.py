"""Asking one model, whatever for: what no answer means, and when a server is beyond help."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dpicl.errors import ModelError, TooLongError
from dpicl.lm.endpoint.client import ATTEMPTS, Client
from dpicl.lm.endpoint.failures import Unanswered
from dpicl.lm.endpoint.labels import Outcome
from dpicl.lm.endpoint.protocol import PATHS, Manner, Reply

REJECTED_IN_A_ROW = 50
"""So many prompts without an answer are no matter of their content."""
Q = TypeVar("Q")
T = TypeVar("T")


@dataclass
class Questioner:
    """One model, asked in one manner.

    `context` is its length in tokens, where it is known.
    """

    client: Client
    model: str
    manner: Manner
    context: int | None = field(default=None, kw_only=True)
    attempts: int = field(default=ATTEMPTS, kw_only=True)
    called: str = field(default="", kw_only=True)
    fingerprint: str = field(default="", kw_only=True)
    """The server's own name for the model, and its mark for how it is run; of the last reply."""
    _rejected: int = field(default=0, kw_only=True)

    async def answered(self, prompt: str, asked: Awaitable[T], fixed: Callable[[Outcome], T]) -> T:
        """What was asked about a prompt, or the fixed answer.

        Raises:
            ModelError: the prompt is too long, the server is down, or it rejects everything.
        """
        try:
            answer = await asked
            self._rejected = 0
            return answer
        except Unanswered as problem:
            self._rejected += problem.outcome == "rejected"
            if self._rejected >= REJECTED_IN_A_ROW:
                raise ModelError(
                    f"model {self.client.server.name!r}: the server rejected {self._rejected} prompts in a row (status {problem.status}); "
                    f"expected a server that still answers {self.manner.label}"
                ) from None
            return fixed(problem.outcome)
        except TooLongError as problem:
            raise TooLongError(f"{problem}: it has {len(prompt)} characters; expected fewer demonstrations or a longer context") from None

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


async def ask_all(answer: Callable[[Q], Awaitable[T]], questions: Sequence[Q], keep: Callable[[Q, T], None], *, at_once: int) -> None:
    """Every question once, so many of them at once; each answer is kept as soon as it is there, also if a later one fails."""
    rest = iter(questions)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, len(questions))):
                group.create_task(_ask_in_turn(answer, rest, keep))
    except ExceptionGroup as problems:
        raise problems.exceptions[0] from None


async def _ask_in_turn(answer: Callable[[Q], Awaitable[T]], questions: Iterator[Q], keep: Callable[[Q, T], None]) -> None:
    for question in questions:
        keep(question, await answer(question))
