"""Texts as points on a sphere, for comparing what several answers say.

By default words and pieces of words, hashed: no model, no download, the same on every machine. Or a
sentence encoder like any other model: a folder, a hub id, or a server's.

Guarantee   none spent here: the mechanism that adds noise states what a point may cost
            (`noisy_embedding`). Weights are public constants; in particular no frequency is counted
            in the texts, whose answers to the same query would otherwise follow from other rows.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Protocol

import numpy as np

from dpicl.ground.errors import ModelRefusedError
from dpicl.models.spec import ModelSpec

DIMENSIONS = 1024
HASHED = "hashed n-grams 1"
"""Names the default in releases: another number where its points change."""
_COMMON_WORDS = (
    "a about after all also an and any are as at be because been but by can could did do does "
    "for from had has have he her him his how i if in into is it its just me my no not of on "
    "one or our out over she so some than that the their them then there they this to up was "
    "we were what when where which who will with would you your"
)
_COMMON = frozenset(_COMMON_WORDS.split())
"""Words that nearly every English text has; in the place of counted frequencies."""
_WEIGHTS = {"word": 1.0, "pair": 0.5, "piece": 0.3}
_COMMON_WEIGHT = 0.1
_PIECES = (3, 4)
"""Letters in a piece of a word, the blanks around it included."""


class Embedder(Protocol):
    """Anything that places texts."""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Points of norm 1, zeros for a text without content: float64 of shape (texts,
        dimensions).
        """


class HashedNGrams:
    """Words, pairs of neighbouring words and pieces of words, each at one of 1,024 places with a
    sign, both by its hash.

        (1)  x_j = sum of s(g) w(g) (1 + ln n_g)  over the n-grams g with h(g) = j,  then  x / |x|

    n_g is how often g stands in the text, w 1 for words, 0.5 for pairs, 0.3 for pieces, and a tenth
    of it for what holds only common words.
    """

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `Embedder.embed`."""
        points = np.zeros((len(texts), DIMENSIONS))
        for point, text in zip(points, texts, strict=True):
            for (kind, gram), count in Counter(_n_grams(text)).items():
                place, sign = _place(f"{kind} {gram}")
                is_common = kind != "piece" and all(word in _COMMON for word in gram.split())
                point[place] += (
                    sign
                    * _WEIGHTS[kind]
                    * (_COMMON_WEIGHT if is_common else 1.0)
                    * (1 + math.log(count))
                )
            if (length := np.linalg.norm(point)) > 0:
                point /= length
        return points


def _n_grams(text: str) -> Iterator[tuple[str, str]]:
    words = re.findall(r"\w+", text.lower()) or list(text.strip())  # signs alone are content too
    yield from (("word", word) for word in words)
    yield from (("pair", f"{word} {following}") for word, following in pairwise(words))
    for word in words:
        if word not in _COMMON:
            padded = f" {word} "
            yield from (
                ("piece", padded[start : start + size])
                for size in _PIECES
                for start in range(len(padded) - size + 1)
            )


def _place(gram: str) -> tuple[int, int]:
    number = int.from_bytes(
        hashlib.blake2b(gram.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
    )
    return number // 2 % DIMENSIONS, 1 - 2 * (number % 2)


@lru_cache(maxsize=2)
def open_embedder(spec: ModelSpec | None) -> Embedder:
    """The embedder, opened once per process; None is the default. Raises ModelError: it cannot be
    opened.
    """
    if spec is None:
        return HashedNGrams()
    check_embedder(spec)
    return spec.of_kind.open_embedder(spec)


def check_embedder(spec: ModelSpec | None) -> None:
    """Raises ModelRefusedError: the model places no texts, or may not see what private texts led
    to.
    """
    if spec is None:
        return
    if not spec.of_kind.is_encoder:
        raise ModelRefusedError(
            f"embedder {spec.name!r} is of kind {spec.kind}; expected a sentence encoder: a "
            f"folder, a hub id, or an entry of kind endpoint"
        )
    if spec.trust != "local":
        raise ModelRefusedError(
            f"embedder {spec.name!r} is not trusted with private rows, and it reads answers that "
            f"follow from them; expected a local model, or an "
            "entry of kind endpoint with `trust: local`"
        )


def embedder_fingerprint(spec: ModelSpec | None) -> str:
    """What names an embedder in a release, found without loading it: another value, other points.
    Raises ModelError: its files are missing.
    """
    return HASHED if spec is None else spec.of_kind.embedder_fingerprint(spec)
