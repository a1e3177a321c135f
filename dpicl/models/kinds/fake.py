"""Stand-ins for models, for tests and wiring: scores that are hashes of a prompt, and texts that
repeat its last example, byte by byte.

The last line of a prompt is a cue up to its first colon, such as `Text:`, and what was written
after it. The last earlier line with the same cue is the example, and after n written bytes the
likeliest next one is byte n of what follows its cue, and a line break after all of them.
A prompt without an example repeats `PUBLIC_TEXT`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpicl.ground.files import sha256_of
from dpicl.models.kinds.base import ModelKind, Opened, text_digest
from dpicl.models.requests import (
    ModelDescription,
    Progress,
    Sampling,
    Scorer,
    Tokens,
    Trust,
    before_stop,
    prompt_digest,
)
from dpicl.models.votes import (
    FreshSession,
    GeneratorModel,
    VoteRequest,
    VoteRule,
    Votes,
    VotingSession,
    candidates_of,
    check_public,
    check_sums,
    fits,
    public_votes,
    whole_votes,
)

if TYPE_CHECKING:
    from dpicl.models.spec import ModelSpec


class Fake(ModelKind):
    """Answers with hashes."""

    name = "fake"

    def open(self, opened: Opened, models_folder: Path, mode: str = "") -> Scorer:
        """See `ModelKind.open`."""
        return HashScorer(opened[0].name, opened[0].trust)

    def open_generator(self, spec: ModelSpec) -> GeneratorModel | None:
        """See `ModelKind.open_generator`."""
        return EchoGenerator(spec.name)

    def fingerprint(self, spec: ModelSpec, corpus: Sequence[str]) -> str:
        """See `ModelKind.fingerprint`."""
        return text_digest(spec)

    def number_format(self, spec: ModelSpec) -> str:
        """See `ModelKind.number_format`."""
        return "float32"


def _untrained(name: str, model: str, trust: Trust, what: str) -> ModelDescription:
    return ModelDescription(
        name=name,
        kind="fake",
        revision="1",
        digest=sha256_of(f"dpicl {model} 1"),
        trained=False,
        trust=trust,
        note=f"fake: {what}, for tests and wiring only",
    )


@dataclass(frozen=True)
class HashScorer:
    """A stand-in without a model: a score is uniform and follows from a hash of the text, and so do
    the letters of a text.
    """

    name: str = "fake"
    trust: Trust = "local"

    @property
    def description(self) -> ModelDescription:
        """Says that nothing was trained and nothing was read."""
        return _untrained(self.name, "HashScorer", self.trust, "scores are hashes of the prompt")

    def score(
        self,
        prompts: Sequence[str],
        continuations: Sequence[str],
        *,
        progress: Progress | None = None,
    ) -> np.ndarray:
        """See `Scorer.score`; each score is the logarithm of a number in (0, 1]."""

        def score(prompt: str, continuation: str) -> float:
            digest = hashlib.sha256(prompt_digest(prompt) + continuation.encode()).digest()
            return math.log((int.from_bytes(digest[:6], "big") + 1) / (1 << 48))

        scores = [
            [score(prompt, continuation) for continuation in continuations] for prompt in prompts
        ]
        if progress is not None:
            progress(len(prompts))
        return np.array(scores, dtype=np.float64).reshape(len(prompts), len(continuations))

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[str]:
        """See `TextGenerator.generate`; up to eight lower-case letters, each a token."""

        def text(prompt: str, sample: str) -> str:
            digest = hashlib.sha256(prompt_digest(prompt) + b"text" + sample.encode()).digest()
            return "".join(chr(ord("a") + byte % 26) for byte in digest[:8])

        samples = [
            str(sampling.seed + place) if sampling.temperature else ""
            for place in range(len(prompts))
        ]
        return [
            before_stop(text(prompt, sample)[: sampling.new_tokens], sampling.stop)
            for prompt, sample in zip(prompts, samples, strict=True)
        ]


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
        return _untrained(
            self.name, "EchoGenerator", "local", "texts repeat the last example of a prompt"
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
