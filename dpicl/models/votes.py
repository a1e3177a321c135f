"""A text that many prompts write together, token by token: the voters, their rule, and from a
voter's logits to a vote in whole numbers, for numpy and torch alike. No model is needed.

Every voter is a whole prompt that holds some private examples; all of a text are followed by what
was written so far. `mechanisms.private_token` puts noise on the sums of votes.

Trust       Sums are private until noise is on them. Candidates follow from the public prompt and
            what was written, and whether a request has voters at all must be public too.
Not covered that voters are read together: one voter's prompt moves the votes of others by what
            rounding does, in float32 by a few units of 2^20, in bfloat16 by far more.

A vote is computed from the voter's logits z at the candidates alone, in float64:

    (1)  probability   v_j = floor(p_j S),                           p = softmax(z)
    (2)  relative      v_j = floor(p_j / max p S)
    (3)  logit         v_j = floor((1 - min(max z - z_j, c) / c) S)
    (4)  difference    v_j = round(min(max(ln p_j - ln o_j, -c), c) / c S),  o of the public prompt
         at the same candidates,
                       beside  u_j = round(ln o_j B S / c)  of the public prompt itself

Whatever the arithmetic does, v_j is a whole number in 0..S, in (4) in -S..S, and of kind (1) their
sum is at most S: numbers are clamped, and a vote whose sum is larger after all counts nothing. So
one voter's vote that is exchanged for another, or for none, moves

    (1)  the sums by an l2 norm of at most sqrt(2) S: |u - v|^2 = |u|^2 + |v|^2 - 2 uv <= 2 S^2
    (2)  the difference of two candidates' sums by at most 2 S
    (3)  the same
    (4)  the difference of two candidates' sums by at most 4 S

and a voter that comes or goes moves the sums by an l2 norm of at most S in (1), every sum by 0..S
and the difference of two by at most S in (2) and (3), and every sum by -S..S in (4). A voter with a
logit that is not finite votes 0 for all.

Source  (1) and (2) arXiv 2309.11765, algorithm 1; (3) arXiv 2407.12108, clipped logits; (4) arXiv
        2507.02974, logits there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from dpicl.ground.errors import ModelError, ParameterError
from dpicl.models.requests import ModelDescription, Tokens

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
    """What a vote is; see `whole_votes`.

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
            f"{name!r} reads at least 1 and at most {context} (texts: {len(wrong)}); expected "
            "fewer tokens or a model with a longer context"
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
        self._requests = OpenRequests(requests)
        self._vote = vote

    def vote(self, written: Sequence[Tokens | None]) -> list[Votes | None]:
        """See `VotingSession.vote`."""
        self._requests.append(written)
        votes = self._vote(list(self._requests.open.values()))
        return self._requests.in_order(dict(zip(self._requests.open, votes, strict=True)))


_BELOW_ONE = 1 - 1e-9
"""Rounding errors of a softmax over fewer than 2^22 candidates are smaller, so that no vote's sum
exceeds S.
"""
_LEAST_PUBLIC = -(1 << 60)
"""Of (4): with it, sums fit 64 bits."""


def candidates_of(logits: Any, known: Any, rule: VoteRule, xp: Any) -> Any:
    """The likeliest tokens after the public prompt, the likeliest first; of equal ones the lower
    id.

    Of `difference` also those that are less than 2 c below the last of them: no voters lift others
    among the K likeliest.

    Args:
        logits: shape (vocabulary,); tokens of -inf are no candidates.
        known: ids that may be written, ascending.
        rule: how many.
        xp: numpy or torch, whichever the arrays are of.

    Returns:
        Ids, shape (candidates,), of the kind of `known`.
    """
    return candidates_of_all(logits[None], known, rule, xp)[0]


def candidates_of_all(logits: Any, known: Any, rule: VoteRule, xp: Any) -> list[Any]:
    """`candidates_of` every row of logits, shape (rows, vocabulary)."""
    public = logits[:, known]
    possible = public > -float("inf")
    size = public.shape[1]
    count = min(rule.candidates or size, size)
    margin = 2 * rule.clip if rule.kind == "difference" and rule.clip is not None else 0.0
    if not count or not len(public):
        return [known[:0]] * len(public)
    least = (
        xp.topk(public, count).values[:, -1:]
        if hasattr(xp, "topk")
        else xp.partition(public, -count)[:, -count][:, None]
    )
    # few of many, which are sorted alone, in rows that are padded to the longest
    near = possible & (public >= least - margin)
    sizes = near.sum(1).tolist()
    found = xp.nonzero(near)
    lines, places = found if isinstance(found, tuple) else found.T
    columns = (xp.cumsum(near, 1) - 1)[lines, places]
    values = xp.full_like(public[:, : max(sizes)], -float("inf"))
    ids = xp.zeros_like(values, dtype=known.dtype)
    values[lines, columns], ids[lines, columns] = public[lines, places], known[places]
    ids = ids[xp.arange(len(ids))[:, None], xp.argsort(-values, stable=True)]
    return [
        row[: size if margin else min(size, count)] for row, size in zip(ids, sizes, strict=True)
    ]


def public_votes(logits: Any, rule: VoteRule, xp: Any) -> Any:
    """What the public prompt counts in (4), by its logits at the candidates: shape (candidates,),
    int64.
    """
    return counted_chances(log_chances(xp.asarray(logits, dtype=xp.float64), xp), rule, xp)


def counted_chances(chances: Any, rule: VoteRule, xp: Any) -> Any:
    """The same by log-probabilities in float64, of any shape."""
    assert rule.voters is not None and rule.clip is not None
    weighted = chances * (rule.voters * rule.units / rule.clip)
    return xp.asarray(xp.clip(xp.round(weighted), _LEAST_PUBLIC, 0), dtype=xp.int64)


def log_chances(logits: Any, xp: Any) -> Any:
    """Of float64 logits, over the last axis."""
    gaps = logits - xp.amax(logits, -1, keepdims=True)
    gaps -= xp.log(xp.exp(gaps).sum(-1, keepdims=True))
    return gaps


def whole_votes(
    logits: Any, rule: VoteRule, xp: Any, public: Any = None, present: Any = None
) -> Any:
    """Every voter's vote by the equations above.

    Args:
        logits: at the candidates, shape (voters, candidates).
        rule: kind, units and clip.
        xp: numpy or torch, whichever the array is of.
        public: of `difference` only: the public prompt's logits at the candidates, shape
            (candidates,); or, of voters of several texts, what `log_chances` makes of each voter's
            own, shape (voters, candidates).
        present: of texts with unlike numbers of candidates, which cells are candidates at all:
            shape (voters, candidates), bool; the others get no vote.

    Returns:
        Shape (voters, candidates), int64.
    """
    sizes = abs(logits) if present is None else xp.where(present, abs(logits), 0.0)
    counted = xp.amax(sizes, 1, keepdims=True) < float("inf")  # which a number that is none is not
    logits = xp.asarray(logits, dtype=xp.float64)
    if not counted.all():
        logits = xp.where(counted, logits, 0.0)
    if present is not None:
        logits = xp.where(present, logits, -float("inf"))
        counted = counted & present
    if rule.kind == "difference":
        assert rule.clip is not None
        chances = (
            public
            if len(public.shape) == 2
            else log_chances(xp.asarray(public, dtype=xp.float64), xp)
        )
        moved = log_chances(logits, xp)
        moved -= chances
        moved *= rule.units / rule.clip
        return xp.asarray(
            xp.where(counted, xp.clip(xp.round(moved), -rule.units, rule.units), 0.0),
            dtype=xp.int64,
        )
    gaps = logits - xp.amax(logits, axis=1, keepdims=True)
    if rule.clip is not None:
        shares = 1 + xp.clip(gaps, -rule.clip, 0) / rule.clip
    else:
        shares = xp.exp(gaps)
        if rule.kind == "probability":
            shares = shares / shares.sum(axis=1, keepdims=True) * _BELOW_ONE
    votes = xp.asarray(xp.clip(xp.floor(shares * rule.units), 0, rule.units), dtype=xp.int64)
    if rule.kind == "probability":
        counted = counted & (votes.sum(axis=1, keepdims=True) <= rule.units)
    return xp.where(counted, votes, 0)
