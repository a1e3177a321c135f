"""A language model of topics: words of a public topic and after a public word, the topic inferred
from what stands in the prompt.

It learns in context as an exact Bayesian does (Xie et al. 2022, arXiv 2111.02080), and repeats
words of its prompt (Kuhn and De Mori 1990, cache models). It is counted from public, labelled
texts, and needs no trained weights. It measures whether what rows say reaches what is written; of
fluency it says nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from dpicl.models.requests import ModelDescription, Tokens
from dpicl.models.votes import (
    FreshSession,
    VoteRequest,
    VoteRule,
    Votes,
    VotingSession,
    candidates_of,
    public_votes,
    whole_votes,
)

END = 0
WORDS = 4000
TOPICAL, CACHED = 0.8, 0.1
"""Shares of words of the topic, else after the last word; and of words of the prompt, in place of
both.
"""
SURE = 0.5
"""Power of a prompt's likelihood: its words are not independent."""


def words_of(text: str) -> list[str]:
    """Words in small letters that mean something by themselves: of the others a classifier of
    topics learns nothing.
    """
    return [
        word for word in re.findall(r"[a-z]{3,}", text.lower()) if word not in ENGLISH_STOP_WORDS
    ]


@dataclass(frozen=True, eq=False)
class TopicModel:
    """A `GeneratorModel`; token 0 stands before the first word and is never written, all others are
    words.

    Args:
        names: the words, by token.
        topics: chances of each word by topic, shape (topics, words).
        after: chances of each word after each, shape (words, words); after token 0 stands the first
            word.
        ignored: words that are no part of a prompt: those of the instruction.
    """

    names: tuple[str, ...]
    topics: np.ndarray
    after: np.ndarray
    ignored: frozenset[str]
    leading: Tokens = ()
    ends: frozenset[int] = frozenset({END})
    context: int | None = None
    prompts: dict[Tokens, tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=dict)

    @staticmethod
    def of(texts: Mapping[str, Sequence[str]], ignored: str) -> TopicModel:
        """Counted from public texts by topic."""
        lists = {topic: [words_of(text) for text in some] for topic, some in texts.items()}
        known = [
            name
            for name, _ in Counter(
                word for some in lists.values() for words in some for word in words
            ).most_common(WORDS - 1)
        ]
        places = {name: place for place, name in enumerate(["", *known])}
        pairs, topics = (
            np.zeros((WORDS, WORDS), dtype=np.float32),
            np.full((len(lists), WORDS), 0.1),
        )
        for topic, some in enumerate(lists.values()):
            for words in some:
                row = [END, *(places[word] for word in words if word in places)]
                np.add.at(pairs, (row[:-1], row[1:]), 1)
                np.add.at(topics[topic], row[1:], 1)
        single = pairs.sum(axis=0) / pairs.sum()
        after = 0.3 * single + 0.7 * pairs / np.maximum(pairs.sum(axis=1, keepdims=True), 1)
        return TopicModel(
            ("", *known),
            topics / topics.sum(axis=1, keepdims=True),
            after + 1e-7,
            frozenset(words_of(ignored)),
        )

    @property
    def description(self) -> ModelDescription:
        """Says what it is."""
        return ModelDescription(
            "topics",
            "fake",
            "1",
            "",
            False,
            "local",
            note="a topic language model, for measuring only",
        )

    def encode(self, text: str) -> Tokens:
        """Known words."""
        return tuple(
            self._places[word]
            for word in words_of(text)
            if word in self._places and word not in self.ignored
        )

    def decode(self, tokens: Tokens) -> str:
        """Words, with a blank between."""
        return " ".join(self.names[token] for token in tokens if token != END)

    def vote(self, requests: Sequence[VoteRequest], rule: VoteRule) -> list[Votes]:
        """See `GeneratorModel.vote`."""
        results = []
        for request in requests:
            (public,) = np.log(self._chances([request.public], request.written, np.arange(WORDS)))
            candidates = candidates_of(public, np.arange(WORDS), rule, np)
            voters = self._chances(request.voters or [request.public], request.written, candidates)
            sums = whole_votes(np.log(voters), rule, np, public[candidates]).sum(axis=0)
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
        return FreshSession(requests, partial(self.vote, rule=rule))

    def _chances(
        self, prompts: Sequence[Tokens], written: Tokens, tokens: np.ndarray
    ) -> np.ndarray:
        """Of some tokens after each prompt and what was written: shape (prompts, tokens)."""
        read = [self._read(prompt) for prompt in prompts]
        logs = SURE * (
            np.array([one for one, _, _ in read]) + self._logs[:, list(written)].sum(axis=1)
        )
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        topical = weights / weights.sum(axis=1, keepdims=True) @ self.topics[:, tokens]
        places, cache = np.full(WORDS, len(tokens)), np.zeros((len(prompts), len(tokens) + 1))
        places[tokens] = np.arange(len(tokens))
        for line, (_, repeated, shares) in enumerate(read):
            cache[line, places[repeated]] = shares  # what is no candidate goes into a last column
        after = self.after[written[-1] if written else END, tokens]
        return (1 - CACHED) * (TOPICAL * topical + (1 - TOPICAL) * after) + CACHED * cache[:, :-1]

    def _read(self, prompt: Tokens) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log-likelihood by topic, its words, and their shares."""
        if prompt not in self.prompts:
            cached = Counter(prompt)
            shares = np.array([*cached.values()]) / max(1, len(prompt))
            self.prompts[prompt] = (
                self._logs[:, list(prompt)].sum(axis=1),
                np.array([*cached], dtype=np.int64),
                shares,
            )
        return self.prompts[prompt]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names) if place}

    @cached_property
    def _logs(self) -> np.ndarray:
        return np.log(self.topics)
