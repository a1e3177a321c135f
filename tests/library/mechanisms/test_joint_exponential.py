"""Joint exponential: the law against all sequences, one by one; and what one answer can do to an
error.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations, product

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpicl.accounting.accountant import check
from dpicl.accounting.guarantee import Neighbours
from dpicl.accounting.pure import pure_epsilon
from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.ground.randomness import stream
from dpicl.mechanisms.joint_exponential import guarantee, joint_law, joint_top
from tests.library.examples import exact_law, seeded

ADD = Neighbours.ADD_OR_REMOVE_ONE
DRAWS = 20_000
ballots = st.lists(st.integers(0, 6), min_size=1, max_size=5).flatmap(
    lambda counts: st.tuples(st.just(counts), st.integers(1, min(3, len(counts))))
)


def error(counts: Sequence[int], sequence: Sequence[int]) -> int:
    largest = sorted(counts, reverse=True)
    return max(top - counts[place] for top, place in zip(largest, sequence, strict=False))


def every_law(counts: Sequence[int], length: int, exponent: float) -> dict[tuple[int, ...], float]:
    """All sequences, one by one."""
    weights = {
        one: math.exp(-exponent * error(counts, one))
        for one in permutations(range(len(counts)), length)
    }
    return {one: weight / math.fsum(weights.values()) for one, weight in weights.items()}


@given(ballots)
def test_errors_have_as_many_sequences_as_there_are_and_a_sequence_is_any_of_them(
    ballot: tuple[list[int], int],
) -> None:
    """Exactly: every path through all that can be drawn."""
    counts, length = ballot
    found = Counter(error(counts, one) for one in permutations(range(len(counts)), length))
    law = joint_law(counts, length=length, exponent=Fraction(1))
    assert {*found} <= {*law.errors}
    for at, sequences in zip(law.errors, law.sequences, strict=True):
        assert sequences.firsts[-1] == found[at]
        if found[at]:
            seen, missing = exact_law(lambda draws: tuple(sequences.draw(draws)), Fraction(0))  # noqa: B023
            assert missing == 0 and set(seen.values()) == {Fraction(1, found[at])}
            assert {error(counts, [law.places[rank] for rank in ranks]) for ranks in seen} == {at}


@pytest.mark.parametrize(
    "exponent", [Fraction(1, 1000), Fraction(1), Fraction(7, 3), Fraction(2500)]
)
def test_weights_are_as_exact_as_stated(exponent: Fraction) -> None:
    """Against 200 digits, relative to each other; the least likely error too."""
    mpmath.mp.dps = 200
    law = joint_law([9, 7, 7, 3, 0, 0], length=3, exponent=exponent)
    weights = [high - low for low, high in zip((0, *law.totals), law.totals, strict=False)]
    exact = [
        one.firsts[-1] * mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator * at)
        for at, one in zip(law.errors, law.sequences, strict=True)
    ]
    for weight, expected in zip(weights, exact, strict=True):
        share = expected / exact[0]
        assert abs(mpmath.mpf(weight) / weights[0] - share) <= share * mpmath.mpf(2) ** -101


@pytest.mark.quick("counts2-1")
@pytest.mark.parametrize(
    ("counts", "length"), [([5, 3, 3, 0], 2), ([2, 2, 2, 1, 0], 3), ([0, 4, 1], 1), ([1, 0, 6], 3)]
)
def test_draws_have_the_law_of_all_sequences(counts: list[int], length: int) -> None:
    """Epsilon 3 over sensitivity 2; another epsilon would be noticed."""
    draws = stream(0, "joint", str(counts), "")
    chosen = joint_law(counts, length=length, exponent=Fraction(3, 4))
    seen = Counter(chosen.draw(draws) for _ in range(DRAWS))
    for epsilon, fits in ((3, True), (2, False)):
        law = every_law(counts, length, epsilon / 4)
        assert set(seen) <= set(law)
        expected = np.array([*law.values()]) * DRAWS
        assert (stats.chisquare([seen[one] for one in law], expected).pvalue > 1e-4) == fits


def test_words_are_drawn_by_half_of_epsilon_over_the_sensitivity() -> None:
    counts = [5, 3, 3, 0]
    for seed in range(30):
        one, same = seeded(seed, "top"), seeded(seed, "top")
        drawn = joint_top(counts, length=2, epsilon=Fraction(3), sensitivity=2, stream=one)
        assert drawn == joint_law(counts, length=2, exponent=Fraction(3, 4)).draw(same)


@given(
    st.lists(st.tuples(st.integers(0, 8), st.sampled_from([-1, 0, 1])), min_size=3, max_size=7),
    st.data(),
)
def test_one_changed_answer_moves_no_error_by_more_than_two(
    words: list[tuple[int, int]], data: st.DataObject
) -> None:
    counts = [count for count, _ in words]
    others = [max(0, count + change) for count, change in words]
    sequence = data.draw(st.permutations(range(len(words))))[: data.draw(st.integers(1, 3))]
    one, other = error(counts, sequence), error(others, sequence)
    assert abs(one - other) <= 2 and min(one, other) >= 0


def test_two_is_reached_and_with_one_it_would_cost_more_than_stated() -> None:
    """The largest ratio of probabilities over all changed answers, for small counts."""
    counts, epsilon = (6, 2, 2, 2, 2), 2.0

    def largest(sensitivity: int) -> float:
        here, *others = (
            every_law(np.add(counts, changes), 2, epsilon / (2 * sensitivity))
            for changes in ([0] * 5, *product((-1, 0, 1), repeat=5))
        )
        return max(abs(math.log(here[one] / there[one])) for there in others for one in there)

    assert largest(2) <= epsilon < largest(1)
    assert error((5, 0), (1,)) - error((4, 1), (1,)) == 2


def test_without_noise_the_true_words_are_chosen_and_equals_in_any_order() -> None:
    draws = seeded()
    for epsilon, length, expected in ((None, 3, {(3, 1, 2), (3, 2, 1)}), (10_000, 1, {(3,)})):
        how = {"epsilon": epsilon and Fraction(epsilon), "length": length, "sensitivity": 2}
        assert {joint_top([1, 4, 4, 9], stream=draws, **how) for _ in range(50)} == expected


@pytest.mark.parametrize("length", [0, 4])
def test_more_words_than_there_are_or_none_are_refused(length: int) -> None:
    with pytest.raises(ParameterError, match=rf"length={length}.*1..3, the number of words"):
        joint_top(
            [1, 2, 3], length=length, epsilon=Fraction(1), sensitivity=2, stream=seeded(0, "")
        )


@pytest.mark.parametrize(
    ("epsilon", "sensitivity"),
    [
        (Fraction(0), 2),
        (Fraction(-1), 2),
        (Fraction(10_001), 2),
        (Fraction(1), 0),
        (Fraction(1), 0.5),
    ],
)
def test_impossible_parameters_are_refused(epsilon: Fraction, sensitivity: int) -> None:
    with pytest.raises(ParameterError, match="expected"):
        joint_top([1], length=1, epsilon=epsilon, sensitivity=sensitivity, stream=seeded(0, ""))
    with pytest.raises(ParameterError, match="expected"):
        guarantee(epsilon, sensitivity=sensitivity, neighbours=ADD)


def test_it_costs_its_epsilon_under_its_own_relation_only() -> None:
    cost = guarantee(Fraction(3, 2), sensitivity=2, neighbours=ADD)
    assert (cost.epsilon, cost.delta, cost.neighbours) == (1.5, 0.0, ADD)
    check(cost)
    with pytest.raises(PrivacyError, match="add-or-remove-one neighbours, not for replace-one"):
        pure_epsilon(cost.event, Neighbours.REPLACE_ONE)
    assert guarantee(None, sensitivity=2, neighbours=ADD).epsilon == math.inf
