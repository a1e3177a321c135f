"""The text that follows a prompt: what is requested, and what a reply says.

What a server cannot do by itself is made up for here: the text is cut at its first stop string
whether or not the server supports them, and a chat's answer loses the blanks before it.

Not covered a server that takes a temperature or a seed and ignores it, as `transformers
serve` does: its samples are all alike or cannot be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpicl.errors import TooLongError
from dpicl.lm.endpoint.protocol import (
    GENERATED_TOKENS,
    Answer,
    Api,
    GarbledError,
    Outcome,
    Reply,
    Request,
    public_prompt,
)
from dpicl.lm.endpoint.requester import Requester
from dpicl.lm.requests import CONTINUATIONS, before_stop

MOST_STOPS = 4
"""More stop strings than this are refused by some servers."""
_BROKEN_OFF = {"abort", "error"}
"""How vLLM and OpenRouter end a text that the server itself did not finish."""


@dataclass(frozen=True)
class TextRequest(Request):
    """One text that is wanted; `seed` is that of this text alone."""

    new_tokens: int
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    seed: int | None = None


PUBLIC_TEXT_REQUEST = TextRequest(
    public_prompt(CONTINUATIONS), GENERATED_TOKENS, stop=("Answer:",), seed=0
)
"""A request without private content, with everything that a text request may have."""


@dataclass
class TextRequester(Requester[TextRequest]):
    """One model, asked for texts."""

    async def attempt(self, request: TextRequest) -> Answer:
        """See `Requester.attempt`."""
        body: dict[str, Any] = {
            "temperature": request.temperature,
            self.mode.limit: request.new_tokens,
        }
        if self.mode.api == "completions":
            body["prompt"] = request.prompt
        else:  # a chat gets the prompt alone
            body["messages"] = [{"role": "user", "content": request.prompt}]
        if self.mode.kind != "bare-text":
            # a stop string of blanks would end a chat's answer at the blanks before it, which do
            # not count
            stop = [
                mark for mark in request.stop if self.mode.api == "completions" or mark.strip()
            ][:MOST_STOPS]
            body |= {
                **({"stop": stop} if stop else {}),
                **({} if request.seed is None else {"seed": request.seed}),
            }

        def read(reply: Reply) -> Answer:
            if self.context is not None and reply.prompt_tokens + request.new_tokens > self.context:
                raise TooLongError(
                    f"model {self.client.spec.name!r}: a prompt and {request.new_tokens} new "
                    f"tokens do not fit its context "
                    f"of {self.context} tokens together"
                )
            return read_text(reply, self.mode.api, request.stop)

        return await self.send(body, read)

    def fixed(self, request: TextRequest, outcome: Outcome) -> Answer:
        """See `Requester.fixed`: an empty text."""
        return Answer(outcome)


def read_text(reply: Reply, api: Api, stop: Sequence[str]) -> Answer:
    """The text up to its first stop string.

    Raises:
        GarbledError: the reply holds no text, or one that the server broke off.
    """
    if reply.finish_reason in _BROKEN_OFF or not (reply.text or reply.finish_reason):
        raise GarbledError("the reply holds no whole text")
    text = before_stop(reply.text.lstrip() if api == "chat" else reply.text, stop)
    return Answer("generated" if text else "empty", text=text)
