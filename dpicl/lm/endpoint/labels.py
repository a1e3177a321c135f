"""Scores of labels after a prompt: what is requested, and what a reply says.

Three ways, best first. *Echo*: the server repeats prompt + label with the log-probability of
every token; the label's are summed, as a local model's are. *Top log-probabilities*: the
log-probability of each label's first token, where the server lists it; a label that is not
listed gets the most that it can have, which is less than every listed token has.
*Generated*: the label that the answer starts with, one nat above the others.

What cannot be scored gets the fixed answer: equal scores, of which `evaluation.answers` takes the last: Yes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any

from dpicl.errors import ModelError
from dpicl.lm.endpoint.protocol import GENERATED_TOKENS, Answer, GarbledError, Outcome, Reply, Request, public_prompt
from dpicl.lm.endpoint.requester import Requester, T
from dpicl.lm.requests import prompt_ending

PARSED_GAP = 1.0
"""Nats between the label that a text starts with and the others: only the order means something."""
LEAST_MASS = 1e-9
"""Probability that is taken to be left where the listed ones add up to one or, rounded, more."""
_SILENT = "the reply has no log-probabilities"


@dataclass(frozen=True)
class LabelRequest(Request):
    """One prompt whose labels are to be scored."""

    labels: tuple[str, ...]

    @staticmethod
    def public(labels: tuple[str, ...]) -> LabelRequest:
        """The same of a public prompt."""
        return LabelRequest(public_prompt(labels), labels)


@dataclass
class LabelRequester(Requester[LabelRequest]):
    """One model, asked for scores."""

    _token_counts: dict[tuple[str, str], int] = field(default_factory=dict, kw_only=True)
    """How many tokens a label is after a prompt's ending."""

    async def prepare(self, requests: Sequence[LabelRequest]) -> None:
        """Find out how labels are cut into tokens after these prompts' endings, which are public; only an echo has to know.

        Raises:
            ModelError: a label and what stands before it share a token.
        """
        if self.mode.kind != "echo":
            return
        pairs = {(prompt_ending(request.prompt), label) for request in requests for label in request.labels}
        for ending, label in sorted(pairs - self._token_counts.keys()):
            # as in `transformers_backend`: blanks at the prompt's end belong to the label
            before, whole = [
                await self.required(self._send(text, (), partial(echoed_tokens, text=text))) for text in (ending.rstrip(), ending + label)
            ]
            if whole[: len(before)] != before or len(whole) == len(before):
                raise ModelError(
                    f"model {self.client.spec.name!r}: label {label!r} changes the tokens of the prompt before it or adds none; "
                    f"expected one that starts with a blank, such as ' Yes'"
                )
            self._token_counts[ending, label] = len(whole) - len(before)

    async def attempt(self, request: LabelRequest) -> Answer:
        """See `Requester.attempt`."""
        if self.mode.kind == "echo":
            scores = []
            for label in request.labels:
                text, count = request.prompt + label, self._token_counts[prompt_ending(request.prompt), label]
                scores.append(await self._send(text, (), partial(echoed_score, text=text, label_tokens=count)))
            return Answer("scored", tuple(scores))
        labels = request.labels if self.mode.api == "completions" else tuple(label.strip() for label in request.labels)
        score = top_answer if self.mode.kind == "top-logprobs" else parsed_answer
        return await self._send(request.prompt, request.labels, lambda reply: score(reply, labels))

    def fixed(self, request: LabelRequest, outcome: Outcome) -> Answer:
        """See `Requester.fixed`."""
        return equal_scores(outcome, len(request.labels))

    async def _send(self, text: str, labels: Sequence[str], read: Callable[[Reply], T]) -> T:
        """One request for scores; a chat gets the labels in an instruction, because chat models like to explain."""
        body: dict[str, Any] = {"temperature": 0, "max_tokens": GENERATED_TOKENS if self.mode.kind == "generated" else 1}
        if self.mode.api == "completions":
            body |= {"prompt": text}
            body |= {"echo": {"echo": True, "logprobs": 1}, "top-logprobs": {"logprobs": self.mode.top}}.get(self.mode.kind, {})
        else:
            instruction = f"Answer with one word: {' or '.join(label.strip() for label in labels)}."
            body |= {"messages": [{"role": "system", "content": instruction}, {"role": "user", "content": text}]}
            body |= {"logprobs": True, "top_logprobs": self.mode.top} if self.mode.kind == "top-logprobs" else {}
        return await self.send(body, read)


def equal_scores(outcome: Outcome, count: int) -> Answer:
    """The fixed answer."""
    return Answer(outcome, (-math.log(count),) * count)


def echoed_score(reply: Reply, text: str, label_tokens: int) -> float:
    """Summed log-probability of the last tokens of the text that was sent, in nats.

    Raises:
        GarbledError: the reply does not repeat the text with its log-probabilities.
    """
    end = len(echoed_tokens(reply, text))
    values = [value for value in reply.logprobs[max(end - label_tokens, 0) : end] if value is not None]
    if len(values) != label_tokens:
        raise GarbledError(_SILENT)
    return math.fsum(values)


def echoed_tokens(reply: Reply, text: str) -> tuple[str, ...]:
    """Tokens of the text that was sent, a start token included; what follows them was generated.

    By the tokens' own texts; where these do not make up the text (some servers show
    them without blanks), by the count that the server bills.

    Raises:
        GarbledError: the reply does not repeat the text, or a token runs over its end.
    """
    if text.strip() not in reply.text:
        raise GarbledError("the reply does not repeat what was asked")
    start = "".join(reply.tokens).find(text)
    ends = list(accumulate(map(len, reply.tokens)))
    count = ends.index(start + len(text)) + 1 if start >= 0 and start + len(text) in ends else reply.prompt_tokens
    if not 0 < count <= len(reply.tokens):
        raise GarbledError(_SILENT)
    return reply.tokens[:count]


def top_answer(reply: Reply, labels: Sequence[str]) -> Answer:
    """Log-probability of each label's first token; without one the floor: no more than any listed token has, and than is left.

    Of the tokens that may start a label and no other, the one as it is written counts, or else the longest and likeliest.
    """
    if not reply.top:
        raise GarbledError(_SILENT)
    fits: list[list[tuple[bool, int, float]]] = [[] for _ in labels]
    for token, logprob in reply.top:
        text = re.sub("^[▁Ġ]", " ", token)  # some servers show a blank as the vocabulary does
        starts = [index for index, label in enumerate(labels) if label.strip().startswith(text.strip())]
        if text.strip() and len(starts) == 1:
            fits[starts[0]].append((text == labels[starts[0]], len(text.strip()), logprob))
    scores = [max(tokens)[2] if tokens else None for tokens in fits]
    listed = sum(score is not None for score in scores)
    if not listed:
        return equal_scores("no-label", len(labels))
    left = 1 - math.fsum(math.exp(min(logprob, 0.0)) for _, logprob in reply.top)
    floor = min(math.log(max(left, LEAST_MASS)), *(logprob for _, logprob in reply.top))
    return Answer("scored" if listed == len(labels) else "one-label", tuple(floor if score is None else score for score in scores))


def parsed_answer(reply: Reply, labels: Sequence[str]) -> Answer:
    """The label that the text starts with, whatever its case and the marks around it; of several, as 1 and 1.5, the longest."""
    words = [label.strip().lower() for label in labels]
    for text in (reply.text.strip().lower(), re.sub(r"^[\W_]+", "", reply.text).lower()):  # a label may begin with a mark, as -5
        starting = [word for word in words if text.startswith(word) and not text[len(word) : len(word) + 1].isalnum()]
        if starting:
            said = words.index(max(starting, key=len))
            return Answer("parsed", tuple(0.0 if place == said else -PARSED_GAP for place in range(len(labels))))
    return equal_scores("unparsed", len(labels))
