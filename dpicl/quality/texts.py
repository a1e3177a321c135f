"""How good a released set of texts is: beside public texts of the same kind, which are no protected
rows.

Guarantee   none spent: post-processing of what was released; other texts are looked at where they
            are public only.

    (1)  accuracy    of logistic regression on hashed words and pairs of words, fitted on the
         released texts and their labels, asked the public
                     texts; on benchmarks also fitted on as many real ones
    (2)  known       the share of a set's distinct n-grams of words, n = 1, 2, 3, that the other set
         has too
    (3)  distance    sqrt(2 E|x - y| - E|x - x'| - E|y - y'|),  x released, y public, as points of
         `lm.embedding`: the energy distance of Szekely
                     and Rizzo (2013, J. Statistical Planning and Inference 143:1249); 0 for equal
                     laws, at most sqrt(2) between points of norm 1; beside it that of two halves of
                     the public texts, which is chance alone

Pairs of a point with itself are left out of (3), so that it is unbiased before the root; what is
below 0 by chance is 0.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np

from dpicl.ground.randomness import stream
from dpicl.models.embedding import HashedNGrams

FEATURES = 1 << 16
N_GRAMS = (1, 2, 3)
MOST_POINTS = 1_000
"""Texts of a set that are placed for (3): all pairs of them are compared."""
_FEWEST = 4
Labelled = Sequence[tuple[str, str]]
"""Labels and texts."""


@dataclass(frozen=True)
class Lengths:
    """Words of a text: quartiles and mean."""

    lower: float
    median: float
    upper: float
    mean: float

    def __str__(self) -> str:
        return f"{self.lower:g} to {self.upper:g}, mean {self.mean:.1f}"


@dataclass(frozen=True)
class ReleasedTexts:
    """One release of texts: `classifies` says whether labels come from a list, so that a classifier
    is fitted.
    """

    dataset: str
    method: str
    epsilon: float
    texts: Labelled
    classifies: bool


@dataclass(frozen=True, repr=False)
class TextQuality:
    """How good one release of texts is.

    Attributes:
        public: how many texts it is compared with.
        distinct: the share of released texts that no other released text equals.
        accuracy, chance: (1) on public texts, and the share of their most frequent label; None
            where answers are written.
        real: (1) fitted on as many real texts, on benchmarks only.
        known: (2) of the released texts' n-grams, by n; `covered` of the public texts' n-grams.
        distance, floor: (3), and that of two halves of the public texts; None of too few.
        lengths, public_lengths: in words.
    """

    release: ReleasedTexts = field(repr=False)
    public: int
    distinct: float
    accuracy: float | None
    chance: float | None
    real: float | None
    known: tuple[float, ...]
    covered: tuple[float, ...]
    distance: float | None
    floor: float | None
    lengths: Lengths
    public_lengths: Lengths

    def __str__(self) -> str:
        release = self.release
        told = f"{release.dataset}, {release.method}, epsilon {release.epsilon:g}"
        lines = [f"{told}: {len(release.texts):,d} texts beside {self.public:,d} public ones"]
        if self.accuracy is not None:
            real = "" if self.real is None else f"; fitted on as many real texts {self.real:.3f}"
            lines.append(
                "accuracy on public texts of a classifier fitted on released ones: "
                f"{self.accuracy:.3f}; the most frequent label {self.chance:.3f}{real}"
            )
        known, covered = (
            ", ".join(f"{share:.3f} of {n}" for n, share in zip(N_GRAMS, shares, strict=True))
            for shares in (self.known, self.covered)
        )
        lines.append(
            f"n-grams of words that public texts have too: {known}; public ones that released "
            f"texts have: {covered}"
        )
        if self.distance is not None:
            lines.append(
                f"energy distance of points: {self.distance:.3f}; between halves of the public "
                f"texts {self.floor:.3f}"
            )
        lines.append(
            f"words, half of the texts: {self.lengths}; of public texts: {self.public_lengths}"
        )
        lines.append(f"texts that stand once only: {self.distinct:.3f}")
        return "\n  ".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        title, *lines = str(self).split("\n  ")
        told = "".join(f"<li>{escape(line)}</li>" for line in lines)
        return f"<div><p><b>{escape(title)}</b></p><ul>{told}</ul></div>"


def text_quality(
    release: ReleasedTexts, public: Labelled, real: Labelled | None = None
) -> TextQuality:
    """Compare released texts with public ones; at least one of each. `real` are those that were
    released from, of a benchmark.
    """
    dataset = release.dataset
    released = release.texts
    texts, others = ([text for _, text in part] for part in (released, public))
    grams = [[set(_grams(part, n)) for part in (texts, others)] for n in N_GRAMS]
    alike = real and [real[place] for place in _some(len(real), len(released), dataset)]
    chance = max(Counter(label for label, _ in public).values()) / len(public)
    return TextQuality(
        release,
        len(others),
        sum(count == 1 for count in Counter(texts).values()) / len(texts),
        _accuracy(released, public) if release.classifies else None,
        chance if release.classifies else None,
        _accuracy(alike, public) if release.classifies and alike else None,
        tuple(_share(mine, theirs) for mine, theirs in grams),
        tuple(_share(theirs, mine) for mine, theirs in grams),
        *_distances(texts, others, dataset),
        _lengths(texts),
        _lengths(others),
    )


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _grams(texts: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    for words in map(_words, texts):
        yield from zip(*(words[start:] for start in range(n)), strict=False)


def _share(mine: set[tuple[str, ...]], theirs: set[tuple[str, ...]]) -> float:
    return len(mine & theirs) / len(mine) if mine else 0.0


def _lengths(texts: Sequence[str]) -> Lengths:
    counts = np.array([len(_words(text)) for text in texts])
    return Lengths(
        *(float(value) for value in (*np.quantile(counts, (0.25, 0.5, 0.75)), counts.mean()))
    )


def _accuracy(fitted: Labelled, public: Labelled) -> float:
    """Equation (1); of a single label, how often that is the right one."""
    # a second to import: only where it is called
    from sklearn.feature_extraction.text import (
        HashingVectorizer,
    )
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    labels = [label for label, _ in fitted]
    truth = np.array([label for label, _ in public], dtype=object)
    if len(set(labels)) == 1:
        return float(np.mean(truth == labels[0]))
    hashed = HashingVectorizer(n_features=FEATURES, ngram_range=(1, 2), token_pattern=r"\w+")  # noqa: S106 - of words
    model = make_pipeline(hashed, LogisticRegression(C=10.0, max_iter=1_000)).fit(
        [text for _, text in fitted], labels
    )
    return float(np.mean(model.predict([text for _, text in public]) == truth))


def _some(count: int, most: int, purpose: str) -> np.ndarray:
    """So many places of a public set, always the same."""
    return np.sort(
        stream(0, "text-quality", purpose, f"{count},{most}").generator().permutation(count)[:most]
    )


def _distances(
    texts: Sequence[str], others: Sequence[str], purpose: str
) -> tuple[float | None, float | None]:
    """Equation (3) between the sets, and within the public one."""
    if len(texts) < _FEWEST or len(others) < 2 * _FEWEST:
        return None, None
    points = [
        HashedNGrams().embed([part[place] for place in _some(len(part), MOST_POINTS, purpose)])
        for part in (texts, others)
    ]
    mixed = points[1][
        stream(0, "text-quality", purpose, "halves").generator().permutation(len(points[1]))
    ]
    return energy_distance(*points), energy_distance(mixed[::2], mixed[1::2])


def energy_distance(points: np.ndarray, others: np.ndarray) -> float:
    """Equation (3) of points, shapes (n, dimensions) and (m, dimensions), at least two of each."""
    between, within, among = (
        _distances_of(*pair) for pair in ((points, others), (points, points), (others, others))
    )
    own = [table.sum() / (len(table) * (len(table) - 1)) for table in (within, among)]
    return float(np.sqrt(max(0.0, 2 * between.mean() - sum(own))))


def _distances_of(points: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Euclidean distances, shape (n, m); a point is exactly 0 from itself."""
    squares = (points**2).sum(1)[:, np.newaxis] + (others**2).sum(1) - 2 * points @ others.T
    if points is others:
        np.fill_diagonal(squares, 0.0)
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))
