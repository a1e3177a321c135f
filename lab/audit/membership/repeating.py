"""A generator that repeats what it reads: after a word of an example it writes what follows there,
else words by public odds.

It leaks what it can of a row, and every vote is a look-up, so that thousands of releases take a
minute.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

import numpy as np

from dpicl.models.requests import ModelDescription, Tokens
from dpicl.models.votes import (
    FreshSession,
    GeneratorModel,
    VoteRequest,
    VoteRule,
    Votes,
    VotingSession,
    candidates_of,
    public_votes,
    whole_votes,
)

WORDS = ("tea", "rice", "milk", "salt", "corn", "plum", "kale", "figs")
ODDS = np.array([0.3, 0.2, 0.15, 0.1, 0.1, 0.06, 0.05, 0.04])
"""Of the words, where nothing was read."""
REPEATED = 0.9
"""Share of what an example says."""
UNCLIPPED = 64.0
"""In nats: no difference of chances that matter is larger."""


@dataclass(frozen=True, eq=False)
class RepeatingModel:
    """A `GeneratorModel` of eight words, each a token."""

    leading: Tokens = ()
    ends: frozenset[int] = frozenset()
    context: int | None = None
    _votes: dict[tuple[VoteRule, Tokens, Tokens], np.ndarray] = field(default_factory=dict)

    @property
    def description(self) -> ModelDescription:
        """Says that nothing was trained."""
        return ModelDescription("repeating", "fake", "1", "", False, "local")

    def encode(self, text: str) -> Tokens:
        """Its words; others are not read."""
        return tuple(WORDS.index(word) for word in re.findall(r"[a-z]+", text) if word in WORDS)

    def decode(self, tokens: Sequence[int]) -> str:
        """Words, with a blank between."""
        return " ".join(WORDS[token] for token in tokens)

    def vote(self, requests: Sequence[VoteRequest], rule: VoteRule) -> list[Votes]:
        """See `GeneratorModel.vote`."""
        public = np.log(ODDS)
        candidates = candidates_of(public, np.arange(len(WORDS)), rule, np)
        counted = public_votes(public[candidates], rule, np) if rule.kind == "difference" else None
        found = []
        for request in requests:
            sums = np.zeros(len(candidates), dtype=np.int64)
            for voter in request.voters or [request.public]:
                sums += self._vote(voter, request.written[-1:], rule, candidates)
            found.append(Votes(candidates, sums, counted))
        return found

    def session(self, requests: Sequence[VoteRequest], rule: VoteRule) -> VotingSession:
        """See `GeneratorModel.session`."""
        return FreshSession(requests, partial(self.vote, rule=rule))

    def _vote(
        self, prompt: Tokens, last: Tokens, rule: VoteRule, candidates: np.ndarray
    ) -> np.ndarray:
        key = (rule, prompt, last)
        if key not in self._votes:
            logits = np.log(_chances(prompt, last))[np.newaxis, candidates]
            self._votes[key] = whole_votes(logits, rule, np, np.log(ODDS)[candidates])[0]
        return self._votes[key]


def _chances(prompt: Tokens, last: Tokens) -> np.ndarray:
    """Of every word: of those that followed the last one in the prompt, of the first one, or of all
    there.
    """
    following = (
        [after for before, after in pairwise(prompt) if (before,) == last] if last else prompt[:1]
    )
    counts = np.bincount(following or prompt, minlength=len(WORDS))
    return ODDS if not prompt else (1 - REPEATED) * ODDS + REPEATED * counts / counts.sum()


@dataclass(frozen=True, eq=False)
class Unclipped:
    """A model whose voters move a token by as much as they like, where the noise is for clipped
    differences.
    """

    model: GeneratorModel

    @property
    def description(self) -> ModelDescription:
        """See `GeneratorModel`."""
        return self.model.description

    @property
    def leading(self) -> Tokens:
        """See `GeneratorModel`."""
        return self.model.leading

    @property
    def ends(self) -> frozenset[int]:
        """See `GeneratorModel`."""
        return self.model.ends

    @property
    def context(self) -> int | None:
        """See `GeneratorModel`."""
        return self.model.context

    def encode(self, text: str) -> Tokens:
        """See `GeneratorModel`."""
        return self.model.encode(text)

    def decode(self, tokens: Tokens) -> str:
        """See `GeneratorModel`."""
        return self.model.decode(tokens)

    def vote(self, requests: Sequence[VoteRequest], rule: VoteRule) -> list[Votes]:
        """Counted in the units of the rule."""
        assert rule.clip is not None
        times, votes = round(UNCLIPPED / rule.clip), []
        for one in self.model.vote(requests, replace(rule, clip=rule.clip * times)):
            votes.append(
                Votes(
                    one.candidates,
                    one.sums * times,
                    None if one.public is None else one.public * times,
                )
            )
        return votes

    def session(self, requests: Sequence[VoteRequest], rule: VoteRule) -> VotingSession:
        """The same voters for every token."""
        return FreshSession(requests, partial(self.vote, rule=rule))
