"""The words that most answers contain, released as a set where no single answer can change it:
propose, test, release.

Trust       Central: the curator reads exact counts of words; a set of words leaves, or nothing.
Unit        One row.
Neighbours  ADD_OR_REMOVE_ONE, where a row more changes one answer, to any other: then every count
            of answers that contain a word moves by at most 1, up or down.
Guarantee   (epsilon_1 + epsilon_2, delta)-DP for one choice.
Paper       DP-ICL (arXiv 2305.01639), keyword space aggregation; [DL09] Dwork and Lei,
            propose-test-release; [ZW22] Zhu and Wang, adaptive private k-selection. The published
            rule tests the gap one position too far, g_(k+1), behind which the set of k words may
            well change with one answer; and it charges one delta for all queries, where every query
            may fail by itself.

    (1)  g_k = c_(k) - c_(k+1),  k = 1 .. m;  counts that are missing are 0
    (2)  k by a noisy maximum of the gaps at epsilon_1, spread 4
    (3)  s = max(0, ceil(g_k / 2) - 1);  the k words leave if s + Z >= T,  Z of law exp(-|z|
         epsilon_2)
    (4)  T the smallest whole number >= 1 with  P[Z >= T] = e^(-epsilon_2 T) / (1 + e^-epsilon_2) <=
         delta

Ordered counts move by at most 1, a gap by 2, the difference of two gaps by 4: so far, where one
answer moves c_(i), c_(i+1), c_(j), c_(j+1) by +1, -1, -1, +1. Given k, (3) is (epsilon_2,
delta)-DP: s moves by at most 1, and s answers leave the set as it is, since the gap loses 2 with
each. If s >= 1 here or at the neighbour, both have the same set, and what leaves is post-processing
of s + Z: epsilon_2-DP. Else s = 0 at both: nothing leaves with equal probability, and something
with probability delta at most.

Symbols     c_(k) the k-th largest count, m the most words; epsilon in nats.
Not covered the order of the words by count, which does not leave: they are in the alphabet's order.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from dpicl.accounting.events import approximate
from dpicl.accounting.guarantee import Event
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.noisy_max import exponential_maxima
from dpicl.mechanisms.samplers import discrete_laplaces, exponential_bounds

SPREAD = 4
"""How far one answer moves the difference of two gaps."""
LARGEST_EPSILON = 10_000
"""Beyond it powers would have more digits than is sensible."""
Counts = Mapping[str, int]
"""In how many answers each word occurs."""
_DIGITS = 40


@dataclass(frozen=True)
class StableTop:
    """How words are chosen: epsilon_1, epsilon_2, delta and m; an epsilon of None is infinite: no
    noise, and a set leaves if s >= 1.
    """

    size_epsilon: Fraction | None
    test_epsilon: Fraction | None
    delta: Fraction
    most: int

    def __post_init__(self) -> None:
        for name, epsilon in (
            ("size_epsilon", self.size_epsilon),
            ("test_epsilon", self.test_epsilon),
        ):
            if epsilon is not None and not 0 < epsilon <= LARGEST_EPSILON:
                raise ParameterError(
                    name, epsilon, f"a rational in (0, {LARGEST_EPSILON}], or None for infinity"
                )
        if not 0 < self.delta < Fraction(1, 2):
            raise ParameterError("delta", self.delta, "a rational in (0, 1/2)")
        if self.most < 1:
            raise ParameterError("most", self.most, "a whole number >= 1")

    def choose(
        self, counts: Counts, stream_size: Stream, stream_test: Stream
    ) -> tuple[str, ...] | None:
        """The words of one query in the alphabet's order, or None where too many answers could have
        been others.
        """
        return self.choose_all([counts], stream_size, stream_test)[0]

    def choose_all(
        self, queries: Sequence[Counts], stream_size: Stream, stream_test: Stream
    ) -> list[tuple[str, ...] | None]:
        """`choose` for every query, each at the full price; equations (2) and (3)."""
        gaps = [
            [_gap(counts, size) for size in range(1, self.most + 1)]
            for counts in map(_falling, queries)
        ]
        sizes = 1 + exponential_maxima(
            gaps, epsilon=self.size_epsilon, spread=SPREAD, stream=stream_size
        )
        sets = [
            (tuple(sorted(_by_count(counts)[:size])), self.stability(counts, size))
            for counts, size in zip(queries, sizes.tolist(), strict=True)
        ]
        law = StableSets(self)
        return (
            law.draw(sets, stream_test)
            if self.test_epsilon is None
            else stream_test.passes(law, sets)
        )

    def stability(self, counts: Counts, size: int) -> int:
        """s of equation (3): so many answers may change, and the set of so many words does not."""
        return max(0, -(-_gap(_falling(counts), size) // 2) - 1)

    @cached_property
    def threshold(self) -> int:
        """T of equation (4), by powers that are rounded down; its limit 1 without noise."""
        if self.test_epsilon is None:
            return 1
        epsilon = self.test_epsilon
        enough = math.ceil(math.log(1 / self.delta) / float(epsilon)) + 1

        def power(least: int) -> Fraction:
            return exponential_bounds(epsilon * least, _DIGITS)[1]

        return 1 + bisect_left(
            range(1, enough),
            True,
            key=lambda least: self.delta * (power(least) + power(least - 1)) >= 1,
        )

    def event(self) -> Event:
        """What one choice costs, before sampling and composition. Raises ParameterError: without
        noise there is no price.
        """
        if self.size_epsilon is None or self.test_epsilon is None:
            raise ParameterError("epsilon", "None", "noise, where a cost is stated")
        return approximate(float(self.size_epsilon + self.test_epsilon), float(self.delta))


@dataclass(frozen=True)
class StableSets:
    """Equation (3), of each query's words and their stability s."""

    top: StableTop

    def draw(
        self, exact: Sequence[tuple[tuple[str, ...], int]], stream: Stream
    ) -> list[tuple[str, ...] | None]:
        """The words, or None."""
        epsilon = self.top.test_epsilon
        noises = (
            [0] * len(exact)
            if epsilon is None
            else discrete_laplaces(1 / epsilon, len(exact), stream)
        )
        return [
            words if stability + noise >= self.top.threshold else None
            for (words, stability), noise in zip(exact, noises, strict=True)
        ]


def _by_count(counts: Counts) -> list[str]:
    """Those that occur, by falling count."""
    return sorted(
        (word for word, count in counts.items() if count > 0),
        key=lambda word: (-counts[word], word),
    )


def _falling(counts: Counts) -> list[int]:
    return sorted(counts.values(), reverse=True)


def _gap(falling: Sequence[int], size: int) -> int:
    """Equation (1)."""
    here, behind = (falling[place] if place < len(falling) else 0 for place in (size - 1, size))
    return here - behind
