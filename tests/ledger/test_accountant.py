"""Composed costs: exact for pure events, pinned and bracketed for Gaussian ones, refused when
mixed.
"""

from __future__ import annotations

import csv
import math
from fractions import Fraction

import pytest
from dp_accounting import (
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
)
from dp_accounting.pld import PLDAccountant
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from dpicl.accounting.accountant import Cost, bracket, check, compose
from dpicl.accounting.events import (
    approximate,
    gaussian,
    parallel,
    poisson_sampled,
    pure,
    repeated,
    sequential,
)
from dpicl.accounting.guarantee import Event, Guarantee, Neighbours, amplify
from dpicl.accounting.pld import epsilon_at
from dpicl.accounting.pure import discrete_gaussian
from dpicl.ground.errors import PrivacyError
from tests.ledger.workload import ADD, REPLACE, cost, priced

TABLE_9 = """name,rows,sampled,steps,sigma,add,replace
agnews,30000,20,100,0.51,0.9649,0.968
agnews,30000,20,100,0.31,7.9666,7.986
dbpedia,40000,80,100,0.63,0.8935,0.907
trec,835,80,15,1.36,0.9505,1.522
trec,835,80,15,0.69,3.9546,4.698
mit-g,2953,80,80,0.81,1.9942,2.491
mit-d,1561,80,80,1.52,0.9978,1.801
mit-d,1561,80,80,0.58,7.9349,9.381
"""
"""Sigma of DP few-shot generation's table 9 and its PLD cost under both relations."""
CELLS = list(csv.DictReader(TABLE_9.splitlines()))


def epsilon_of(event: Event, delta: float, neighbours: Neighbours = ADD) -> float:
    return compose([priced(event, neighbours, delta=delta)], delta=delta).epsilon


def exact_gaussian_delta(epsilon: float, ratio: float) -> float:
    """Balle and Wang 2018, theorem 8: sensitivity over noise `ratio`."""
    return float(
        norm.cdf(ratio / 2 - epsilon / ratio)
        - math.exp(epsilon) * norm.cdf(-ratio / 2 - epsilon / ratio)
    )


@given(st.lists(st.floats(0, 100), max_size=40))
@example([0.1] * 10_000)
@example([])
def test_pure_costs_are_summed_exactly(epsilons: list[float]) -> None:
    whole = compose([cost(epsilon) for epsilon in epsilons], delta=1e-5)
    assert whole == Cost(math.fsum(epsilons), 0.0, "pure sum")


@settings(max_examples=25)
@given(
    st.floats(0.2, 20),
    st.floats(0.1, 10),
    st.sampled_from([1e-3, 1e-5, 1e-8]),
    st.sampled_from([ADD, REPLACE]),
    st.integers(1, 50),
)
def test_gaussians_cost_what_their_closed_form_says(
    sigma: float, sensitivity: float, delta: float, neighbours: Neighbours, count: int
) -> None:
    """Never less than the exact epsilon, and less than a thousandth more."""
    ratio = math.sqrt(count) * sensitivity / sigma * (2 if neighbours is REPLACE else 1)
    if ratio > 12:
        return
    epsilon = epsilon_of(
        repeated(gaussian(sigma=sigma, sensitivity=sensitivity), count), delta, neighbours
    )
    assert exact_gaussian_delta(epsilon, ratio) <= delta * (1 + 1e-6)
    tighter = epsilon * (1 - 1e-3) - 1e-6
    assert tighter < 0 or exact_gaussian_delta(tighter, ratio) > delta


@pytest.mark.quick("trec-0.69")
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell['name']}-{cell['sigma']}")
def test_the_cells_of_table_9(cell: dict[str, str]) -> None:
    rows, delta = int(cell["rows"]), 1 / int(cell["rows"])
    event = repeated(
        poisson_sampled(Fraction(int(cell["sampled"]), rows), gaussian(sigma=float(cell["sigma"]))),
        int(cell["steps"]),
    )
    assert epsilon_of(event, delta) == pytest.approx(float(cell["add"]), abs=0.002)
    assert epsilon_of(event, delta, REPLACE) == pytest.approx(float(cell["replace"]), abs=0.002)


MIXTURES = {
    "one gaussian": [gaussian(sigma=1.5)],
    "gaussians and pure": [gaussian(sigma=4.0), gaussian(sigma=5.0), *[pure(0.1)] * 5],
    "steps": [repeated(poisson_sampled(0.01, gaussian(sigma=1.0)), 500)],
    "steps of two kinds and pure": [
        repeated(poisson_sampled(0.01, gaussian(sigma=1.0)), 100),
        repeated(poisson_sampled(Fraction(1, 50), gaussian(sigma=2.0, sensitivity=2.0)), 50),
        pure(0.3),
    ],
}


@pytest.mark.quick("one gaussian", "gaussians and pure")
@pytest.mark.parametrize("name", MIXTURES)
def test_an_independent_accountant_brackets_the_cost(name: str) -> None:
    guarantees = [priced(event) for event in MIXTURES[name]]
    ours, theirs = compose(guarantees, delta=1e-5).epsilon, bracket(guarantees, delta=1e-5)
    assert theirs.low <= ours <= theirs.high
    assert ours == pytest.approx(theirs.estimate, abs=3e-3)


def test_the_bracket_holds_under_replace_one_without_subsampling() -> None:
    guarantees = [priced(gaussian(sigma=2.0), REPLACE)] * 3
    theirs = bracket(guarantees, delta=1e-5)
    assert theirs.low <= compose(guarantees, delta=1e-5).epsilon <= theirs.high


def test_the_bracket_refuses_what_it_does_not_cover_or_cannot_hold() -> None:
    sampled = poisson_sampled(0.5, gaussian(sigma=0.5))
    with pytest.raises(PrivacyError, match="no 'poisson-sampled' event under replace-one"):
        bracket([priced(sampled, REPLACE)], delta=1e-5)
    with pytest.raises(PrivacyError, match="mesh would have .* points; expected at most 1000000"):
        bracket([priced(repeated(sampled, 2000))], delta=1e-5)


@pytest.mark.exhaustive
def test_many_pure_parts_beside_a_gaussian_waste_nothing_on_the_grid() -> None:
    """Rounding each of a thousand up to the grid would cost two thirds more."""
    guarantees = [*[cost(0.0015)] * 1000, priced(gaussian(sigma=100.0))]
    theirs = bracket(guarantees, delta=1e-5, epsilon_error=1e-3)
    assert theirs.low <= compose(guarantees, delta=1e-5).epsilon <= theirs.high


def test_laplace_and_its_samples_agree_with_dp_accounting_as_upper_bounds() -> None:
    """A pure event is any mechanism of that epsilon, so it costs no less than Laplace noise
    does.
    """
    for rate, theirs in (
        (Fraction(1), LaplaceDpEvent(2.0)),
        (Fraction(1, 10), PoissonSampledDpEvent(0.1, LaplaceDpEvent(2.0))),
    ):
        both = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE).compose(theirs, 20)
        laplace = both.compose(GaussianDpEvent(3.0)).get_epsilon(1e-5)
        sampled = amplify(cost(0.5), rate)
        ours = compose([*[sampled] * 20, priced(gaussian(sigma=3.0))], delta=1e-5)
        assert (
            laplace <= ours.epsilon <= 20 * sampled.epsilon + epsilon_of(gaussian(sigma=3.0), 1e-5)
        )


@pytest.mark.quick("parts1-worst1")
@pytest.mark.parametrize(
    ("parts", "worst"),
    [
        ([gaussian(sigma=1.0), gaussian(sigma=2.0)], gaussian(sigma=1.0)),
        ([gaussian(sigma=1.0)] * 3, gaussian(sigma=1.0)),
        (
            [repeated(poisson_sampled(q, gaussian(sigma=1.0)), 50) for q in (0.02, 0.01)],
            repeated(poisson_sampled(0.02, gaussian(sigma=1.0)), 50),
        ),
        ([sequential([gaussian(sigma=2.0)] * 4), gaussian(sigma=3.0)], gaussian(sigma=1.0)),
        ([pure(6.0), gaussian(sigma=2.0)], pure(6.0)),
    ],
)
def test_parts_on_disjoint_rows_cost_as_much_as_the_worst(parts: list[Event], worst: Event) -> None:
    more = gaussian(sigma=4.0)
    both = epsilon_of(sequential([parallel(parts), more]), 1e-5)
    assert both == pytest.approx(epsilon_of(sequential([worst, more]), 1e-5), rel=1e-3)


def test_parts_of_which_none_is_worst_cost_at_least_each() -> None:
    """At small delta the Gaussian is dearer, at large delta the pure one."""
    parts = [pure(2.0), gaussian(sigma=1.0)]
    for delta in (1e-6, 0.1):
        assert (
            epsilon_of(parallel(parts), delta)
            >= max(epsilon_of(sequential([part, approximate(0.0, 1e-12)]), delta) for part in parts)
            - 1e-3
        )


def test_approximate_parts_spend_their_delta() -> None:
    part = priced(approximate(0.5, 1e-6), REPLACE, "client")
    assert compose([part], delta=1e-6).epsilon == pytest.approx(0.5, rel=1e-3)
    assert compose([part] * 4, delta=5e-6).epsilon <= 2.0
    assert compose([part] * 4, delta=3e-6).epsilon == math.inf
    sampled = amplify(priced(approximate(0.5, 1e-6)), Fraction(1, 10))
    assert compose([sampled], delta=1e-7).epsilon == pytest.approx(sampled.epsilon, rel=3e-3)


def test_an_infinite_part_or_a_lack_of_delta_makes_an_infinite_whole() -> None:
    part = priced(gaussian(sigma=1.0))
    assert compose([cost(math.inf), part], delta=1e-5).epsilon == math.inf
    assert compose([part], delta=0.0) == Cost(math.inf, 0.0, "no delta to spend")


def test_a_price_is_the_same_in_every_process() -> None:
    """The order of a set is another one in every process, and sums of floats depend on it: a
    release charged again must cost what it did.
    """
    parts = [(approximate(0.1 * n, 1e-9 * n), n) for n in range(1, 7)] + [
        (discrete_gaussian(variance=Fraction(50), squared_sensitivity=2, neighbours=ADD), 1)
    ]
    orders = [parts, parts[::-1], parts[3:] + parts[:3]]
    assert len({epsilon_at.__wrapped__(order, ADD, 1e-5) for order in orders}) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "other", [cost(1.0, REPLACE), cost(1.0, ADD, "client"), cost(1.0, REPLACE, "person")]
)
def test_units_and_relations_are_not_mixed(other: Guarantee) -> None:
    with pytest.raises(
        PrivacyError,
        match="compose only under one unit and one relation, got .* of one .*, .* of one ",
    ):
        compose([cost(1.0), other], delta=1e-5)


@pytest.mark.parametrize(
    ("guarantee", "named"),
    [
        (
            Guarantee(0.5, 0.0, ADD, "row", pure(1.0)),
            "states epsilon=0.5 at delta=0, but its event 'pure' costs 1 under add-or-remove-one",
        ),
        (
            Guarantee(4.3, 1e-5, ADD, "row", gaussian(sigma=1.0)),
            "states epsilon=4.3 at delta=1e-05, but its event 'gaussian' costs 4.377",
        ),
        (
            Guarantee(4.38, 1e-5, REPLACE, "row", gaussian(sigma=1.0)),
            "costs 9.997.* under replace-one",
        ),
        (
            Guarantee(9.0, 0.0, ADD, "row", gaussian(sigma=1.0)),
            "event 'gaussian' has no cost at delta=0.0",
        ),
        (
            Guarantee(
                9.0, 1e-5, ADD, "row", poisson_sampled(0.1, sequential([gaussian(sigma=1.0)] * 2))
            ),
            "a Poisson sample of 'sequential' is not priced",
        ),
        (
            Guarantee(9.0, 1e-5, REPLACE, "row", Event("replaced", parts=(gaussian(sigma=1.0),))),
            "'replaced' holds a part with delta > 0",
        ),
        (
            Guarantee(
                9.0, 1e-5, ADD, "row", Event("gaussian", (("sigma", 0.0), ("sensitivity", 1.0)))
            ),
            "states sigma=0; expected a number > 0",
        ),
    ],
)
def test_statements_below_the_cost_or_without_one_are_refused(
    guarantee: Guarantee, named: str
) -> None:
    for refuse in (check, lambda stated: compose([stated], delta=1e-5)):
        with pytest.raises(PrivacyError, match=named):
            refuse(guarantee)


def test_statements_above_the_cost_are_charged_as_stated_when_pure() -> None:
    assert compose([Guarantee(2.0, 0.0, ADD, "row", pure(1.0))], delta=0.0).epsilon == 2
