"""k-ary randomised response: one client's report of one answer.

Trust       Local model. True codes exist on the client only; `randomise` is the boundary.
Unit        One report of one attribute by one client.
Neighbours  REPLACE_ONE: that client's code becomes any other code.
Guarantee   epsilon-LDP per report, delta = 0. One client sending d reports spends epsilon_1 + ... +
            epsilon_d (sequential composition).
Paper       [W65] two categories; [KBR16] k categories; DP-TabICL section III-B1.

    (1)  p = K / 2^b          truthful report       K = 2^b - (k - 1) W
    (2)  q = W / 2^b          each particular lie   W = ceil(2^b / (k - 1 + e^epsilon))
    (3)  ln(p / q) = ln(K / W) <= epsilon           exact: integers, rounded against us

Symbols     k categories, b bits drawn per report, K and W integer weights, epsilon in nats.
Not covered timing; correlated attributes of one client; a client that answers twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpicl.accounting.guarantee import Event, Guarantee, Neighbours
from dpicl.ground.errors import DataError, ParameterError, PrivacyError
from dpicl.ground.randomness import Stream

MAX_CATEGORIES = 1 << 13
_FEW = 256
"""Codes of up to so many categories are bytes, and sixteen bits may serve."""
_ROWS_PER_BLOCK = 1 << 16
_TIGHT = 0.999


@dataclass(frozen=True)
class Response:
    """The law of one attribute's report: truth with weight `keep`, each lie with `lie`.

    Weights are integers out of 2^bits; `lie` is 0 only at epsilon = infinity, and where a
    single category leaves nothing to lie about or to learn.
    """

    categories: int
    bits: int
    keep: int
    lie: int

    @property
    def truth_probability(self) -> float:
        """p of equation (1)."""
        return self.keep / (1 << self.bits)

    @property
    def lie_probability(self) -> float:
        """q of equation (2)."""
        return self.lie / (1 << self.bits)

    @property
    def epsilon(self) -> float:
        """The exact cost of equation (3), never above the epsilon that was given."""
        if self.categories == 1:
            return 0.0
        return math.log(self.keep / self.lie) if self.lie else math.inf

    def draw(self, exact: np.ndarray, stream: Stream) -> np.ndarray:
        """Reports of codes, shape (clients,), of the same shape and type."""
        reports = np.empty_like(exact)
        for start in range(0, len(exact), _ROWS_PER_BLOCK):
            block = slice(start, start + _ROWS_PER_BLOCK)
            words = stream.words(len(exact[block]), np.uint16 if self.bits == 16 else np.uint32)
            if self.categories == 2:
                np.bitwise_xor(
                    exact[block], (words >= self.keep).view(np.uint8), out=reports[block]
                )
                continue
            shift = _shifts(words, self)
            # Below the categories the subtraction wraps round to a large number, so the smaller is
            # the sum modulo k.
            np.add(exact[block], shift, out=shift, casting="unsafe")
            np.minimum(
                shift,
                shift - shift.dtype.type(self.categories),
                out=reports[block],
                casting="unsafe",
            )
        return reports

    def guarantee(self) -> Guarantee:
        """The cost of one report."""
        parameters = (
            ("categories", self.categories),
            ("bits", self.bits),
            ("keep", self.keep),
            ("lie", self.lie),
        )
        return Guarantee(
            self.epsilon,
            0.0,
            Neighbours.REPLACE_ONE,
            "client",
            Event("randomised-response", parameters),
        )


def response(*, epsilon: float, categories: int) -> Response:
    """The best integer weights for this epsilon; equations (1) to (3).

    Sixteen random bits serve unless rounding would waste more than a thousandth of epsilon.
    Raises ParameterError: epsilon <= 0 or NaN, or categories outside 1..8,192.
    """
    if not epsilon > 0:
        raise ParameterError("epsilon", epsilon, "a number > 0, or inf")
    if not 1 <= categories <= MAX_CATEGORIES:
        raise ParameterError("categories", categories, f"1 to {MAX_CATEGORIES}")
    if math.isinf(epsilon) or categories == 1:
        return Response(categories, 16, 1 << 16, 0)
    odds = math.exp(epsilon) if epsilon < 700 else math.inf
    # doubles round: a margin of a few last places keeps (3) true of the exact logarithm
    limit = epsilon - 2**-50 * max(1.0, epsilon)
    for bits in (16, 32):
        lie = max(1, math.ceil((1 << bits) / (categories - 1 + odds)))
        keep = (1 << bits) - (categories - 1) * lie
        while keep > lie and math.log(keep / lie) > limit:
            lie, keep = lie + 1, keep - (categories - 1)
        law = Response(categories, bits, keep, lie)
        if keep > lie and (bits == 32 or (categories <= _FEW and law.epsilon >= _TIGHT * epsilon)):
            return law
    raise PrivacyError(
        f"epsilon={epsilon} over {categories} categories is too small to tell the truth from a lie"
    )


def randomise(codes: np.ndarray, law: Response, stream: Stream) -> np.ndarray:
    """Report each code under `law`.
    `codes`: shape (clients,), integers in 0..categories-1. Returns reports, shape (clients,),
    uint8, or uint16 where there are more than 256 categories.
    Raises DataError: some code is outside the domain (the message gives the count only);
    PrivacyError: the law has two levels.
    """
    if len(codes) and not 0 <= codes.min() <= codes.max() < law.categories:
        outside = int(np.count_nonzero((codes < 0) | (codes >= law.categories)))
        raise DataError(
            "randomised response", f"code outside 0..{law.categories - 1}", count=outside
        )
    if law.bits not in (16, 32):
        raise PrivacyError(
            f"a law of {law.bits} bits: expected 16 or 32; one of two levels is drawn level by "
            f"level"
        )
    truth = np.ascontiguousarray(codes, dtype=np.uint8 if law.categories <= _FEW else np.uint16)
    if law.lie == 0:
        return truth.copy()
    return stream.passes(law, truth)


def _shifts(words: np.ndarray, law: Response) -> np.ndarray:
    """By how much truths are shifted: by 0 with weight `keep`, by each of 1..k-1 with weight `lie`;
    overwrites `words`.

    Whole numbers all along, which numpy divides by one of them as fast as it multiplies floats;
    `clip`, as `maximum` of an array and a number would take longer than all the rest.
    """
    first = words.dtype.type(law.keep - law.lie)
    largest = words.dtype.type((1 << law.bits) - 1)
    np.clip(words, first, largest, out=words)
    np.subtract(words, first, out=words)
    np.floor_divide(words, words.dtype.type(law.lie), out=words)
    return words.astype(np.uint8 if law.categories <= 128 else np.uint16)
