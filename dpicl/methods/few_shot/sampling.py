"""Sampling a token from noisy votes in place of their largest: temperature, top-k and nucleus.

Guarantee   none spent: post-processing of the whole noisy vector, which is what a Gaussian token is
            priced for.

    (1)  p_j proportional to max(noisy_j, 0)^(1 / tau), of the k largest, of which the fewest that
         hold a share of p_top
    (2)  the token is that at which the sum of p exceeds a uniform number; where no noisy vote is
         above 0, the largest

Nothing here is exact, and nothing needs to be: it sees noisy numbers only. Draws are journalled as
all others are.

Paper       Holtzman et al., nucleus sampling (arXiv 1904.09751); none of it in arXiv 2309.11765,
            which takes the largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpicl.randomness import Stream

_WORD = 64


@dataclass(frozen=True)
class Sampling:
    """How a token follows from noisy votes; without `top_k` or `top_p` every candidate may be
    drawn.
    """

    temperature: float
    top_k: int | None = None
    top_p: float | None = None

    def draw(self, noisy: Sequence[int] | np.ndarray, stream: Stream) -> int:
        """The place of a token by equations (1) and (2); `noisy`: whole numbers of any size, shape
        (candidates,).
        """
        votes = np.array([float(max(vote, 0)) for vote in noisy])
        if not votes.any():
            return int(np.array(noisy, dtype=object).argmax())
        order = np.argsort(-votes, kind="stable")[: self.top_k]
        weights = (votes[order] / votes[order[0]]) ** (1 / self.temperature)
        shares = np.cumsum(weights / weights.sum())
        if self.top_p is not None:
            shares = shares[: int(np.searchsorted(shares, self.top_p)) + 1]
        uniform = int(stream.words(1, np.uint64)[0]) / 2**_WORD * shares[-1]
        return int(order[min(int(np.searchsorted(shares, uniform, side="right")), len(shares) - 1)])
