"""Report noisy max: exact ratios of probabilities on all small candidate_sets, and which candidate
wins at the edges.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from operator import add

import numpy as np
import pytest
from scipy import integrate

from dpicl.accounting.accountant import check
from dpicl.accounting.guarantee import Neighbours, amplify
from dpicl.accounting.pure import pure_epsilon
from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.mechanisms.noisy_max import (
    _one_of,
    bounded_range_max,
    bounded_range_maxima,
    exponential_guarantee,
    exponential_max,
    exponential_maxima,
    gaussian_maxima,
)
from tests.library.examples import exact_law, seeded
from tests.library.maxima import law_of_maximum
from tests.library.mechanisms.test_vector_samplers import ShortWords

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE
ONE = Fraction(1)
DECAYS = (Fraction(1, 2), Fraction(9, 10), Fraction(1, 20))
"""Values of exp(-epsilon / spread); exp(epsilon) is then the fraction decay^-spread."""


def more(votes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """One row more, which votes for any set of candidates."""
    for added in product((0, 1), repeat=len(votes)):
        yield tuple(map(add, votes, added))


def moved(votes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """One vote moved from one candidate to another."""
    for source, target in product(range(len(votes)), repeat=2):
        if votes[source] and source != target:
            yield tuple(
                vote - (place == source) + (place == target) for place, vote in enumerate(votes)
            )


def largest_ratio(candidates: int, decay: Fraction, neighbours_of: object) -> Fraction:
    """Over all candidate_sets of up to four votes each, but for their order, all neighbours,
    winners and both ways.
    """
    largest = Fraction(0)
    for votes in combinations_with_replacement(range(5), candidates):
        law = law_of_maximum(votes, decay)
        for other in neighbours_of(votes):  # type: ignore[operator]
            pairs = zip(law, law_of_maximum(other, decay), strict=True)
            largest = max(largest, *(max(here / there, there / here) for here, there in pairs))
    return largest


@pytest.mark.quick("2-decay0", "2-decay1", "3-decay2", "2-decay2", "3-decay0")
@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("candidates", [2, 3, 4, pytest.param(5, marks=pytest.mark.exhaustive)])
def test_no_vote_more_or_moved_moves_a_probability_by_more_than_e_to_the_epsilon(
    candidates: int, decay: Fraction
) -> None:
    """Spread 1; reached where all the others stay behind or level. Of a moved vote spread 2, for
    which spread 1, the mutant, would be too little.
    """
    assert largest_ratio(candidates, decay, more) == 1 / decay
    assert 1 / decay < largest_ratio(candidates, decay, moved) <= 1 / decay**2


@pytest.mark.parametrize("votes", [(0, 0), (2, 0), (1, 3, 2), (4, 4, 0, 1)])
def test_the_law_is_that_of_exponential_noise(votes: tuple[int, ...]) -> None:
    """Equation (2), by integrating over the winner's noise; epsilon 1, spread 2."""
    scale = 2.0
    for candidate, share in enumerate(law_of_maximum(votes, Fraction(math.exp(-1 / scale)))):

        def density(noise: float, candidate: int = candidate) -> float:
            others = votes[:candidate] + votes[candidate + 1 :]
            gaps = [max(votes[candidate] + noise - vote, 0) for vote in others]
            lower = math.prod(1 - math.exp(-gap / scale) for gap in gaps)
            return math.exp(-noise / scale) / scale * lower

        found, _ = integrate.quad(density, 0, 100, points=[0, 1, 2, 3, 4], limit=200)
        assert found == pytest.approx(float(share), abs=1e-7)


@pytest.mark.parametrize("heads", [(1, 0, 0), (0, 1, 1), (1, 1, 1), (1, 0, 1, 1)])
def test_the_winner_is_uniform_among_the_heads(heads: tuple[int, ...]) -> None:
    """Walked through all words of two bits: rejections are what is missing."""
    law, missing = exact_law(
        lambda draws: int(_one_of(np.array([heads], dtype=bool), ShortWords(draws, 2))[0]),
        Fraction(1, 10**4),
    )
    assert {place for place, head in enumerate(heads) if head} == set(law)
    assert len(set(law.values())) == 1
    assert sum(law.values()) == 1 - missing > Fraction(49, 50)


def test_a_large_epsilon_elects_the_largest_and_a_small_one_any() -> None:
    draws = seeded()
    for epsilon, elected in ((ONE / 100, {0, 1, 2}), (ONE * 90, {1})):
        how = {"epsilon": epsilon, "spread": 1, "stream": draws}
        assert {*exponential_maxima([[3, 9, 4]] * 200, **how)} == elected
        assert {bounded_range_max([3, 9, 4], **how) for _ in range(200)} == elected
    # of which 64 bits hold the first alone
    for beyond in map(Fraction, (2**63 - 1, 2**63, 2**80)):
        equals = [np.array([5, 5])] * 60
        assert {*bounded_range_maxima(equals, epsilon=beyond, spread=1, stream=draws)} == {0, 1}


@pytest.mark.parametrize("unit", [1, 2**20, 10**30])
def test_probabilities_scaled_to_whole_numbers_of_any_size_are_elected_alike(unit: int) -> None:
    """Votes and spread in units: the same bits elect the same."""
    scaled, plain = (
        exponential_maxima(
            [[3 * one, 5 * one, -one]] * 300, epsilon=ONE, spread=2 * one, stream=seeded()
        )
        for one in (unit, 1)
    )
    assert (scaled == plain).all()


def test_sets_of_any_lengths_are_drawn_by_one_stream_and_each_by_its_own_votes() -> None:
    """At a large epsilon the largest of each wins, and without noise the first of them; 2^70 is a
    vote like others.
    """
    sets = [np.array([0, 9]), [3], np.array([5] * 40 + [2**40] + [5] * 2000), [2**70, 0, -(2**70)]]
    draws = seeded()
    for epsilon in (ONE * 90, None):
        drawn = bounded_range_maxima(sets, epsilon=epsilon, spread=1, stream=draws)
        assert drawn.tolist() == [1, 0, 40, 0]
    assert bounded_range_maxima([], epsilon=ONE, spread=1, stream=draws).tolist() == []
    with pytest.raises(ParameterError, match="candidates=.*at least one"):
        bounded_range_maxima(
            [[1], np.zeros(0, dtype=np.int64)], epsilon=ONE, spread=1, stream=draws
        )


def test_numpy_votes_are_taken_and_fractions_of_a_vote_are_not() -> None:
    assert exponential_max(np.array([0, 100]), epsilon=ONE, spread=1, stream=seeded()) == 1
    with pytest.raises(TypeError):
        exponential_max([0.5, 1.0], epsilon=ONE, spread=1, stream=seeded())  # type: ignore[list-item]


@pytest.mark.parametrize("candidate_sets", [[], [[]], [[1, 2], [1]]])
def test_candidate_sets_without_candidates_or_of_different_lengths_are_refused(
    candidate_sets: list[list[int]],
) -> None:
    for elect in (
        lambda: exponential_maxima(candidate_sets, epsilon=ONE, spread=1, stream=seeded()),
        lambda: gaussian_maxima(candidate_sets, variance=ONE, stream=seeded()),
    ):
        with pytest.raises(ParameterError, match="at least one, and as many in every set"):
            elect()


@pytest.mark.parametrize(
    ("epsilon", "spread"), [(Fraction(0), 1), (Fraction(-1), 1), (ONE, 0), (ONE, 0.5)]
)
def test_impossible_parameters_are_refused(epsilon: Fraction, spread: int) -> None:
    with pytest.raises(ParameterError, match="expected"):
        exponential_max([1], epsilon=epsilon, spread=spread, stream=seeded())
    with pytest.raises(ParameterError, match="expected"):
        bounded_range_max([1], epsilon=epsilon, spread=spread, stream=seeded())
    with pytest.raises(ParameterError, match="expected"):
        exponential_guarantee(epsilon, spread=spread, neighbours=ADD)


def test_an_election_costs_its_epsilon_under_its_own_relation_only() -> None:
    cost = exponential_guarantee(Fraction(3, 2), spread=2, neighbours=REPLACE)
    assert (cost.epsilon, cost.delta, cost.neighbours) == (1.5, 0.0, REPLACE)
    check(cost)
    with pytest.raises(PrivacyError, match="for replace-one neighbours, not for add-or-remove-one"):
        pure_epsilon(cost.event, ADD)
    added = exponential_guarantee(ONE, spread=1, neighbours=ADD)
    sampled = pure_epsilon(amplify(added, Fraction(1, 10)).event, ADD)
    assert sampled == pytest.approx(math.log(1 + 0.1 * (math.e - 1)))
    assert exponential_guarantee(None, spread=1, neighbours=ADD).epsilon == math.inf
