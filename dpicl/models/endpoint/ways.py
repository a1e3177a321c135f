"""The ways to ask a server: what each sends for a prompt, and what it reads from the reply.

Labels are scored in one of three ways. *A list*: one request for a prompt; the log-probability of
each label's first token, where the server lists it. *An echo*: one request for each label; the
server repeats prompt + label with the log-probability of every token, and reads the whole prompt
again, because servers keep no beginnings of what they echo. *A text*: the label that the answer
starts with, one nat above the others.

A server that lists and echoes is asked for lists, and by echo for the few labels that are not
listed. Labels of one token get what a local model gives, longer ones their first token's; labels
that begin with the same token are summed over an echo, as a local model's are. Without an echo, a
label that is not listed gets the most that it can have, which is less than every listed token has.

Only one label can be said. Where one begins another, all are scored with the end of the line
(`requests.overlap`): by an echo over all their tokens, as a local model's are; by lists in one
request for every piece of a label, sent as what was said so far. A chat cannot be asked to go on
with what it said: it is refused. A text is the longest label that it starts with.

What cannot be scored gets the fixed answer: equal scores, of which `evaluation.answers` takes the
last: Yes.

A new way is a class like these, and its name in `probe.WAYS`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, combinations
from typing import TYPE_CHECKING, Any, ClassVar

from dpicl.ground.errors import ModelError, TooLongError
from dpicl.models.endpoint.client import Requester, T
from dpicl.models.endpoint.protocol import (
    GENERATED_TOKENS,
    Answer,
    Api,
    GarbledError,
    Limit,
    Outcome,
    Reply,
    Request,
    RequestMode,
    Unanswered,
    chat_messages,
    public_prompt,
)
from dpicl.models.requests import CONTINUATIONS, before_stop, line_end, overlap, prompt_ending

if TYPE_CHECKING:
    from dpicl.models.spec import ModelSpec

TOPS = (20, 5)
"""How many likely tokens servers list at most: vLLM and clouds 20 by default, others 5."""
PARSED_GAP = 1.0
"""Nats between the label that a text starts with and the others: only the order means something."""
LEAST_MASS = 1e-9
"""Probability that is taken to be left where the listed ones add up to one or, rounded, more."""
AGREEMENT = 0.05
"""Nats by which a server's two ways of scoring may differ: half precision rounds."""
_COMPARED = 5
"""Likeliest tokens of which an echo is compared; more are not listed everywhere."""
Listed = dict[str, float]
"""The likeliest next pieces of a text, with their log-probabilities."""
_SILENT = "the reply has no log-probabilities"


@dataclass(frozen=True)
class LabelRequest(Request):
    """One prompt whose labels are to be scored."""

    labels: tuple[str, ...]

    @property
    def ends(self) -> bool:
        """Whether the labels are scored with what ends them."""
        return overlap(label.strip() for label in self.labels)

    @property
    def ended(self) -> tuple[str, ...]:
        """The labels as they are scored."""
        if self.ends:
            return tuple(label.rstrip() + line_end(self.prompt) for label in self.labels)
        return self.labels

    @staticmethod
    def public(labels: tuple[str, ...]) -> LabelRequest:
        """The same of a public prompt."""
        return LabelRequest(public_prompt(labels), labels)


class LabelWay(Requester[LabelRequest]):
    """A way to score labels."""

    probe: ClassVar[LabelRequest] = LabelRequest.public(CONTINUATIONS)

    @staticmethod
    def repeats(answers: Sequence[Answer]) -> str:
        """See `Requester.repeats`."""
        columns = zip(*(answer.scores for answer in answers), strict=True)
        spread = max(max(column) - min(column) for column in columns)
        return "repeats agree" if spread == 0 else f"repeats differ by up to {spread:.2g} nats"

    def fixed(self, request: LabelRequest, outcome: Outcome) -> Answer:
        """See `Requester.fixed`."""
        return equal_scores(outcome, len(request.labels))

    def begun(self, labels: Sequence[str]) -> Sequence[str]:
        """The labels as they follow a prompt: a chat's answer starts with no blank."""
        chat = self.mode.api == "chat"
        return [label.strip() for label in labels] if chat else labels

    def body(
        self, text: str, labels: Sequence[str] = (), *, top: int = 0, new_tokens: int = 1
    ) -> dict[str, Any]:
        """A request for what follows a text, `top` likeliest tokens of it listed."""
        body: dict[str, Any] = {"temperature": 0, self.mode.limit: new_tokens}
        if self.mode.api == "completions":
            return body | {"prompt": text} | ({"logprobs": top} if top else {})
        body["messages"] = chat_messages(text, labels)
        return body | ({"logprobs": True, "top_logprobs": top} if top else {})


class ListWay(LabelWay):
    """By the likeliest tokens of what follows the prompt."""

    @classmethod
    def modes(cls, api: Api, limit: Limit) -> list[RequestMode]:
        """See `Requester.modes`."""
        return [RequestMode(api, f"top-{top} logprobs", top, limit) for top in TOPS]

    async def prepare(self, requests: Sequence[LabelRequest]) -> None:
        """Raises ModelError: one label begins another, and a chat lists first tokens only."""
        if self.mode.api == "chat" and any(request.ends for request in requests):
            raise ModelError(
                f"model {self.client.spec.name!r} is asked by {self.mode.label} for labels of "
                f"which one begins another; expected a server that has completions, a local "
                f"model, or labels of which none begins another"
            )

    async def attempt(self, request: LabelRequest) -> Answer:
        """See `Requester.attempt`."""
        if request.ends:
            return await self._spelt(request)
        read = partial(top_answer, labels=self.begun(request.labels))
        return await self.send(self.body(request.prompt, request.labels, top=self.mode.top), read)

    async def _spelt(self, request: LabelRequest) -> Answer:
        """Summed log-probabilities of the pieces of every label with its end, as the server lists
        them one after another.

        Of a piece that is not listed, and all that follow it, the most that they can have together.
        """
        start = request.prompt.rstrip()
        lists = dict[str, Listed]()
        scores = list[float]()
        begun = 0
        whole = 0
        for label in request.ended:
            said = start
            rest = request.prompt[len(start) :] + label
            score = 0.0
            while rest:
                if said not in lists:
                    lists[said] = await self.send(self.body(said, top=self.mode.top), listed_tokens)
                piece = next_piece(lists[said], rest)
                if piece is None:
                    score += floor(lists[said].values())
                    break
                said = said + piece[0]
                rest = rest[len(piece[0]) :]
                score = score + piece[1]
            begun = begun + (said != start)
            whole = whole + (not rest)
            scores.append(score)
        if not begun:
            return equal_scores("no-label", len(scores))
        return Answer("scored" if whole == len(scores) else "one-label", tuple(scores))


class EchoWay(LabelWay):
    """By a repeated prompt and label with log-probabilities; `top` likeliest tokens of what follows
    are listed first where the server does both.
    """

    @classmethod
    def modes(cls, api: Api, limit: Limit) -> list[RequestMode]:
        """See `Requester.modes`: a chat echoes nothing."""
        return [RequestMode(api, "echo", 0, limit)] if api == "completions" else []

    @classmethod
    def faster(cls, mode: RequestMode) -> list[RequestMode]:
        """See `Requester.faster`."""
        return [replace(mode, asks=f"top-{top} logprobs, else echo", top=top) for top in TOPS]

    async def prepare(self, requests: Sequence[LabelRequest]) -> None:
        """Find out how labels are cut into tokens after these prompts' endings, which are public.

        Raises:
            ModelError: a label and what stands before it share a token.
        """
        pairs = {
            (prompt_ending(request.prompt), label)
            for request in requests
            for label in request.ended
        }
        for ending, label in sorted(pairs - self.tokens.keys()):
            # as in `transformers_backend`: blanks at the prompt's end belong to the label
            before, whole = [
                await self.required(self._echo(text, partial(echoed_tokens, text=text)))
                for text in (ending.rstrip(), ending + label)
            ]
            if whole[: len(before)] != before or len(whole) == len(before):
                raise ModelError(
                    f"model {self.client.spec.name!r}: label {label!r} changes the tokens of the "
                    f"prompt before it or adds none; "
                    f"expected one that starts with a blank, such as ' Yes'"
                )
            self.tokens[ending, label] = whole[len(before) :]

    async def attempt(self, request: LabelRequest) -> Answer:
        """See `Requester.attempt`."""
        tokens = self._label_tokens(request)
        if (
            self.mode.top
            and not request.ends
            and len({label_tokens[0] for label_tokens in tokens}) == len(tokens)
        ):
            return await self._echoed(request, [1] * len(tokens), await self._listed(request))
        return await self._echoed(request, list(map(len, tokens)), [None] * len(tokens))

    async def public_answers(self, repeats: int) -> list[Answer]:
        """See `Requester.public_answers`; where a server lists too, both must say the same, or at
        least rank tokens alike.

        Raises:
            ModelError: they do not, or the first lists no label.
        """
        answers = await super().public_answers(repeats)
        if not self.mode.top:
            await self._check_order()
            return answers
        count = len(self.public.labels)
        echoed = await self._echoed(self.public, [1] * count, [None] * count)
        pairs = zip(await self._listed(self.public), echoed.scores, strict=True)
        if not all(listed is not None and abs(listed - echo) < AGREEMENT for listed, echo in pairs):
            raise ModelError(
                f"model {self.client.spec.name!r}: listed tokens and an echo differ; expected "
                f"the same log-probabilities"
            )
        return answers

    async def _check_order(self) -> None:
        """Whether an echo gives likelier words more; llama-cpp-python's gives each token the chance
        that it comes once more.

        Lists may be those after a temperature, which leaves their order. Of a server that lists
        fewer words nothing can be compared.

        Raises:
            ModelError: it does not.
        """
        text = self.public.prompt.rstrip()
        try:
            listed = await self.send(self.body(text, top=_COMPARED), listed_tokens)
        except Unanswered:
            self.client.limiter.failures = 0
            return
        words = {token: logprob for token, logprob in listed.items() if token.strip().isalnum()}
        apart = {token: logprob for token, logprob in words.items() if token.startswith(" ")}
        pairs = []
        for word, logprob in (
            apart or {f" {token}": logprob for token, logprob in words.items()}
        ).items():
            echoed = partial(echoed_score, text=text + word, label_tokens=1, counted=1)
            pairs.append((logprob, await self._echo(text + word, echoed)))
        pairs.sort()
        for (less, first), (more, second) in combinations(pairs, 2):
            if less < more - AGREEMENT and first > second + AGREEMENT:
                raise ModelError(
                    f"model {self.client.spec.name!r}: an echo ranks words otherwise than a list; "
                    f"expected the same order"
                )

    def _label_tokens(self, request: LabelRequest) -> list[tuple[str, ...]]:
        return [self.tokens[prompt_ending(request.prompt), label] for label in request.ended]

    async def _listed(self, request: LabelRequest) -> list[float | None]:
        """Log-probability of every label's first token, None where the server does not list it."""
        firsts = [label_tokens[0] for label_tokens in self._label_tokens(request)]
        return await self.send(
            self.body(request.prompt.rstrip(), top=self.mode.top),
            partial(listed_scores, firsts=firsts),
        )

    async def _echoed(
        self, request: LabelRequest, counts: Sequence[int], known: Sequence[float | None]
    ) -> Answer:
        """Scores by echo where there is none yet, each over the first tokens of its label: so
        many.
        """
        scores = []
        for label, label_tokens, count, score in zip(
            request.ended, self._label_tokens(request), counts, known, strict=True
        ):
            text = request.prompt + label
            echoed = partial(echoed_score, text=text, label_tokens=len(label_tokens), counted=count)
            scores.append(await self._echo(text, echoed) if score is None else score)
        return Answer("scored", tuple(scores))

    async def _echo(self, text: str, read: Callable[[Reply], T]) -> T:
        return await self.send(self.body(text) | {"echo": True, "logprobs": 1}, read)


class TextStartWay(LabelWay):
    """By the label that a text starts with; only where the model's entry allows it."""

    asks = "generated"

    @classmethod
    def is_allowed(cls, spec: ModelSpec) -> bool:
        """See `Requester.is_allowed`."""
        return spec.allow_fallback

    async def attempt(self, request: LabelRequest) -> Answer:
        """See `Requester.attempt`."""
        longest = max(GENERATED_TOKENS, *(len(label.encode()) for label in request.labels))
        body = self.body(request.prompt, request.labels, new_tokens=longest)
        read = partial(parsed_answer, labels=self.begun(request.labels))
        return await self.send(body | self.held_to(request.labels), read)

    def held_to(self, labels: Sequence[str]) -> dict[str, Any]:
        """What holds a server to these labels: nothing."""
        return {}


class ChoiceWay(TextStartWay):
    """The same of a server that can be held to the labels."""

    asks = "choice"

    def held_to(self, labels: Sequence[str]) -> dict[str, Any]:
        """As vLLM has it."""
        return {"structured_outputs": {"choice": [label.strip() for label in labels]}}


def equal_scores(outcome: Outcome, count: int) -> Answer:
    """The fixed answer."""
    return Answer(outcome, (-math.log(count),) * count)


def echoed_score(reply: Reply, text: str, label_tokens: int, counted: int) -> float:
    """Summed log-probability, in nats, of the first `counted` of the `label_tokens` tokens that end
    the text that was sent.

    Raises:
        GarbledError: the reply does not repeat the text with its log-probabilities.
    """
    start = len(echoed_tokens(reply, text)) - label_tokens
    values = [
        value for value in reply.logprobs[max(start, 0) : start + counted] if value is not None
    ]
    if start < 0 or len(values) != counted:
        raise GarbledError(_SILENT)
    return math.fsum(values)


def listed_scores(reply: Reply, firsts: Sequence[str]) -> list[float | None]:
    """Log-probability of each of these tokens, None where the server does not list it.

    Raises:
        GarbledError: it lists none at all.
    """
    if not reply.top:
        raise GarbledError(_SILENT)
    return [dict(reply.top).get(first) for first in firsts]


def listed_tokens(reply: Reply) -> Listed:
    """The likeliest next pieces of a text. Raises GarbledError: none is listed."""
    if not reply.top:
        raise GarbledError(_SILENT)
    return {as_written(token): logprob for token, logprob in reply.top}


def as_written(token: str) -> str:
    """A token's text: some servers show a blank before it, and the end of a line, as the vocabulary
    does.
    """
    ends = token.replace("<0x0A>", "Ċ")
    return re.sub("^[▁Ġ]", " ", token) if ends.strip("Ċ") else "\n" * len(ends)


def next_piece(listed: Listed, rest: str) -> tuple[str, float] | None:
    """The longest listed beginning of a text and its log-probability; without its blank where none
    has one, as some servers show them.
    """
    for blanks in (0, len(rest) - len(rest.lstrip(" "))):
        pieces = [token for token in listed if token and rest.startswith(token, blanks)]
        if pieces:
            longest = max(pieces, key=len)
            return rest[:blanks] + longest, listed[longest]
    return None


def floor(listed: Collection[float]) -> float:
    """The most that a token which is not listed can have: no more than any listed one has, and than
    is left.
    """
    left = 1 - math.fsum(math.exp(min(logprob, 0.0)) for logprob in listed)
    return min(math.log(max(left, LEAST_MASS)), *listed)


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
    count = (
        ends.index(start + len(text)) + 1
        if start >= 0 and start + len(text) in ends
        else reply.prompt_tokens
    )
    if not 0 < count <= len(reply.tokens):
        raise GarbledError(_SILENT)
    return reply.tokens[:count]


def top_answer(reply: Reply, labels: Sequence[str]) -> Answer:
    """Log-probability of each label's first token; without one the floor: no more than any listed
    token has, and than is left.

    Of the tokens that may start a label and no other, the one as it is written counts, or else the
    longest and likeliest.
    """
    if not reply.top:
        raise GarbledError(_SILENT)
    fits: list[list[tuple[bool, int, float]]] = [[] for _ in labels]
    for token, logprob in reply.top:
        text = as_written(token)
        starts = [
            index for index, label in enumerate(labels) if label.strip().startswith(text.strip())
        ]
        if text.strip() and len(starts) == 1:
            fits[starts[0]].append((text == labels[starts[0]], len(text.strip()), logprob))
    scores = [max(tokens)[2] if tokens else None for tokens in fits]
    listed = sum(score is not None for score in scores)
    if not listed:
        return equal_scores("no-label", len(labels))
    least = floor([logprob for _, logprob in reply.top])
    return Answer(
        "scored" if listed == len(labels) else "one-label",
        tuple(least if score is None else score for score in scores),
    )


def parsed_answer(reply: Reply, labels: Sequence[str]) -> Answer:
    """The label that the text starts with, whatever its case and the marks around it; of several,
    as 1 and 1.5, the longest.
    """
    words = [label.strip().lower() for label in labels]
    # a label may begin with a mark, as -5
    for text in (reply.text.strip().lower(), re.sub(r"^[\W_]+", "", reply.text).lower()):
        starting = [
            word
            for word in words
            if text.startswith(word) and not text[len(word) : len(word) + 1].isalnum()
        ]
        if starting:
            said = words.index(max(starting, key=len))
            return Answer(
                "parsed",
                tuple(0.0 if place == said else -PARSED_GAP for place in range(len(labels))),
            )
    return equal_scores("unparsed", len(labels))


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


class TextWay(Requester[TextRequest]):
    """A way to get the text that follows a prompt: with stop strings, and a seed for samples."""

    asks = "text"
    probe: ClassVar[TextRequest] = PUBLIC_TEXT_REQUEST

    @staticmethod
    def repeats(answers: Sequence[Answer]) -> str:
        """See `Requester.repeats`."""
        return "repeats agree" if len(set(answers)) == 1 else "repeats differ"

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

        def read(reply: Reply) -> Answer:
            if self.context is not None and reply.prompt_tokens + request.new_tokens > self.context:
                raise TooLongError(
                    f"model {self.client.spec.name!r}: a prompt and {request.new_tokens} new "
                    f"tokens do not fit its context of {self.context} tokens together"
                )
            return read_text(reply, self.mode.api, request.stop)

        return await self.send(body | self.options(request), read)

    def options(self, request: TextRequest) -> dict[str, Any]:
        """Stop strings and seed, as they are sent."""
        # a stop string of blanks would end a chat's answer at the blanks before it, which do not
        # count
        stop = [mark for mark in request.stop if self.mode.api == "completions" or mark.strip()]
        return {
            **({"stop": stop[:MOST_STOPS]} if stop else {}),
            **({} if request.seed is None else {"seed": request.seed}),
        }

    def fixed(self, request: TextRequest, outcome: Outcome) -> Answer:
        """See `Requester.fixed`: an empty text."""
        return Answer(outcome)


class BareTextWay(TextWay):
    """The same of a server that takes neither stop strings nor a seed."""

    asks = "bare-text"

    @staticmethod
    def repeats(answers: Sequence[Answer]) -> str:
        """See `Requester.repeats`."""
        return f"{TextWay.repeats(answers)}; neither seed nor stop strings are sent"

    def options(self, request: TextRequest) -> dict[str, Any]:
        """Nothing."""
        return {}


def read_text(reply: Reply, api: Api, stop: Sequence[str]) -> Answer:
    """The text up to its first stop string.

    Raises:
        GarbledError: the reply holds no text, or one that the server broke off.
    """
    if reply.finish_reason in _BROKEN_OFF or not (reply.text or reply.finish_reason):
        raise GarbledError("the reply holds no whole text")
    text = before_stop(reply.text.lstrip() if api == "chat" else reply.text, stop)
    return Answer("generated" if text else "empty", text=text)
