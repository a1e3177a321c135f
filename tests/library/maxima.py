"""The law of a noisy maximum by permute-and-flip, in fractions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import permutations


def law_of_maximum(votes: Sequence[int], decay: Fraction) -> tuple[Fraction, ...]:
    """Probability of each candidate, where a vote less divides the chance of heads by 1 / decay:
    decay = exp(-epsilon / spread).

    As the paper defines it: candidates in a random order, the first heads wins.
    """
    most = max(votes)
    return _law(tuple(most - vote for vote in votes), decay)


@cache
def _law(gaps: tuple[int, ...], decay: Fraction) -> tuple[Fraction, ...]:
    orders = list(permutations(range(len(gaps))))
    law = [Fraction(0)] * len(gaps)
    for order in orders:
        left = Fraction(1, len(orders))
        for candidate in order:
            heads = decay ** gaps[candidate]
            law[candidate] += left * heads
            left *= 1 - heads
    return tuple(law)
