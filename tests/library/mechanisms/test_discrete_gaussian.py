"""Noisy sums: exact only without a variance; their guarantee follows from the sensitivity and its
relation.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.accounting.accountant import check, compose
from dpicl.accounting.events import gaussian, poisson_sampled
from dpicl.accounting.guarantee import Event, Guarantee, Neighbours
from dpicl.accounting.pld import epsilon_at
from dpicl.accounting.pure import discrete_gaussian, noise_ratio, sums_of_squares
from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.mechanisms.discrete_gaussian import guarantee, noisy_sums
from tests.library.examples import seeded

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE
DELTA = 1e-5


def price(event: Event, neighbours: Neighbours = ADD) -> float:
    return epsilon_at(frozenset({(event, 1)}), neighbours, DELTA)[0]


def votes(variance: Fraction, squares: int, neighbours: Neighbours = ADD) -> Event:
    return discrete_gaussian(variance=variance, squared_sensitivity=squares, neighbours=neighbours)


def test_without_a_variance_sums_are_exact_and_the_cost_is_infinite() -> None:
    exact = [3, -(10**30)]
    assert noisy_sums(exact, variance=None, stream=seeded()) == exact
    assert guarantee(None, squared_sensitivity=1, neighbours=ADD, delta=DELTA).epsilon == math.inf


def test_noise_is_added_to_whole_numbers_of_any_size_and_to_no_others() -> None:
    draws = seeded()
    for sums in (np.array([5, 7]), [10**40]):
        noisy = noisy_sums(sums, variance=Fraction(1), stream=draws)
        assert {type(one) for one in noisy} == {int} and abs(noisy[0] - int(sums[0])) < 20
    with pytest.raises(TypeError):
        noisy_sums([0.5], variance=Fraction(1), stream=draws)  # type: ignore[list-item]


@given(st.integers(1, 40))
def test_sums_of_squares_are_all_of_them(total: int) -> None:
    found = list(sums_of_squares(total))
    assert len(set(found)) == len(found)
    for roots in found:
        assert sum(root * root for root in roots) == total
        assert [*roots] == sorted(roots, reverse=True)
    ways = [1] + [0] * total
    for root in range(1, math.isqrt(total) + 1):
        for reached in range(root * root, total + 1):
            ways[reached] += ways[reached - root * root]
    assert len(found) == ways[total]


def test_replacing_a_row_costs_twice_the_sensitivity_unless_it_is_stated() -> None:
    assert price(votes(Fraction(9), 1), REPLACE) == price(votes(Fraction(9), 4, REPLACE), REPLACE)
    assert price(votes(Fraction(9), 2, REPLACE), REPLACE) < price(votes(Fraction(9), 1), REPLACE)
    one, four = (
        price(votes(Fraction(90_000), squares, *stated), REPLACE)
        for squares, stated in ((100, ()), (400, (REPLACE,)))
    )
    assert one == pytest.approx(four, rel=1e-9)


def test_what_is_stated_for_replacing_is_not_priced_for_adding() -> None:
    for event in (
        votes(Fraction(9), 2, REPLACE),
        votes(Fraction(10**6), 2, REPLACE),
        poisson_sampled(0.1, votes(Fraction(9), 2, REPLACE)),
    ):
        with pytest.raises(PrivacyError, match="'discrete-gaussian' is priced for replace-one nei"):
            price(event)


def test_two_rules_agree_where_they_meet() -> None:
    """The continuous bound is above the own price, by about 4 / 10,000 of the variance."""
    event = votes(Fraction(10_000), 4)
    own, bound = price(event), price(gaussian(sigma=1.0, sensitivity=noise_ratio(event, ADD)))
    assert own <= bound * (1 + 1e-3) and bound == pytest.approx(own, rel=3e-3)
    assert noise_ratio(votes(Fraction(8), 4), ADD) == pytest.approx(1)  # of a variance of 8 - 4


def test_releases_compose_and_a_false_statement_is_caught() -> None:
    one = guarantee(Fraction(16), squared_sensitivity=2, neighbours=REPLACE, delta=DELTA)
    ten = compose([one] * 10, delta=DELTA)
    assert 2 * one.epsilon < ten.epsilon < 10 * one.epsilon
    assert ten.epsilon == pytest.approx(one.epsilon * math.sqrt(10), rel=0.3)
    with pytest.raises(PrivacyError, match="but its event 'discrete-gaussian' costs"):
        check(Guarantee(one.epsilon * 0.9, DELTA, REPLACE, "row", one.event))


@pytest.mark.parametrize(
    ("variance", "squares", "named"),
    [
        (Fraction(1, 17), 1, "variance"),
        (Fraction(-1), 1, "variance"),
        (Fraction(1), 0, "squared_sensitivity"),
    ],
)
def test_impossible_parameters_are_refused(variance: Fraction, squares: int, named: str) -> None:
    with pytest.raises(ParameterError, match=f"{named}=.*: expected"):
        guarantee(variance, squared_sensitivity=squares, neighbours=ADD, delta=DELTA)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"variance": "1/0"}, "states variance=1/0"),
        ({"variance": "much"}, "states variance=much"),
        ({"variance": "1/17"}, r"states variance=1/17; expected a rational >= 1/16"),
        ({"squared_sensitivity": 0.5}, "states squared_sensitivity=0.5; expected a whole number"),
        (
            {"variance": "4", "squared_sensitivity": 17},
            "multiply the sums by a whole number and the variance by its square",
        ),
        ({"neighbours": "nobody"}, "is priced for nobody neighbours"),
    ],
)
def test_an_event_that_states_nonsense_is_not_priced(
    parameters: dict[str, object], message: str
) -> None:
    stated = {**dict(votes(Fraction(1), 1).parameters), **parameters}
    with pytest.raises(PrivacyError, match=message):
        price(Event("discrete-gaussian", tuple(stated.items())))
