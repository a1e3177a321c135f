"""A stand-in for a model that writes: it repeats the last example of a prompt, byte by byte.

The last line of a prompt is a cue up to its first colon, such as `Text:`, and what was written
after it. The last earlier line with the same cue is the example, and after n written bytes the
likeliest next one is byte n of what follows its cue; after all of them, and for ever, a line break.
A prompt without an example repeats `PUBLIC_TEXT`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpicl.lm.local.batching import Tokens
from dpicl.lm.requests import ModelDescription
from dpicl.lm.votes.integer_votes import candidates_of, whole_votes
from dpicl.lm.votes.voting import FreshSession, VoteRequest, VoteRule, Votes, VotingSession, check_public, check_sums, fits

END = 256
"""The token that ends a text; tokens 0..255 are bytes."""
PUBLIC_TEXT = b" A text that nobody has shown me."
_USUAL = [*b"\n etaoinshrdlcumwfgypbvkjxqz", END]
_ORDER = list(dict.fromkeys([*_USUAL, *range(32, 127), *range(END)]))
"""From the usual to the unusual: what is not echoed has a probability that falls in this order."""


@dataclass(frozen=True)
class EchoGenerator:
    """A `GeneratorModel` without a model.

    Args:
        sure: probability of the byte that is echoed; all tokens share the rest.
    """

    name: str = "fake"
    sure: float = 0.97
    leading: Tokens = ()
    ends: frozenset[int] = frozenset({ord("\n"), END})
    context: int | None = None

    @property
    def description(self) -> ModelDescription:
        """Says that nothing was trained and nothing was understood."""
        return ModelDescription(
            name=self.name,
            kind="fake",
            revision="1",
            digest=hashlib.sha256(b"dpicl EchoGenerator 1").hexdigest(),
            trained=False,
            trust="local",
            note="fake: texts repeat the last example of a prompt, for tests and wiring only",
        )

    def encode(self, text: str) -> Tokens:
        """See `GeneratorModel.encode`."""
        return tuple(text.encode(errors="replace"))

    def decode(self, tokens: Tokens) -> str:
        """See `GeneratorModel.decode`."""
        return _bytes(tokens).decode(errors="replace")

    def vote(self, ballots: Sequence[VoteRequest], rule: VoteRule) -> list[Votes]:
        """See `GeneratorModel.vote`."""
        check_sums(ballots, rule)
        check_public((ballot.public + ballot.written for ballot in ballots), name=self.name, context=self.context)
        return [self._votes(ballot, rule) for ballot in ballots]

    def session(self, ballots: Sequence[VoteRequest], rule: VoteRule) -> VotingSession:
        """See `GeneratorModel.session`."""
        check_sums(ballots, rule)
        return FreshSession(ballots, partial(self.vote, rule=rule))

    def _votes(self, ballot: VoteRequest, rule: VoteRule) -> Votes:
        public = self._logits(ballot.public + ballot.written)
        voters = [self._logits(voter + ballot.written) for voter in ballot.voters] or [public]
        candidates = candidates_of(public, np.arange(len(public)), rule.candidates, np)
        return Votes(candidates, whole_votes(np.stack(voters)[:, candidates], rule, np).sum(axis=0))

    def _logits(self, prompt: Tokens) -> np.ndarray:
        """Log-probabilities; no numbers at all after a prompt that is too long."""
        if not fits(prompt, self.context):
            return np.full(len(_ORDER), np.nan)
        rest = np.zeros(len(_ORDER))
        rest[_ORDER] = 1 / np.arange(2, len(_ORDER) + 2)
        weights = (1 - self.sure) * rest / rest.sum()
        weights[_echoed(_bytes(prompt))] += self.sure
        return np.log(weights)


def _bytes(tokens: Tokens) -> bytes:
    return bytes(token for token in tokens if token < END)


def _echoed(prompt: bytes) -> int:
    *lines, last = prompt.split(b"\n")
    cue, colon, written = last.partition(b":")
    examples = [line.removeprefix(cue + colon) for line in lines if colon and line.startswith(cue + colon)]
    text = (examples[-1] if examples else PUBLIC_TEXT) + b"\n"
    return text[min(len(written), len(text) - 1)]
