"""Asking for one prompt's answer in the manner that a server allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from dpicl.errors import ModelError
from dpicl.lm.endpoint.client import ATTEMPTS, Client
from dpicl.lm.endpoint.failures import TooLongError, Unanswered
from dpicl.lm.endpoint.labels import Answer, echoed_score, echoed_tokens, fixed, parsed_answer, top_answer
from dpicl.lm.endpoint.protocol import PATHS, Manner, Reply, request_body

REJECTED_IN_A_ROW = 50
"""So many prompts without an answer are no matter of their content."""
T = TypeVar("T")


@dataclass
class Asker:
    """One model, asked for the scores of `labels`.

    `context` is its length in tokens, where it is known.
    """

    client: Client
    model: str
    manner: Manner
    labels: tuple[str, ...]
    context: int | None = None
    attempts: int = ATTEMPTS
    _tokens: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Tokens of every label after a prompt's last word."""
    _rejected: int = 0
    called: str = ""
    fingerprint: str = ""
    """The server's own name for the model, and its mark for how it is run; of the last reply."""

    async def learn(self, prompts: Iterable[str]) -> None:
        """Find out how labels are cut into tokens after these prompts' endings; only an echo has to know.

        Raises:
            ModelError: a label and what stands before it share a token.
        """
        if self.manner.mode == "echo":
            for ending in sorted({_ending(prompt) for prompt in prompts} - set(self._tokens)):
                self._tokens[ending] = tuple([await self._label_tokens(ending, label) for label in self.labels])

    async def answer(self, prompt: str) -> Answer:
        """Scores of the labels after a prompt whose ending was learnt, or the fixed answer.

        Raises:
            ModelError: the prompt is too long, the server is down, or it rejects everything.
        """
        try:
            answer = await self._scored(prompt)
            self._rejected = 0
            return answer
        except Unanswered as problem:
            self._rejected += problem.outcome == "rejected"
            if self._rejected >= REJECTED_IN_A_ROW:
                raise ModelError(
                    f"model {self.client.server.name!r}: the server rejected {self._rejected} prompts in a row (status {problem.status}); "
                    f"expected a server that still answers {self.manner.label}"
                ) from None
            return fixed(problem.outcome, len(self.labels))
        except TooLongError as problem:
            raise TooLongError(f"{problem}: it has {len(prompt)} characters; expected fewer demonstrations or a longer context") from None

    async def _scored(self, prompt: str) -> Answer:
        if self.manner.mode == "echo":
            counts = self._tokens[_ending(prompt)]
            scores = [await self._echoed(prompt + label, count) for label, count in zip(self.labels, counts, strict=True)]
            return Answer(tuple(scores), "scored")
        labels = self.labels if self.manner.api == "completions" else tuple(label.strip() for label in self.labels)
        judge = top_answer if self.manner.mode == "top-logprobs" else parsed_answer
        return await self.ask(prompt, lambda reply: judge(reply, labels))

    async def _echoed(self, text: str, label_tokens: int) -> float:
        return await self.ask(text, lambda reply: echoed_score(reply, text, label_tokens))

    async def _label_tokens(self, ending: str, label: str) -> int:
        """As in `transformers_backend`: blanks at the prompt's end belong to the label."""
        before, whole = [
            await self.ask(text, lambda reply, text=text: reply.tokens[: echoed_tokens(reply, text)])  # type: ignore[misc]
            for text in (ending.rstrip(), ending + label)
        ]
        if whole[: len(before)] != before or len(whole) == len(before):
            raise ModelError(
                f"model {self.client.server.name!r}: label {label!r} changes the tokens of the prompt before it or adds none; "
                f"expected one that starts with a blank, such as ' Yes'"
            )
        return len(whole) - len(before)

    async def ask(self, text: str, read: Callable[[Reply], T]) -> T:
        """One request in this manner; see `Client.ask`."""
        body = request_body(self.manner, self.model, text, self.labels)
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


def _ending(prompt: str) -> str:
    """A prompt's last word and the blanks after it."""
    return prompt[max(prompt.rstrip().rfind(" "), 0) :]
