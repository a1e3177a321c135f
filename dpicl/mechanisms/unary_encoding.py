"""Optimised unary encoding: one client's report of one answer as bits, one for every category.

Trust       Local model. True codes exist on the client only; `report` is the boundary.
Unit        One report by one client.
Neighbours  REPLACE_ONE: that client's code becomes any other code.
Guarantee   epsilon-LDP per report, delta = 0.
Paper       [WBLJ17] Wang, Blocki, Li and Jha 2017, section 4.4 (OUE).

    (1)  p = 1/2          the bit of the client's own category is set
    (2)  q = W / 2^b      every other bit is set          W = ceil(2^b / (1 + e^epsilon))
    (3)  ln(p (1 - q) / ((1 - p) q)) = ln((2^b - W) / W) <= epsilon       exact: integers, rounded
         against us

Every bit's variance is that of (1) and (2) whatever the number of categories: from about
3 e^epsilon + 2 categories on it tells more than randomised response.

Symbols     b = 32 bits drawn per bit, W integer weight, epsilon in nats.
Not covered timing; a client that answers twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpicl.accounting.guarantee import Event, Guarantee, Neighbours
from dpicl.ground.errors import DataError, ParameterError, PrivacyError
from dpicl.ground.randomness import Stream

MAX_CATEGORIES = 1 << 16
_BITS = 32
_TOTAL = 1 << _BITS


@dataclass(frozen=True)
class Unary:
    """The law of one report: `weight` out of `total` for a bit of another category; 2^32, or more
    of a law with two levels.
    """

    categories: int
    weight: int
    total: int = _TOTAL

    @property
    def epsilon(self) -> float:
        """The exact cost of equation (3)."""
        return math.log((self.total - self.weight) / self.weight) if self.categories > 1 else 0.0

    @property
    def lie_probability(self) -> float:
        """q of equation (2)."""
        return self.weight / self.total

    def draw(self, exact: np.ndarray, stream: Stream) -> np.ndarray:
        """Bits of codes of shape (clients,): shape (clients, categories), bool."""
        words = stream.words(len(exact) * self.categories, np.uint32)
        thresholds = np.where(
            exact[:, np.newaxis] == np.arange(self.categories),
            np.uint32(_TOTAL // 2),
            np.uint32(self.weight),
        )
        return np.asarray(words.reshape(thresholds.shape) < thresholds)

    def guarantee(self) -> Guarantee:
        """The cost of one report."""
        parameters = (
            ("categories", self.categories),
            ("weight", self.weight),
            ("total", self.total),
        )
        return Guarantee(
            self.epsilon, 0.0, Neighbours.REPLACE_ONE, "client", Event("unary-encoding", parameters)
        )


def unary(*, epsilon: float, categories: int) -> Unary:
    """The least weight that costs no more than this epsilon; equation (2).
    Raises ParameterError: epsilon is not a finite positive number, or categories outside 1..65,536;
    PrivacyError: epsilon is so large that no lie would ever be reported, or so small that a bit
    says nothing.
    """
    if not 0 < epsilon < math.inf:
        raise ParameterError("epsilon", epsilon, "a finite number > 0")
    if not 1 <= categories <= MAX_CATEGORIES:
        raise ParameterError("categories", categories, f"1 to {MAX_CATEGORIES}")
    weight = max(1, math.ceil(_TOTAL / (1 + math.exp(min(epsilon, 700.0)))))
    # Doubles round: a margin of a few last places keeps (3) true of the exact logarithm.
    while math.log((_TOTAL - weight) / weight) > epsilon - 2**-50 * max(1.0, epsilon):
        weight += 1
    if 2 * weight >= _TOTAL:
        raise PrivacyError(f"epsilon={epsilon} is too small to tell the truth from a lie")
    return Unary(categories, weight)


def report(codes: np.ndarray, law: Unary, stream: Stream) -> np.ndarray:
    """Report each code under `law`.
    `codes`: shape (clients,), integers in 0..categories-1. Returns bits, shape (clients,
    categories), bool. Raises DataError: some code is outside the domain (the message gives the
    count only); PrivacyError: the law has two levels.
    """
    outside = int(np.count_nonzero((codes < 0) | (codes >= law.categories)))
    if outside:
        raise DataError("unary encoding", f"code outside 0..{law.categories - 1}", count=outside)
    if law.total != _TOTAL:
        raise PrivacyError(
            f"a law with a total of {law.total}: expected {_TOTAL}; one of two levels is drawn "
            f"level by level"
        )
    return stream.passes(law, codes)
