"""One token, sampled from public logits that private texts move by no more than a clip:
InvisibleInk.

Trust       Central: the curator reads exact sums of differences; only the sampled token leaves.
Unit        One row, which is a voter of its own.
Neighbours  ADD_OR_REMOVE_ONE: a row more adds its difference, a row less takes it away. Under
            REPLACE_ONE both happen, to one text or to two: twice the range.
Guarantee   a choice of range r, which `accounting.bounded_range` prices at a delta, alone and with
            all other tokens.
Paper       [VPT25] Vinod, Pillutla and Thakurta, InvisibleInk (arXiv 2507.02974), algorithm 1.
            Whole numbers, a public divisor and the candidates' margin are ours.

    (1)  d_iv = whole((clip_C(l_iv - l_v) / C) S),  -S <= d_iv <= S      of voter i:
         log-probabilities l_i over the candidates, minus public l
    (2)  s_v = whole(l_v B S / C) + sum_i d_iv                           B of the plan: voters that
         are missing add nothing
    (3)  P[v] proportional to exp(r s_v / (2 S)),   v a candidate        r = 2 C / (B tau): that is
         softmax((l + (C / (B S)) sum_i d_i) / tau)
    (4)  candidates  {v: l_v >= the k-th largest of l, - 2 C}            of public logits alone

Why r: l, candidates, B, C and tau are the same for both neighbours, as is what was written before.
A row more moves every s_v by d_iv, a number in -S..S, so that ln P[v] moves by r d_iv / (2 S), all
of which lie within r of each other, and by a normaliser that is the same for all v. That it was
`exp(-r (max s - s_v) / (2 S))` that was sampled exactly is `noisy_max.bounded_range_max`. A row in
another batch moves nothing here: texts of disjoint batches cost what one of them does. A row
replaced takes d out of one text and adds d' to one, the same or another. Of two texts, token t of
both is one choice of a pair: given what was written of each, its log-ratios are sums of two that
lie within r each, so within 2 r. So T choices of range 2 r cover both cases. Why (4): n <= B voters
move l_v by at most C, so of a token more than 2 C below the k-th largest no sum makes one of the k
largest. The paper takes 2 C / B, which is what one voter can do. If more than B voters come, the
margin is a rule of thumb; it is public either way. At epsilon = infinity C is so large that it
clips nothing: the same softmax, at the same tau, of every candidate.

Symbols     S `UNITS`, B divisor, tau temperature, C clip in nats, k least number of candidates.
Not covered what the differences were computed from: voters' prompts are read together, and rounding
moves the differences of others,
            see `lm.votes.voting`; running time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpicl.accounting.guarantee import Event, Neighbours
from dpicl.accounting.pure import bounded_range
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.noisy_max import bounded_range_max, bounded_range_maxima
from dpicl.mechanisms.private_token import UNITS

UNCLIPPED = 100.0
"""C where epsilon is infinite: probabilities of one token that differ by more do so below anything
that is ever sampled.
"""
SPREAD = 2 * UNITS
"""The most by which a row more moves the difference of two candidates' sums."""


@dataclass(frozen=True)
class DifferenceToken:
    """How one token is sampled; `amount` is r, or None for infinity: then by the same softmax, of
    differences that are not clipped.

    Args:
        voters: B, public.
        temperature: tau; with r and B it determines the clip.
    """

    amount: Fraction | None
    voters: int
    temperature: Fraction

    def __post_init__(self) -> None:
        for name, value in (("amount", self.amount), ("temperature", self.temperature)):
            if value is not None and not value > 0:
                raise ParameterError(name, value, "a rational > 0")
        if self.voters < 1:
            raise ParameterError("voters", self.voters, "a whole number >= 1")

    @property
    def clip(self) -> float:
        """C = r B tau / 2 in nats; at infinity `UNCLIPPED`."""
        return float(self._range * self.voters * self.temperature / 2)

    @property
    def _range(self) -> Fraction:
        """r; at infinity that of `UNCLIPPED`."""
        if self.amount is not None:
            return self.amount
        return 2 * Fraction(UNCLIPPED) / (self.voters * self.temperature)

    def select(self, sums: Sequence[int] | np.ndarray, stream: Stream) -> int:
        """Place of the sampled candidate by equation (3); `sums` are those of (2), exact, shape
        (candidates,). Raises ParameterError: there is no candidate.
        """
        return bounded_range_max(sums, epsilon=self._range, spread=SPREAD, stream=stream)

    def select_all(self, sums: Sequence[np.ndarray], stream: Stream) -> list[int]:
        """`select` of every text, by one stream."""
        return [
            int(place)
            for place in bounded_range_maxima(
                sums, epsilon=self._range, spread=SPREAD, stream=stream
            )
        ]

    def event(self, neighbours: Neighbours) -> Event:
        """What one token costs. Raises ParameterError: without noise there is no price."""
        if self.amount is None:
            raise ParameterError("amount", "None", "noise, where a cost is stated")
        replaced = neighbours is Neighbours.REPLACE_ONE
        return bounded_range(self.amount * (2 if replaced else 1), neighbours=neighbours)
