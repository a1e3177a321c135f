"""The noisy sum of the embeddings of several answers, and the public candidate nearest to it.

Trust       Central: the curator reads exact embeddings; only noisy sums leave.
Unit        One row.
Neighbours  ADD_OR_REMOVE_ONE, where a row more changes one answer, to any other.
Guarantee   that of a Gaussian of multiplier sigma, priced by the accountant at a delta.
Paper       DP-ICL (arXiv 2305.01639), embedding space aggregation. Its program accounts for a
            movement of 1, where one answer moves a sum of unit vectors by up to 2: its noise is
            half of (2).

    (1)  v = x S / r, rounded toward zero,  x = embedding - centre, shortened to a length of r
    (2)  sums_j = sum_i v_ij + Z_j,   Z of variance sigma^2 D,   D = (2 S)^2
    (3)  argmax_c cos(candidate_c - centre, sums);  the first of equals

Every |v| <= S in whole numbers, so a changed answer moves the sums by an l2 norm of at most 2 S.
An answer that is absent, or no number, is a vector of zeros: it takes part and adds nothing.

Symbols     S `SCALE`, r a public radius, D the squared l2 norm of what one row moves.
Not covered vectors that are not from `whole_vectors`; (3) is post-processing of sums that were
released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpicl.accounting.guarantee import Event, Neighbours
from dpicl.accounting.pure import discrete_gaussian
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.discrete_gaussian import noisy_sums

SCALE = 1 << 20
"""S: the radius is cut into so many units."""
FEWEST = 2
"""A mean of one answer would be that answer."""


def whole_vectors(embeddings: np.ndarray, *, centre: np.ndarray, radius: float) -> np.ndarray:
    """Equation (1): shape (answers, dimensions), int64; of a length of at most `SCALE`, which whole
    numbers decide.

    Args:
        embeddings: shape (answers, dimensions), of any numbers; a row of NaN for an answer that is
            absent.
        centre: shape (dimensions,), public.
    Raises ParameterError: the radius is not finite or not positive.
    """
    if not 0 < radius < math.inf:
        raise ParameterError("radius", radius, "a finite number > 0")
    with np.errstate(over="ignore", invalid="ignore"):
        moved = np.asarray(embeddings, dtype=np.float64) - centre
        moved[~np.isfinite(moved).all(axis=1)] = 0
        lengths = np.linalg.norm(moved, axis=1, keepdims=True)
    whole = (np.clip(moved / np.maximum(lengths, radius), -1, 1) * SCALE).astype(np.int64)
    whole[(whole**2).sum(axis=1) > SCALE**2] = 0
    return whole


@dataclass(frozen=True)
class EmbeddingNoise:
    """How a sum of whole vectors is released; sigma None for no noise at all."""

    sigma: Fraction | None

    def __post_init__(self) -> None:
        if self.sigma is not None and not self.sigma > 0:
            raise ParameterError("sigma", self.sigma, "a rational > 0, or None for no noise")

    @property
    def squared_movement(self) -> int:
        """D."""
        return (2 * SCALE) ** 2

    @property
    def variance(self) -> Fraction | None:
        """Of the noise on every sum."""
        return None if self.sigma is None else self.sigma**2 * self.squared_movement

    def release(self, vectors: np.ndarray, stream: Stream) -> list[int]:
        """Equation (2): one sum per dimension.
        `vectors`: of `whole_vectors`, one for every prompt, whether it was answered or not.
        Raises ParameterError: there are fewer than two.
        """
        if len(vectors) < FEWEST:
            raise ParameterError("answers", len(vectors), f"at least {FEWEST}")
        return noisy_sums(vectors.sum(axis=0), variance=self.variance, stream=stream)

    def event(self) -> Event:
        """What one release costs, before sampling and composition. Raises ParameterError: without
        noise there is no price.
        """
        if self.variance is None:
            raise ParameterError("sigma", "None", "noise, where a cost is stated")
        return discrete_gaussian(
            variance=self.variance,
            squared_sensitivity=self.squared_movement,
            neighbours=Neighbours.ADD_OR_REMOVE_ONE,
        )


def nearest(candidates: np.ndarray, noisy: Sequence[int], centre: np.ndarray) -> int:
    """Equation (3): a place among candidates of shape (candidates, dimensions); one at the centre
    has cosine 0. Raises ParameterError: there is no candidate.
    """
    if len(candidates) == 0:
        raise ParameterError("candidates", 0, "at least one")
    moved = np.asarray(candidates, dtype=np.float64) - centre
    lengths = np.linalg.norm(moved, axis=1)
    along = (moved * np.array(noisy, dtype=np.float64)).sum(axis=1)
    return int(np.divide(along, lengths, out=np.zeros(len(moved)), where=lengths > 0).argmax())
