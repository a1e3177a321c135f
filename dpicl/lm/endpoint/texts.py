"""Asking for the text that follows one prompt.

A *wish* is one text with everything that it depends on, so that equal wishes are asked once.
What a server cannot do by itself is made up for here: the text is cut at its first stop string
whether or not the server knows them, and a chat's answer loses the blanks before it.

Not covered a server that takes a temperature or a seed and does not heed it, as `transformers
serve` does: its samples are all alike or cannot be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpicl.errors import TooLongError
from dpicl.lm.endpoint.labels import Outcome
from dpicl.lm.endpoint.protocol import GENERATED_TOKENS, Api, GarbledError, Reply, RequestMode
from dpicl.lm.endpoint.questioner import Requester, public_prompt
from dpicl.lm.requests import CONTINUATIONS, ScoreRequest, before_stop

MOST_STOPS = 4
"""More stop strings than this are refused by some servers."""
_BROKEN_OFF = {"abort", "error"}
"""How vLLM and OpenRouter end a text that the server itself did not finish."""
Key = tuple[bytes, int, tuple[str, ...], float, int | None]


@dataclass(frozen=True)
class TextRequest:
    """One text that is wanted; `seed` is that of this text alone."""

    prompt: str
    new_tokens: int
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    seed: int | None = None

    @property
    def digest(self) -> bytes:
        """The prompt's identity where it must not be stored."""
        return ScoreRequest(self.prompt).digest

    @property
    def key(self) -> Key:
        """The wish's identity, without its prompt."""
        return self.digest, self.new_tokens, self.stop, self.temperature, self.seed


def wishes(prompts: Sequence[str], *, new_tokens: int, stop: Sequence[str], temperature: float, seed: int) -> list[TextRequest]:
    """One for each place; samples get a seed by their place, so that equal prompts get different ones."""
    return [
        TextRequest(prompt, new_tokens, tuple(stop), float(temperature), seed + place if temperature else None)
        for place, prompt in enumerate(prompts)
    ]


@dataclass(frozen=True)
class Text:
    """What a prompt got, and how: `generated`, `empty`, or without an answer an empty text."""

    text: str
    outcome: Outcome


@dataclass
class TextRequester(Requester):
    """One model, asked for texts."""

    async def answer(self, wish: TextRequest) -> Text:
        """The text, or an empty one where the prompt's content gets no answer; for errors see `answered`."""
        return await self.answered(
            wish.prompt, self.ask(text_body(self.manner, self.model, wish), lambda reply: self._text(reply, wish)), lambda no: Text("", no)
        )

    async def question(self) -> None:
        """See `Requester.question`."""
        asked = TextRequest(public_prompt(CONTINUATIONS), GENERATED_TOKENS)
        await self.ask(text_body(self.manner, self.model, asked), lambda reply: self._text(reply, asked))

    def _text(self, reply: Reply, wish: TextRequest) -> Text:
        if self.context is not None and reply.prompt_tokens + wish.new_tokens > self.context:
            raise TooLongError(
                f"model {self.client.server.name!r}: a prompt and {wish.new_tokens} new tokens do not fit its context "
                f"of {self.context} tokens together"
            )
        return read_text(reply, self.manner.api, wish.stop)


def text_body(manner: RequestMode, model: str, wish: TextRequest) -> dict[str, Any]:
    """The JSON of one request; a chat is told the prompt alone."""
    body: dict[str, Any] = {"model": model, "temperature": wish.temperature, "max_tokens": wish.new_tokens}
    body |= {"prompt": wish.prompt} if manner.api == "completions" else {"messages": [{"role": "user", "content": wish.prompt}]}
    if manner.mode == "bare-text":
        return body
    # a stop string of blanks would end a chat's answer at the blanks before it, which do not count
    stop = [mark for mark in wish.stop if manner.api == "completions" or mark.strip()][:MOST_STOPS]
    return {**body, **({"stop": stop} if stop else {}), **({} if wish.seed is None else {"seed": wish.seed})}


def read_text(reply: Reply, api: Api, stop: Sequence[str]) -> Text:
    """The text up to its first stop string.

    Raises:
        GarbledError: the reply holds no text, or one that the server broke off.
    """
    if reply.finish_reason in _BROKEN_OFF or not (reply.text or reply.finish_reason):
        raise GarbledError("the reply holds no whole text")
    text = before_stop(reply.text.lstrip() if api == "chat" else reply.text, stop)
    return Text(text, "generated" if text else "empty")
