"""Epsilon means what the account pays: typed is charged, whatever the unit, the neighbours and the
sampling rate; what the mechanism gets is derived from it.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.accounting.guarantee import Neighbours, each_of
from dpicl.contract import Contract
from dpicl.contract.pipeline import Point
from dpicl.methods import METHODS, Options, tabular, unit_of
from dpicl.methods.collection import Collection
from dpicl.methods.grid import points
from tests.library.examples import small_contract

epsilons = st.floats(0.01, 20, allow_nan=False)
most_rows = st.integers(1, 12)
neighbours = st.sampled_from([neighbours.value for neighbours in Neighbours])
PURE = {
    "mst_tabicl": ({},),
    "aim_tabicl": ({},),
    "tab_pe": ({},),
    "gdp_tabicl": ({}, {"allocation": "shared-count"}),
    "tab_pate": ({}, {"queries": "released"}),
}
WAYS = [(name, options) for name in PURE for options in PURE[name]]
GAUSSIAN = {name: ({"noise": "gaussian", "delta": 1e-6},) for name in ("mst_tabicl", "aim_tabicl")}


def shop(rows: int, neighbours: str, rate: str = "1") -> Contract:
    """The made-up shop, whose customers have so many rows."""

    def state(content: dict[str, Any]) -> None:
        content["privacy"] |= {
            "neighbours": neighbours,
            "unit": "person",
            "person": {"id_column": "who", "max_rows": rows},
            "sampling_rate": rate,
            "budget": {"epsilon": 1000, "delta": 1e-3},
        }

    return small_contract(state)


def asked(method: str, contract: Contract, epsilon: float, options: dict[str, Any]) -> Point[Any]:
    """The first release of a method at this epsilon."""
    stated = Options.model_validate({method: options})
    unit = unit_of(method, contract.name, 0, (epsilon,), (2,), (), False, stated)
    return next(iter(points(METHODS[method], unit).values()))


@pytest.mark.parametrize(("method", "options"), WAYS)
@given(epsilon=epsilons, rows=most_rows, neighbours=neighbours)
@settings(max_examples=40, deadline=None)
def test_typed_is_charged(
    method: str, options: dict[str, Any], epsilon: float, rows: int, neighbours: str
) -> None:
    contract = shop(rows, neighbours)
    cost = METHODS[method].cost(contract, asked(method, contract, epsilon, options)).charged
    assert (cost.unit, cost.neighbours, cost.delta) == ("person", neighbours, 0)
    assert cost.epsilon <= epsilon * (1 + 1e-12)  # a sum of parts, as an account allows it
    assert cost.epsilon == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.parametrize(
    ("method", "options"), [(name, one) for name in GAUSSIAN for one in GAUSSIAN[name]]
)
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_with_gaussian_noise_too(method: str, options: dict[str, Any], neighbours: str) -> None:
    contract = shop(3, neighbours)
    cost = METHODS[method].cost(contract, asked(method, contract, 0.7, options)).charged
    assert 0.7 * 0.99 < cost.epsilon <= 0.7


@given(epsilon=epsilons, rows=most_rows, neighbours=neighbours)
@settings(max_examples=40, deadline=None)
def test_a_subsample_is_counted_in_unless_the_paper_is_asked_for(
    epsilon: float, rows: int, neighbours: str
) -> None:
    contract = shop(rows, neighbours, "1/7")
    charged = [
        METHODS["gdp_tabicl"].cost(contract, asked("gdp_tabicl", contract, epsilon, one)).charged
        for one in ({}, {"epsilon_is": "nominal"})
    ]
    assert charged[0].epsilon <= epsilon * (1 + 1e-12)
    assert charged[0].epsilon == pytest.approx(epsilon, rel=1e-9)
    assert charged[1].epsilon < charged[0].epsilon


@given(epsilon=epsilons, rows=most_rows)
@settings(max_examples=40, deadline=None)
def test_all_reports_of_a_client_cost_what_is_typed(epsilon: float, rows: int) -> None:
    contract = shop(rows, "replace-one")
    cost = METHODS["ldp_tabicl"].cost(contract, asked("ldp_tabicl", contract, epsilon, {})).charged
    assert cost.epsilon <= epsilon * (1 + 1e-12)
    assert cost.epsilon == pytest.approx(epsilon, rel=0.01)  # laws are of few bits
    asking = Collection.of(contract, epsilon=epsilon, sending_epsilon=epsilon / 2)
    assert rows * asking.questions.guarantee.epsilon == pytest.approx(epsilon, rel=0.01)
    for levels in asking.levels:
        assert levels is not None
        assert rows * levels.epsilon_of(1) == pytest.approx(epsilon / 2, rel=0.01)


@given(epsilon=st.floats(1e-300, 1e300), count=st.integers(1, 10**6))
def test_parts_never_exceed_the_whole(epsilon: float, count: int) -> None:
    each = each_of(epsilon, count)
    assert each * count <= epsilon < math.nextafter(each, math.inf) * count * (1 + 1e-15)


def test_what_is_divided_has_a_name_of_its_own() -> None:
    one = small_contract(lambda content: content["privacy"].update(sampling_rate="1"))
    for method in (*PURE, "ldp_tabicl"):
        alone, shared = (
            tabular(method).identity(contract, asked(method, contract, 1.0, {}))
            for contract in (one, shop(3, "replace-one"))
        )
        assert "spent" not in alone
        assert shared["spent"] == "in-all"
