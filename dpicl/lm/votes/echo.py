"""A stand-in for a model that writes: it repeats the last example of a prompt, byte by byte.

The last line of a prompt is a cue up to its first colon, such as `Text:`, and what was written
after it. The last earlier line with the same cue is the example, and after n written bytes the
likeliest next one is byte n of what follows its cue, and a line break after all of them.
A prompt without an example repeats `PUBLIC_TEXT`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpicl.lm.requests import ModelDescription, Tokens
from dpicl.lm.votes.integer_votes import candidates_of, public_votes, whole_votes
from dpicl.lm.votes.voting import (
    FreshSession,
    VoteRequest,
    VoteRule,
    Votes,
    VotingSession,
    check_public,
    check_sums,
    fits,
)

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
        return bytes(token for token in tokens if token < END).decode(errors="replace")

    def vote(self, requests: Sequence[VoteRequest], rule: VoteRule) -> list[Votes]:
        """See `GeneratorModel.vote`."""
        check_sums(requests, rule)
        check_public(
            (request.public + request.written for request in requests),
            name=self.name,
            context=self.context,
        )
        results = []
        for request in requests:
            public = self._logits(request.public + request.written)
            voters = [self._logits(voter + request.written) for voter in request.voters] or [public]
            candidates = candidates_of(public, np.arange(len(public)), rule, np)
            sums = whole_votes(np.stack(voters)[:, candidates], rule, np, public[candidates]).sum(
                axis=0
            )
            results.append(
                Votes(
                    candidates,
                    sums,
                    public_votes(public[candidates], rule, np)
                    if rule.kind == "difference"
                    else None,
                )
            )
        return results

    def session(self, requests: Sequence[VoteRequest], rule: VoteRule) -> VotingSession:
        """See `GeneratorModel.session`."""
        check_sums(requests, rule)
        return FreshSession(requests, partial(self.vote, rule=rule))

    def _logits(self, prompt: Tokens) -> np.ndarray:
        """Log-probabilities; no numbers at all after a prompt that is too long."""
        if not fits(prompt, self.context):
            return np.full(len(_ORDER), np.nan)
        *lines, last = bytes(token for token in prompt if token < END).split(b"\n")
        cue, colon, written = last.partition(b":")
        examples = [
            line.removeprefix(cue + colon)
            for line in lines
            if colon and line.startswith(cue + colon)
        ]
        text = (examples[-1] if examples else PUBLIC_TEXT) + b"\n"
        rest = np.zeros(len(_ORDER))
        rest[_ORDER] = 1 / np.arange(2, len(_ORDER) + 2)
        weights = (1 - self.sure) * rest / rest.sum()
        weights[text[min(len(written), len(text) - 1)]] += self.sure
        return np.log(weights)
