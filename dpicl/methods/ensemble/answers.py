"""Step 3 of DP-ICL for one query: from clean votes to the one answer that leaves, and what is
written without private rows for it.

Trust       Central; votes are private, candidates and keywords of a query are public.
Guarantee   that of the plan's noise; everything after it is post-processing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import cast

import numpy as np

from dpicl.contract.text import Classification, TextContract
from dpicl.lm.egress import generate_texts
from dpicl.lm.embedding import Embedder
from dpicl.lm.requests import Scorer, TextGenerator
from dpicl.mechanisms.joint_exponential import joint_top
from dpicl.mechanisms.noisy_embedding import EmbeddingNoise, nearest, whole_vectors
from dpicl.mechanisms.private_token import TokenNoise
from dpicl.methods.ensemble.plan import CHANGED_ANSWER, EnsemblePlan, JointNoise, sizes_of
from dpicl.methods.ensemble.voting import STOP, Votes
from dpicl.randomness import Stream
from dpicl.text.prompts import asking_prompt, asking_query
from dpicl.types import ReleasedPrompts

RADIUS = 1.0
"""Embeddings of answers lie within this distance of the candidates' mean, or are drawn to it."""
LAST = 16
"""Embedded at last and still at hand: cells that are asked alike decide on the same texts one after
another.
"""
Answer = str | list[str]
"""To one query: a label's name, a text, or keywords."""


@dataclass(frozen=True)
class Candidates:
    """Answers to one query that were written without private rows."""

    texts: tuple[str, ...]
    embeddings: np.ndarray

    @cached_property
    def centre(self) -> np.ndarray:
        """Their mean: public, shape (d,)."""
        return np.asarray(self.embeddings.mean(axis=0))


class Public:
    """What is known of the queries without private rows: candidates, and what embeds texts."""

    def __init__(self, written: Mapping[str, Sequence[str]], embedder: Embedder | None) -> None:
        def embed(texts: tuple[str, ...]) -> np.ndarray:
            assert embedder is not None
            return embedder.embed(texts)

        def candidates(query: str) -> Candidates:
            texts = tuple(written[query])
            return Candidates(texts, embed(texts))

        self._embed, self.candidates = lru_cache(LAST)(embed), lru_cache(LAST)(candidates)

    def points(self, texts: Sequence[str]) -> np.ndarray:
        """Embeddings of norm 1, shape (texts, d), of texts that a query's candidates were embedded
        before.

        NaN where there is no text, or one that cannot be embedded: no answer is no point, not one
        opposite to the centre.
        """
        try:
            points = self._embed(tuple(texts))
        except Exception:  # noqa: BLE001 - whatever it is, it may follow from one text, and public ones were embedded
            alone: list[np.ndarray | None] = []
            for text in texts:
                try:
                    alone.append(np.asarray(self._embed((text,))[0]))
                except Exception:  # noqa: BLE001 - whatever it is, it may follow from one text, and public ones were embedded
                    alone.append(None)
            nowhere = np.full(
                max((len(point) for point in alone if point is not None), default=1), np.nan
            )
            points = np.stack([nowhere if point is None else point for point in alone])
        return np.where([[bool(text)] for text in texts], points, np.nan)


def decide(
    plan: EnsemblePlan,
    votes: Votes,
    query: str,
    contract: TextContract,
    stream: Stream,
    public: Public,
) -> Answer:
    """Step 3 for one query: all that leaves."""
    noise = plan.noise
    if isinstance(noise, TokenNoise):
        return contract.demonstrated[noise.select(cast(list[int], votes), stream)]
    texts = cast(list[str], votes)
    if isinstance(noise, EmbeddingNoise):
        candidates = public.candidates(query)
        vectors = whole_vectors(public.points(texts), centre=candidates.centre, radius=RADIUS)
        return candidates.texts[
            nearest(candidates.embeddings, noise.release(vectors, stream), candidates.centre)
        ]
    counts = Counter(word for text in texts for word in set(words_of(text)))
    if not isinstance(noise, JointNoise):
        return list(noise.choose(counts, stream, stream) or ())
    words = words_of(query)
    if not words:
        return []
    length, of_words = min(plan.shape.keywords, len(words)), [counts[word] for word in words]
    places = joint_top(
        of_words, length=length, epsilon=noise.epsilon, sensitivity=CHANGED_ANSWER, stream=stream
    )
    return [words[place] for place in places]


def words_of(text: str) -> list[str]:
    """Words in small letters, each once, in their order; common ones are left out."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # a second to import

    return [
        word
        for word in dict.fromkeys(re.findall(r"\w+", text.lower()))
        if word not in ENGLISH_STOP_WORDS
    ]


def write_candidates(
    queries: Sequence[str], contract: TextContract, seed: int, model: Scorer
) -> dict[str, list[str]]:
    """Sampled answers to every query from the model alone; reads no row and costs nothing. Nothing
    for labels.
    """
    task = contract.task
    if isinstance(task, Classification) or not isinstance(model, TextGenerator):
        return {}
    count, distinct = sizes_of(contract).candidates, list(dict.fromkeys(queries))
    prompts = [
        asking_prompt(contract, [], asking_query(contract, query))
        for query in distinct
        for _ in range(count)
    ]
    texts = generate_texts(
        model,
        ReleasedPrompts(tuple(prompts)),
        new_tokens=task.answer_tokens,
        stop=STOP,
        temperature=1.0,
        seed=seed,
    )
    return {
        query: [text.strip() for text in texts[place * count : (place + 1) * count]]
        for place, query in enumerate(distinct)
    }
