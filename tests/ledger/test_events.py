"""Events and guarantees survive storage, and pure ones cost what the theorems say."""

from __future__ import annotations

import json
import math
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.accounting import events
from dpicl.accounting.events import (
    event_as_json,
    event_from_json,
    guarantee_as_json,
    guarantee_from_json,
    leaves,
    pure,
)
from dpicl.accounting.guarantee import (
    Event,
    Guarantee,
    amplified_epsilon,
    amplify,
    compose_parallel,
    compose_sequential,
    to_replace_one,
)
from dpicl.accounting.pure import pure_epsilon
from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.mechanisms import noisy_count
from dpicl.mechanisms.randomised_response import response
from dpicl.mechanisms.unary_encoding import unary
from tests.harness import python
from tests.ledger.workload import ADD, REPLACE

EPSILONS = st.floats(0, 50) | st.just(math.inf)
SIGMAS = st.floats(0.1, 100)
LEAVES = st.one_of(
    st.builds(pure, EPSILONS),
    st.builds(events.approximate, EPSILONS, st.floats(0, 0.5)),
    st.builds(
        lambda sigma, sensitivity: events.gaussian(sigma=sigma, sensitivity=sensitivity),
        SIGMAS,
        SIGMAS,
    ),
)
EVENTS = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        st.builds(events.sequential, st.lists(parts, max_size=3)),
        st.builds(events.parallel, st.lists(parts, max_size=3)),
        st.builds(events.repeated, parts, st.integers(1, 1000)),
        st.builds(events.poisson_sampled, st.fractions(Fraction(1, 10**6), 1), parts),
    ),
    max_leaves=6,
)


@given(EVENTS, EPSILONS, st.floats(0, 0.5))
def test_what_is_stored_is_read_back(event: Event, epsilon: float, delta: float) -> None:
    guarantee = Guarantee(epsilon, delta, REPLACE, "person", event)
    stored = json.dumps(guarantee_as_json(guarantee), allow_nan=False)
    assert guarantee_from_json(json.loads(stored)) == guarantee
    assert event_from_json(event_as_json(event)) == event


def test_a_sequence_falls_into_leaves_with_their_counts() -> None:
    a, b = pure(1.0), events.gaussian(sigma=2.0)
    inner = events.sequential([a, events.repeated(b, 3), events.parallel([a, a])])
    assert leaves(events.repeated(inner, 2)) == Counter({a: 2, b: 6, events.parallel([a, a]): 2})


@pytest.mark.parametrize(
    ("event", "neighbours", "epsilon"),
    [
        (pure(0.5), ADD, 0.5),
        (pure(0.5), REPLACE, 0.5),
        (events.repeated(pure(0.5), 7), REPLACE, 3.5),
        (events.sequential([]), ADD, 0.0),
        (events.sequential([pure(0.1)] * 10), ADD, 1.0),
        (events.parallel([pure(0.5), events.repeated(pure(0.2), 3)]), ADD, 0.2 * 3),
        (
            events.poisson_sampled(Fraction(1, 10), events.sequential([pure(1.0), pure(2.0)])),
            ADD,
            amplified_epsilon(3.0, 0.1),
        ),
        (
            Event("replaced", parts=(events.poisson_sampled(0.1, pure(3.0)),)),
            REPLACE,
            2 * amplified_epsilon(3.0, 0.1),
        ),
        (Event("public-key"), REPLACE, 0.0),
        (events.gaussian(sigma=1.0), ADD, None),
        (events.sequential([pure(1.0), events.approximate(1.0, 1e-6)]), ADD, None),
    ],
)
def test_pure_events_cost_what_the_theorems_say(
    event: Event, neighbours: object, epsilon: float | None
) -> None:
    assert pure_epsilon(event, neighbours) == epsilon  # type: ignore[arg-type]


@given(st.floats(0.01, 30), st.integers(2, 200))
def test_reports_are_priced_from_the_weights_of_their_law(epsilon: float, categories: int) -> None:
    for law in (response, unary):
        guarantee = law(epsilon=epsilon, categories=categories).guarantee()
        assert pure_epsilon(guarantee.event, REPLACE) == guarantee.epsilon


@given(
    st.lists(st.fractions(Fraction(1, 100), 5), min_size=1, max_size=8),
    st.fractions(Fraction(1, 1000), 1),
)
def test_the_mechanisms_own_guarantees_are_priced_as_they_state(
    epsilons: list[Fraction], rate: Fraction
) -> None:
    parts = [noisy_count.guarantee(epsilon) for epsilon in epsilons]
    for whole in (
        compose_sequential(parts),
        compose_parallel(parts),
        amplify(compose_sequential(parts), rate),
    ):
        assert pure_epsilon(whole.event, ADD) == pytest.approx(whole.epsilon, rel=1e-12)
        replaced = to_replace_one(whole)
        assert pure_epsilon(replaced.event, REPLACE) == pytest.approx(replaced.epsilon, rel=1e-12)


@pytest.mark.parametrize(
    ("event", "neighbours", "named"),
    [
        (Event("magic"), ADD, "event 'magic' is unknown to the accountant; expected one of pure, "),
        (events.sequential([pure(1.0), Event("magic")]), ADD, "'magic' is unknown"),
        (
            Event("discrete-laplace", (("epsilon", 1.0),)),
            REPLACE,
            "'discrete-laplace' is priced for add-or-remove-one neighbours, not for replace-one",
        ),
        (
            Event("randomised-response", (("keep", 3), ("lie", 1), ("categories", 2))),
            ADD,
            "priced for replace-one neighbours, not for add",
        ),
        (
            events.poisson_sampled(0.1, pure(1.0)),
            REPLACE,
            "'poisson-sampled' is priced for add-or-remove-one",
        ),
        (events.parallel([pure(1.0)]), REPLACE, "'parallel' is priced for add-or-remove-one"),
        (
            events.parallel([events.gaussian(sigma=1.0)]),
            REPLACE,
            "'parallel' is priced for add-or-remove-one",
        ),
        (Event("replaced", parts=(pure(1.0),)), ADD, "'replaced' is priced for replace-one"),
        (
            Event(
                "replaced",
                parts=(Event("randomised-response", (("keep", 3), ("lie", 1), ("categories", 2))),),
            ),
            REPLACE,
            "not for add",
        ),
        (Event("pure"), ADD, "event 'pure' states epsilon=None; expected a number >= 0"),
        (Event("pure", (("epsilon", -1.0),)), ADD, "epsilon=-1.0; expected a number >= 0"),
        (Event("pure", (("epsilon", math.nan),)), ADD, "epsilon=nan; expected a number >= 0"),
        (
            Event("poisson-sampled", (("sampling_rate", "3/2"),), (pure(1.0),)),
            ADD,
            "sampling_rate=3/2; expected a number in",
        ),
        (
            Event("poisson-sampled", (("sampling_rate", "often"),), (pure(1.0),)),
            ADD,
            "sampling_rate=often; expected a number in",
        ),
    ],
)
def test_what_cannot_be_priced_is_refused(event: Event, neighbours: object, named: str) -> None:
    with pytest.raises(PrivacyError, match=named.replace("(", r"\(")):
        pure_epsilon(event, neighbours)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: pure(-1.0),
        lambda: pure(math.nan),
        lambda: events.approximate(1.0, 1.0),
        lambda: events.gaussian(sigma=0.0),
        lambda: events.gaussian(sigma=1.0, sensitivity=math.inf),
        lambda: events.poisson_sampled(0.0, pure(1.0)),
        lambda: events.poisson_sampled(1.5, pure(1.0)),
        lambda: events.repeated(pure(1.0), 0),
    ],
)
def test_impossible_parameters_are_refused(make: object) -> None:
    with pytest.raises(ParameterError, match="expected"):
        make()  # type: ignore[operator]


def test_pure_accounting_loads_neither_a_database_nor_an_accountant_library() -> None:
    code = (
        "import sys; from dpicl.accounting import guarantee, events, accountant; from "
        "dpicl.accounting.guarantee import Neighbours as "
        "N;accountant.compose([accountant.price(events.pure(1.0), neighbours=N.REPLACE_ONE, "
        "unit='row')], delta=0.0);print([name for name in ('sqlalchemy', 'dp_accounting', "
        "'prv_accountant') if name in sys.modules])"
    )
    assert python(code) == "[]"
