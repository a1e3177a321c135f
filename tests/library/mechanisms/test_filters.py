"""The filter's bookkeeping: exact sums in any order, one threshold, a fixed reserve, and
refusals.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpicl.accounting.accountant import compose, price
from dpicl.accounting.events import (
    approximate,
    gaussian,
    parallel,
    poisson_sampled,
    pure,
    repeated,
    sequential,
)
from dpicl.accounting.filters import ALIKE, MIXTURE, RESERVE, Spent, log_weights, mixture_epsilon
from dpicl.accounting.guarantee import Event, Guarantee, Neighbours
from dpicl.accounting.pure import discrete_gaussian
from dpicl.accounting.renyi import ORDERS, curve_of
from dpicl.ground.errors import PrivacyError
from dpicl.ledger.fold import spent_from, spent_text

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE
DELTA = 1e-5


def entry(event: Event, neighbours: Neighbours = ADD, delta: float = DELTA) -> Guarantee:
    """A guarantee of an event that is not pure; the filter reads the event, not the epsilon."""
    return Guarantee(1.0, delta, neighbours, "row", event)


def pure_entry(epsilon: float) -> Guarantee:
    return price(pure(epsilon), neighbours=ADD, unit="row")


ENTRIES = [
    pure_entry(0.1),
    pure_entry(0.7),
    entry(gaussian(sigma=4.0)),
    entry(repeated(gaussian(sigma=9.0), 3)),
    entry(repeated(poisson_sampled(Fraction(1, 50), gaussian(sigma=1.0)), 100)),
    entry(poisson_sampled(Fraction(1, 10), approximate(0.5, 1e-8))),
    entry(discrete_gaussian(variance=Fraction(9), squared_sensitivity=2, neighbours=ADD)),
    entry(parallel([gaussian(sigma=5.0), pure(0.2)])),
]


def spent(guarantees: list[Guarantee]) -> Spent:
    total = Spent.nothing()
    for guarantee in guarantees:
        total = total.plus(guarantee)
    return total


@given(st.lists(st.sampled_from(ENTRIES), max_size=12), st.randoms())
def test_the_order_of_entries_changes_nothing_at_all(
    entries: list[Guarantee], random: object
) -> None:
    shuffled = list(entries)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert spent(entries) == spent(shuffled)


@example([entry(gaussian(sigma=1e-3))] * 2)  # of which some sums are infinite
@given(st.lists(st.sampled_from(ENTRIES), max_size=6))
def test_what_was_written_is_read_back(entries: list[Guarantee]) -> None:
    total = spent(entries)
    assert Spent.from_json(json.loads(json.dumps(total.as_json(), allow_nan=False))) == total


@example([entry(gaussian(sigma=1e-3))] * 2)
@given(st.lists(st.sampled_from(ENTRIES), max_size=6))
def test_what_a_ledger_remembers_of_a_total_is_what_its_text_says(entries: list[Guarantee]) -> None:
    """A charge takes the total from memory, and another process from the text."""
    text = spent_text(spent(entries))
    remembered = spent_from(text)
    read = Spent.from_json(json.loads(text))
    assert remembered == read and spent_text(read) == text


@given(st.lists(st.sampled_from(ENTRIES), min_size=2, max_size=6), st.sampled_from(ENTRIES))
def test_an_entry_more_raises_the_sums_by_its_own_at_least_and_never_lowers_their_epsilon(
    entries: list[Guarantee], more: Guarantee
) -> None:
    before, after = spent(entries), spent([*entries, more])
    own = curve_of(more.event, ADD).renyi
    assert (np.add(before.renyi, own) <= after.renyi).all()
    low, high = (mixture_epsilon(one.renyi, one.delta, DELTA) for one in (before, after))
    assert low <= high


@given(st.lists(st.floats(0, 50), min_size=1, max_size=10))
def test_pure_entries_cost_their_exact_sum_at_delta_zero(epsilons: list[float]) -> None:
    entries = [pure_entry(epsilon) for epsilon in epsilons]
    exact = compose(entries, delta=0.0)
    assert spent(entries).cost(0.0) == exact
    assert spent(entries).cost(DELTA) in (exact, spent(entries)._least(DELTA))
    assert spent(entries).cost(DELTA).epsilon <= exact.epsilon


def test_many_small_pure_entries_cost_less_than_their_sum_where_there_is_a_delta() -> None:
    equal, unequal = [pure_entry(0.05)] * 100, [pure_entry(0.05), pure_entry(0.04)] * 50
    for entries, most in ((equal, 2.3), (unequal, 2.2)):
        cost = spent(entries).cost(DELTA)
        assert cost.delta == DELTA and cost.epsilon < most < spent(entries).cost(0.0).epsilon
    few = spent([pure_entry(1.0), pure_entry(0.5)])
    assert few.cost(DELTA).method == "pure sum"


@given(st.lists(st.floats(0.5, 50), min_size=2, max_size=8))
def test_gaussian_entries_of_any_noise_cost_what_one_does_whose_mu_is_theirs(
    sigmas: list[float],
) -> None:
    together = spent([entry(gaussian(sigma=sigma)) for sigma in sigmas])
    whole = 1 / math.sqrt(sum(sigma**-2 for sigma in sigmas))
    exact = price(
        gaussian(sigma=whole), neighbours=ADD, unit="row", delta=float(ALIKE) * DELTA
    ).epsilon
    assert together.sole is not None
    assert exact <= together._by_distribution(float(ALIKE) * DELTA, DELTA, "").epsilon + 1e-6
    assert together.cost(DELTA).epsilon <= exact * (1 + 1e-5)


def test_nothing_costs_nothing() -> None:
    assert Spent.nothing().cost(DELTA).epsilon == 0


@pytest.mark.quick("replace-one")
@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_a_single_entry_costs_what_the_accountant_says(neighbours: Neighbours) -> None:
    event = sequential(
        [repeated(poisson_sampled(Fraction(1, 20), gaussian(sigma=1.0)), 10), gaussian(sigma=6.0)]
    )
    one = price(event, neighbours=neighbours, unit="row", delta=DELTA)
    assert spent([one]).cost(DELTA) == compose([one], delta=DELTA)


def test_entries_of_one_kind_are_priced_by_their_number_and_a_stranger_ends_that() -> None:
    step = poisson_sampled(Fraction(1, 1000), gaussian(sigma=0.6))
    short, long = entry(repeated(step, 50)), entry(repeated(step, 100))
    alike = spent([short, long, short])
    share = float(ALIKE) * DELTA
    exact = price(repeated(step, 200), neighbours=ADD, unit="row", delta=share).epsilon
    assert alike.cost(DELTA).epsilon == exact
    mixed = alike.plus(entry(gaussian(sigma=100.0)))
    assert mixed.sole is mixed.plus(short).sole is None
    expected = mixture_epsilon(mixed.renyi, mixed.delta, DELTA)
    assert mixed.cost(DELTA).epsilon == expected > 1.5 * exact


def test_bundles_of_several_parts_are_alike_in_the_same_proportion_only() -> None:
    first, second = (poisson_sampled(0.1, gaussian(sigma=sigma)) for sigma in (3.0, 5.0))
    bundle = sequential([repeated(first, 2), repeated(second, 4)])
    assert spent([entry(bundle), entry(sequential([repeated(second, 2), first]))]).sole is not None
    assert spent([entry(bundle), entry(sequential([first, second]))]).sole is None


def test_without_a_delta_only_pure_entries_have_a_cost() -> None:
    assert spent([ENTRIES[0], ENTRIES[2]]).cost(0.0).epsilon == math.inf


def test_deltas_of_parts_come_out_of_the_reserve_and_of_nothing_else() -> None:
    """A tail that left its share unspent lends none of it."""
    all_of_it = approximate(0.01, float(RESERVE) * DELTA)
    both = sequential([all_of_it, approximate(0.02, float(RESERVE) * DELTA)])
    within = spent([entry(gaussian(sigma=1000.0)), entry(all_of_it)])
    assert within.cost(DELTA).epsilon < 1
    assert within.plus(entry(approximate(0.01, 1e-15))).cost(DELTA).epsilon == math.inf
    beyond = spent([entry(gaussian(sigma=1000.0)), entry(both)])
    assert beyond.cost(DELTA).epsilon == math.inf
    assert ALIKE + MIXTURE + RESERVE == 1


@given(st.floats(1e-3, 1e3), st.floats(1e-12, 0.9))
def test_the_weights_sum_to_at_most_one_at_every_cap(epsilon: float, delta: float) -> None:
    assert np.exp(log_weights(epsilon, delta)).sum() <= 1 + 1e-12


@given(st.floats(1e-2, 1e2), st.floats(1, 3), st.floats(1e-12, 0.9))
def test_no_term_falls_while_epsilon_grows(epsilon: float, factor: float, delta: float) -> None:
    """So a cost below the cap says that the inequality holds at the cap."""
    low, high = (
        log_weights(one, delta) + (np.array(ORDERS) - 1) * one
        for one in (epsilon, factor * epsilon)
    )
    assert (high >= low - 1e-9).all()


@pytest.mark.quick("entries1")
@pytest.mark.parametrize("entries", [ENTRIES[2:4], ENTRIES[1:5], [ENTRIES[4]] * 30])
def test_the_inequality_holds_for_every_loss_at_the_cost_and_not_below_it(
    entries: list[Guarantee],
) -> None:
    total = spent(entries)
    epsilon = mixture_epsilon(total.renyi, total.delta, DELTA)
    tail, lambdas = float(MIXTURE) * DELTA, np.array(ORDERS) - 1
    excess = np.linspace(1e-6, 20, 400_001)

    def largest(at: float) -> float:
        """Of the left side over the right one; above 20, the left side is 1 and the right one
        grows.
        """
        bases = np.exp(log_weights(at, tail) + lambdas * (at - np.array(total.renyi)))
        right = sum(
            base * np.exp(np.minimum(rate * excess, 700))
            for base, rate in zip(bases, lambdas, strict=True)
        )
        return float((-np.expm1(-excess) / right).max())

    assert 0.999 * tail < largest(epsilon) <= tail
    assert largest(0.999 * epsilon) > tail


def test_what_is_unknown_or_of_another_relation_is_refused() -> None:
    for event in (
        Event("invented"),
        poisson_sampled(0.1, repeated(gaussian(sigma=1.0), 2)),
        Event("grouped", (("rows", 2),), (gaussian(sigma=1.0),)),
    ):
        with pytest.raises(PrivacyError):
            Spent.nothing().plus(entry(event))
    with pytest.raises(PrivacyError):
        curve_of(parallel([gaussian(sigma=1.0)]), REPLACE)
    with pytest.raises(PrivacyError, match="one relation and one unit"):
        spent([ENTRIES[2], entry(gaussian(sigma=4.0), REPLACE)])
    with pytest.raises(PrivacyError, match="states epsilon=1"):
        Spent.nothing().plus(Guarantee(1.0, 0.0, ADD, "row", pure(2.0)))
    with pytest.raises(PrivacyError):
        Spent.nothing().plus(Guarantee(1.0, 0.0, ADD, "row", gaussian(sigma=1.0)))
    with pytest.raises(PrivacyError, match=r"delta in \[0, 1\)"):
        spent(ENTRIES).cost(1.0)


def test_sums_of_another_grid_are_refused() -> None:
    content = spent(ENTRIES).as_json()
    with pytest.raises(PrivacyError, match="orders"):
        Spent.from_json({**content, "renyi": content["renyi"][:-1]})
