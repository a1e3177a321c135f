"""A text that many prompts write together, token by token: the voters, their rule, and the votes.
No model needed.

Every voter is a whole prompt that holds some private examples; all of a text are followed by what
was written so far. `integer_votes` defines a voter's vote and how far one voter moves the sums, and
`mechanisms.private_token` puts noise on them.

Trust       Sums are private until noise is on them. Candidates follow from the public prompt and
            what was written, and whether a request has voters at all must be public too.
Not covered that voters are read together: one voter's prompt moves the votes of others by what
            rounding does, in float32 by a few units of 2^20, in bfloat16 by far more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from dpicl.errors import ModelError, ParameterError
from dpicl.lm.requests import ModelDescription, Tokens

_LARGEST_SUM = 1 << 62
_MOST_UNITS = 1 << 40
"""A vote is computed in float64, whose whole numbers are exact up to 2^53."""


@dataclass(frozen=True)
class VoteRequest:
    """One text that is being written: which prompts vote on its next token.

    Args:
        public: the public prompt: instruction and header, no example.
        voters: whole prompts, one per voter, an empty one has no vote; without any, the public
            prompt votes alone.
        written: what follows every one of them so far.
    """

    public: Tokens
    voters: tuple[Tokens, ...]
    written: Tokens


@dataclass(frozen=True)
class VoteRule:
    """What a vote is; see `integer_votes.whole_votes`.

    Args:
        candidates: K: so many of the public prompt's likeliest tokens; None: the whole vocabulary.
        units: S: what a voter's vote is counted in, at most 2^40.
        clip: c: of `logit`, a candidate so many nats below the likeliest has no vote; of
            `difference`, a voter moves no token by more.
        voters: B, of `difference` only: how many voters' sum is divided by, whoever votes.

    Raises:
        ParameterError: a number is out of its range, or stands with a kind that does not use it.
    """

    kind: Literal["probability", "relative", "logit", "difference"]
    candidates: int | None
    units: int
    clip: float | None = None
    voters: int | None = None

    def __post_init__(self) -> None:
        if self.candidates is not None and self.candidates < 1:
            raise ParameterError(
                "candidates", self.candidates, "at least 1, or None for the whole vocabulary"
            )
        if not 1 <= self.units <= _MOST_UNITS:
            raise ParameterError("units", self.units, "a whole number from 1 to 2^40")
        if (self.clip is not None) != (self.kind in ("logit", "difference")):
            raise ParameterError(
                "clip",
                self.clip,
                "a number for votes of kind logit and difference, and none for others",
            )
        if (self.voters is not None) != (self.kind == "difference") or (
            self.voters is not None and self.voters < 1
        ):
            raise ParameterError(
                "voters",
                self.voters,
                "a whole number >= 1 for votes of kind difference, and none for others",
            )
        if self.clip is not None and not 0 < self.clip < float("inf"):
            raise ParameterError("clip", self.clip, "a finite number of nats above 0")


@dataclass(frozen=True)
class Votes:
    """What the voters of one text give: int64 arrays of shape (candidates,).

    Args:
        candidates: token ids, the likeliest in the public prompt first; of equal ones the lower id.
        sums: over all voters, exact; a repeated voter counts as often as it stands there.
        public: of `difference` only: what the public prompt counts, whoever votes.
    """

    candidates: np.ndarray
    sums: np.ndarray
    public: np.ndarray | None = None

    @property
    def scores(self) -> np.ndarray:
        """What is selected by: sums, and what is public."""
        return self.sums if self.public is None else self.sums + self.public


class VotingSession(Protocol):
    """Texts whose voters stay the same from the first token to the last."""

    def vote(self, written: Sequence[Tokens | None]) -> list[Votes | None]:
        """Votes on the next token of every text that is not finished.

        Args:
            written: for every text, what to append to what was written before; None once it is
                finished, in this call and in all that follow.

        Raises:
            ModelError: a public prompt with what was written is longer than the context.
            ParameterError: not one entry for every text, or tokens for one that was finished.
        """


class GeneratorModel(Protocol):
    """A local model whose prompts can vote."""

    @property
    def description(self) -> ModelDescription:
        """The model that writes."""

    @property
    def leading(self) -> Tokens:
        """What stands before every text, such as a start token; the caller puts it into a
        prompt.
        """

    @property
    def ends(self) -> frozenset[int]:
        """Tokens that end a text: the model's own, all that hold a line break, and " END" where it
        is one token.
        """

    @property
    def context(self) -> int | None:
        """Most tokens that the model reads, if it has such a limit."""

    def encode(self, text: str) -> Tokens:
        """Tokens of a text, without `leading`."""

    def decode(self, tokens: Tokens) -> str:
        """The text of tokens, without special ones."""

    def vote(self, requests: Sequence[VoteRequest], rule: VoteRule) -> list[Votes]:
        """Votes on the next token of every text, in order.

        A voter whose prompt with what was written is longer than the context votes 0 for all, and
        so does one after whom the model answers with numbers that are not finite: an error would
        reveal it.

        Raises:
            ModelError: a public prompt with what was written is longer than the context.
            ParameterError: so many voters that their sum may not fit 64 bits.
        """

    def session(self, requests: Sequence[VoteRequest], rule: VoteRule) -> VotingSession:
        """The same for voters that stay: what was read is not read again.

        Raises:
            ParameterError: as `vote`.
        """


def check_sums(requests: Sequence[VoteRequest], rule: VoteRule) -> None:
    """Refuse more voters than exact sums can hold.

    Raises:
        ParameterError: so many voters of one text that their sum may not fit 64 bits.
    """
    most = max((len(request.voters) for request in requests), default=0)
    if most * rule.units >= _LARGEST_SUM:
        raise ParameterError("voters", most, f"fewer than 2^62 / {rule.units} for each text")


def fits(row: Tokens, context: int | None) -> bool:
    """Whether a model with this context can read a row at all."""
    return 0 < len(row) <= (context or len(row))


def check_public(rows: Iterable[Tokens], *, name: str, context: int | None) -> None:
    """Refuse public prompts, with what was written after them, that the model cannot read.

    Raises:
        ModelError: says how long the longest is.
    """
    wrong = [len(row) for row in rows if not fits(row, context)]
    if wrong:
        raise ModelError(
            f"a public prompt with what was written after it has {max(wrong)} tokens, but model "
            f"{name!r} reads at least 1 "
            f"and at most {context} (texts: {len(wrong)}); expected fewer tokens or a model with "
            f"a longer context"
        )


class OpenRequests:
    """The texts of a session that are not finished, as far as they are written."""

    def __init__(self, requests: Sequence[VoteRequest]) -> None:
        self._count = len(requests)
        self.open = dict(enumerate(requests))

    def append(self, written: Sequence[Tokens | None]) -> None:
        """See `VotingSession.vote`."""
        if len(written) != self._count:
            raise ParameterError(
                "written", len(written), f"one entry for each of {self._count} texts"
            )
        finished = sum(
            tokens is not None and number not in self.open for number, tokens in enumerate(written)
        )
        if finished:
            raise ParameterError(
                "written", f"{finished} texts", "None for texts that were finished before"
            )
        self.open = {
            number: replace(request, written=request.written + tokens)
            for number, request in self.open.items()
            if (tokens := written[number]) is not None
        }

    def in_order(self, votes: Mapping[int, Votes]) -> list[Votes | None]:
        """Votes on the open texts, with None in the place of finished ones."""
        return [votes.get(number) for number in range(self._count)]


class FreshSession:
    """A session that keeps nothing but the texts."""

    def __init__(
        self, requests: Sequence[VoteRequest], vote: Callable[[Sequence[VoteRequest]], list[Votes]]
    ) -> None:
        self._requests, self._vote = OpenRequests(requests), vote

    def vote(self, written: Sequence[Tokens | None]) -> list[Votes | None]:
        """See `VotingSession.vote`."""
        self._requests.append(written)
        votes = self._vote(list(self._requests.open.values()))
        return self._requests.in_order(dict(zip(self._requests.open, votes, strict=True)))
