"""Guarantees compose in sequence and in parallel, double under replace-one, and are never mixed."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.accounting.guarantee import (
    Event,
    Guarantee,
    Neighbours,
    compose_parallel,
    compose_sequential,
    to_person,
    to_replace_one,
)
from dpicl.ground.errors import PrivacyError

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE


def _cost(
    epsilon: float,
    delta: float = 0.0,
    neighbours: Neighbours = ADD,
    unit: str = "row",
    kind: str = "noise",
) -> Guarantee:
    return Guarantee(epsilon, delta, neighbours, unit, Event(kind, (("epsilon", epsilon),)))


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30))
def test_sequence_adds_and_parallel_takes_the_largest(epsilons: list[float]) -> None:
    costs = [_cost(epsilon) for epsilon in epsilons]
    assert compose_sequential(costs).epsilon == math.fsum(epsilons)
    assert compose_parallel(costs).epsilon == max(epsilons)


def test_deltas_compose_as_epsilons_do_and_the_relation_stays() -> None:
    costs = [_cost(1, 0.1), _cost(2, 0.05)]
    assert compose_parallel(costs).delta == 0.1
    replaced = [replace(cost, neighbours=REPLACE, unit="client") for cost in costs]
    whole = compose_sequential(replaced)
    assert whole.delta == pytest.approx(0.15)
    assert (whole.epsilon, whole.neighbours, whole.unit) == (3, REPLACE, "client")


@pytest.mark.parametrize("compose", [compose_sequential, compose_parallel])
@pytest.mark.parametrize(
    "other",
    [
        _cost(1, neighbours=REPLACE),
        _cost(1, unit="client"),
        _cost(1, neighbours=REPLACE, unit="client"),
    ],
)
def test_relations_and_units_are_not_mixed(compose: object, other: Guarantee) -> None:
    with pytest.raises(
        PrivacyError,
        match="compose only under one unit and one relation, got .* of one .*, .* of one ",
    ):
        compose([_cost(1), other])  # type: ignore[operator]


@pytest.mark.parametrize("compose", [compose_sequential, compose_parallel])
def test_nothing_is_not_composed(compose: object) -> None:
    with pytest.raises(PrivacyError, match="got nothing"):
        compose([])  # type: ignore[operator]


def test_parallel_composition_is_refused_under_replace_one() -> None:
    """A replaced row may leave one part and enter another: two parts change."""
    with pytest.raises(PrivacyError, match="a replaced row touches two parts"):
        compose_parallel([_cost(1, neighbours=REPLACE), _cost(1, neighbours=REPLACE)])


@given(st.floats(0, 1e6))
def test_replacing_is_removing_and_adding(epsilon: float) -> None:
    replaced = to_replace_one(_cost(epsilon))
    assert (replaced.epsilon, replaced.delta, replaced.neighbours) == (2 * epsilon, 0, REPLACE)
    assert to_replace_one(replaced) == replaced


@pytest.mark.parametrize(
    ("convert", "told"),
    [(to_replace_one, "not converted"), (lambda one: to_person(one, 3), "is not multiplied into")],
)
def test_approximate_guarantees_are_not_multiplied(convert: object, told: str) -> None:
    with pytest.raises(PrivacyError, match=told):
        convert(_cost(1, 1e-6))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(-0.1, 0), (math.nan, 0), (1, -0.1), (1, 1), (1, math.nan)]
)
def test_impossible_guarantees_are_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(PrivacyError, match="a guarantee needs"):
        _cost(epsilon, delta)


def test_equal_events_are_written_once_with_their_count() -> None:
    whole = compose_sequential([_cost(1), _cost(1), _cost(2, kind="other")])
    assert whole.event.as_json() == {
        "kind": "sequential",
        "parts": [
            {"kind": "repeated", "count": 2, "parts": [{"kind": "noise", "epsilon": 1}]},
            {"kind": "other", "epsilon": 2},
        ],
    }
