"""Asking for the scores of one prompt's labels in the manner that a server allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from dpicl.errors import ModelError
from dpicl.lm.endpoint.labels import Answer, echoed_score, echoed_tokens, fixed, parsed_answer, top_answer
from dpicl.lm.endpoint.protocol import Reply, request_body
from dpicl.lm.endpoint.questioner import Requester, T, public_prompt


@dataclass
class LabelRequester(Requester):
    """One model, asked for the scores of `labels`."""

    labels: tuple[str, ...]
    _tokens: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Tokens of every label after a prompt's last word."""

    async def learn(self, prompts: Iterable[str]) -> None:
        """Find out how labels are cut into tokens after these prompts' endings, which are public; only an echo has to know.

        Raises:
            ModelError: a label and what stands before it share a token.
        """
        if self.manner.mode == "echo":
            for ending in sorted({_ending(prompt) for prompt in prompts} - set(self._tokens)):
                self._tokens[ending] = tuple([await self.publicly(self._label_tokens(ending, label)) for label in self.labels])

    async def answer(self, prompt: str) -> Answer:
        """Scores of the labels after a prompt whose ending was learnt, or the fixed answer; for errors see `answered`."""
        return await self.answered(prompt, self._scored(prompt), lambda outcome: fixed(outcome, len(self.labels)))

    async def question(self) -> None:
        """See `Requester.question`."""
        asked = public_prompt(self.labels)
        await self.learn([asked])
        await self._scored(asked)

    async def _scored(self, prompt: str) -> Answer:
        if self.manner.mode == "echo":
            counts = self._tokens[_ending(prompt)]
            scores = [await self._echoed(prompt + label, count) for label, count in zip(self.labels, counts, strict=True)]
            return Answer(tuple(scores), "scored")
        labels = self.labels if self.manner.api == "completions" else tuple(label.strip() for label in self.labels)
        judge = top_answer if self.manner.mode == "top-logprobs" else parsed_answer
        return await self._asked(prompt, lambda reply: judge(reply, labels))

    async def _echoed(self, text: str, label_tokens: int) -> float:
        return await self._asked(text, lambda reply: echoed_score(reply, text, label_tokens))

    async def _label_tokens(self, ending: str, label: str) -> int:
        """As in `transformers_backend`: blanks at the prompt's end belong to the label."""
        before, whole = [
            await self._asked(text, lambda reply, text=text: reply.tokens[: echoed_tokens(reply, text)])  # type: ignore[misc]
            for text in (ending.rstrip(), ending + label)
        ]
        if whole[: len(before)] != before or len(whole) == len(before):
            raise ModelError(
                f"model {self.client.server.name!r}: label {label!r} changes the tokens of the prompt before it or adds none; "
                f"expected one that starts with a blank, such as ' Yes'"
            )
        return len(whole) - len(before)

    async def _asked(self, text: str, read: Callable[[Reply], T]) -> T:
        return await self.ask(request_body(self.manner, self.model, text, self.labels), read)


def _ending(prompt: str) -> str:
    """A prompt's last word and the blanks after it."""
    return prompt[max(prompt.rstrip().rfind(" "), 0) :]
