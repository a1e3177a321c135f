"""From a reply to the scores of the labels; pure.

Three ways, best first. *Echo*: the server repeats prompt + label with the log-probability of
every token; the label's are summed, as a local model's are. *Top log-probabilities*: the
log-probability of each label's first token, where the server lists it; a label that is not
listed gets the most that it can have, which is less than every listed token has.
*Generated*: the label that the answer starts with, one nat above the others.

What cannot be scored gets the fixed answer: equal scores, which `evaluation.answers` takes as Yes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from dpicl.lm.endpoint.protocol import GarbledError, Reply

Outcome = Literal["scored", "one-label", "no-label", "parsed", "unparsed", "generated", "empty", "filtered", "refused", "rejected"]
"""`scored`: every label; `one-label`: some, the others got the floor; `parsed`: from text.

Where a text was wanted: `generated`: there is one; `empty`: the model wrote nothing.

Fixed answers: `no-label`: none of them was listed; `unparsed`: text that starts with none;
`filtered`: the server's content filter; `refused`: the model said so; `rejected`: status 4xx.
"""
PARSED_GAP = 1.0
"""Nats between the label that a text says and the others: only the order means something."""
_SILENT = "the reply has no log-probabilities"
LEAST_MASS = 1e-9
"""Probability that is taken to be left where the listed ones add up to one or, rounded, more."""


@dataclass(frozen=True)
class Answer:
    """Scores of the labels of one prompt, in nats, and how they came about."""

    scores: tuple[float, ...]
    outcome: Outcome


def fixed(outcome: Outcome, count: int) -> Answer:
    """Equal scores."""
    return Answer((-math.log(count),) * count, outcome)


def echoed_score(reply: Reply, asked: str, label_tokens: int) -> float:
    """Summed log-probability of the last tokens of the text that was asked, in nats.

    Raises:
        GarbledError: the reply does not repeat the text with its log-probabilities.
    """
    end = echoed_tokens(reply, asked)
    values = [value for value in reply.logprobs[max(end - label_tokens, 0) : end] if value is not None]
    if len(values) != label_tokens:
        raise GarbledError(_SILENT)
    return math.fsum(values)


def echoed_tokens(reply: Reply, asked: str) -> int:
    """How many tokens, a start token included, the asked text is; what follows them was generated.

    By the tokens' own texts; where these do not make up the asked text (some servers show
    them without blanks), by the count that the server bills.

    Raises:
        GarbledError: the reply does not repeat the text, or a token runs over its end.
    """
    if asked.strip() not in reply.text:
        raise GarbledError("the reply does not repeat what was asked")
    start = "".join(reply.tokens).find(asked)
    ends = list(accumulate(map(len, reply.tokens)))
    count = ends.index(start + len(asked)) + 1 if start >= 0 and start + len(asked) in ends else reply.prompt_tokens
    if not 0 < count <= len(reply.tokens):
        raise GarbledError(_SILENT)
    return count


def top_answer(reply: Reply, labels: Sequence[str]) -> Answer:
    """Log-probability of each label's first token, or the floor."""
    if not reply.top:
        raise GarbledError(_SILENT)
    found = [_first_token(reply.top, index, labels) for index in range(len(labels))]
    listed = sum(value is not None for value in found)
    if not listed:
        return fixed("no-label", len(labels))
    floor = _floor(reply.top)
    return Answer(tuple(floor if value is None else value for value in found), "scored" if listed == len(labels) else "one-label")


def _first_token(top: Sequence[tuple[str, float]], index: int, labels: Sequence[str]) -> float | None:
    """Of the tokens that may start this label and no other, the one as it is written, or else the longest and likeliest."""
    others = [label.strip() for place, label in enumerate(labels) if place != index]
    fits = []
    for token, logprob in top:
        text = _plain(token)
        if text.strip() and labels[index].strip().startswith(text.strip()) and not any(other.startswith(text.strip()) for other in others):
            fits.append((text == labels[index], len(text.strip()), logprob))
    return max(fits)[2] if fits else None


def _plain(token: str) -> str:
    """Some servers show a blank as the vocabulary does."""
    return re.sub("^[▁Ġ]", " ", token)


def _floor(top: Sequence[tuple[str, float]]) -> float:
    """The most that a token may have that is not listed: no more than any listed one, and no more than is left."""
    left = 1 - math.fsum(math.exp(min(logprob, 0.0)) for _, logprob in top)
    return min(math.log(max(left, LEAST_MASS)), *(logprob for _, logprob in top))


def parsed_answer(reply: Reply, labels: Sequence[str]) -> Answer:
    """The label that the text starts with, whatever its case and the marks around it."""
    said = re.sub(r"^[\W_]+", "", reply.text).lower()
    for index, label in enumerate(labels):
        word = label.strip().lower()
        if said.startswith(word) and not said[len(word) : len(word) + 1].isalnum():
            return Answer(tuple(0.0 if place == index else -PARSED_GAP for place in range(len(labels))), "parsed")
    return fixed("unparsed", len(labels))
