"""What DP-ICL costs: solved for all queries together, never above what was asked, and against a
second accountant.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from dpicl.accounting.accountant import bracket, price
from dpicl.accounting.calibration import subsampled_gaussian
from dpicl.accounting.guarantee import Neighbours
from dpicl.contract import TextContract
from dpicl.contract.pipeline import Cell
from dpicl.ground.errors import PrivacyError
from dpicl.mechanisms.noisy_embedding import EmbeddingNoise
from dpicl.mechanisms.private_token import TokenNoise
from dpicl.mechanisms.stable_top import StableTop
from dpicl.methods.ensemble_plan import DELTA_SHARE, EnsemblePlan, plan_release, statement
from tests.direct import point
from tests.library.text_contracts import as_ensemble, as_free_text, text_contract
from tests.library.units import unit_for

LABELS: list[dict[str, Any]] = [{}, {"noise": "exponential"}, {"aggregation": "soft-votes"}]
TEXTS: list[dict[str, Any]] = [
    {},
    {"aggregation": "keywords-ptr"},
    {"aggregation": "keywords-joint"},
]
WAYS = [(False, way) for way in LABELS] + [(True, way) for way in TEXTS]


def contract(
    *,
    free: bool = False,
    budget: dict[str, Any] | None = None,
    neighbours: str = "add-or-remove-one",
) -> TextContract:
    def change(content: dict[str, Any]) -> None:
        (as_free_text if free else as_ensemble)(content)
        content["query_count"] = 20
        if free:
            content["task"]["min_rows"] = 400
        else:
            for label in content["task"]["labels"].values():
                label["min_rows"] = 200
        content["ensemble"] = {**content["ensemble"], "subsets": 10, "delta": "1/1000"}
        content["privacy"] = {"budget": budget or {"benchmark": True}, "neighbours": neighbours}

    return text_contract(change)


def asked(epsilon: float, **way: Any) -> Any:
    unit = unit_for("dp_icl", "mail", epsilons=(epsilon,), shots=(4,), **way)
    return point(unit, Cell("icl", epsilon, 4))


def plan(declared: TextContract, epsilon: float, way: dict[str, Any]) -> EnsemblePlan:
    return plan_release(declared, asked(epsilon, **way))


@pytest.mark.quick(
    "True-way5-0.5",
    "True-way5-3.0",
    "True-way4-0.5",
    "False-way2-3.0",
    "True-way4-3.0",
    "False-way1-0.5",
    "False-way1-3.0",
)
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize("free, way", WAYS)
def test_all_queries_together_cost_what_was_asked_for_and_one_costs_less(
    free: bool, way: dict[str, Any], epsilon: float
) -> None:
    found = plan(contract(free=free), epsilon, way)
    assert found.rate == Fraction(1, 10)
    assert 0.99 * epsilon <= found.guarantee.epsilon <= epsilon and found.guarantee.delta == 1e-3
    assert 0 < found.per_query.epsilon < found.guarantee.epsilon / 2


@pytest.mark.parametrize("free, way", [(False, LABELS[1]), (False, LABELS[2]), (True, TEXTS[2])])
def test_without_a_delta_pure_noise_costs_the_sum_of_its_queries(
    free: bool, way: dict[str, Any]
) -> None:
    found = plan(contract(free=free, budget={"epsilon": 5}), 3.0, way)
    assert found.guarantee.delta == 0
    assert 3 * (1 - 1e-6) < found.guarantee.epsilon <= 3
    assert found.guarantee.epsilon == pytest.approx(20 * found.per_query.epsilon)
    with_delta = plan(contract(free=free), 3.0, way)
    assert _amount(with_delta) > 1.25 * _amount(found)


def _amount(found: EnsemblePlan) -> float:
    noise = found.noise
    return float((noise.amount if isinstance(noise, TokenNoise) else noise.epsilon) or 0)  # type: ignore[union-attr]


@pytest.mark.quick("False")
@pytest.mark.parametrize("free", [False, True])
def test_gaussian_noise_is_what_a_second_accountant_prices(free: bool) -> None:
    found = plan(contract(free=free), 2.0, {})
    sigma = found.noise.sigma if isinstance(found.noise, EmbeddingNoise) else found.noise.amount  # type: ignore[union-attr]
    event = subsampled_gaussian(float(sigma or 0), found.rate, 20)
    bounds = bracket(
        [price(event, neighbours=Neighbours.ADD_OR_REMOVE_ONE, unit="row", delta=1e-3)], delta=1e-3
    )
    assert bounds.low <= found.guarantee.epsilon <= bounds.high


def test_replace_one_needs_more_noise_and_has_no_price_without_gaussian_noise() -> None:
    added, replaced = (
        plan(contract(neighbours=name), 2.0, {}) for name in ("add-or-remove-one", "replace-one")
    )
    assert float(replaced.noise.amount or 0) > 1.1 * float(added.noise.amount or 0)  # type: ignore[union-attr]
    with pytest.raises(
        PrivacyError, match="soft-votes is priced for add-or-remove-one neighbours only"
    ):
        plan(contract(neighbours="replace-one"), 2.0, LABELS[2])


def test_the_delta_of_tests_is_paid_for_every_query() -> None:
    noise = plan(contract(free=True), 2.0, TEXTS[1]).noise
    assert isinstance(noise, StableTop)
    assert 20 * noise.delta * Fraction(1, 10) == DELTA_SHARE * Fraction(1e-3)


@pytest.mark.parametrize(
    "free, way, phrase",
    [
        (
            False,
            {"aggregation": "embedding"},
            "aggregation embedding does not fit answers of its kind; expected votes or soft-votes",
        ),
        (True, {"aggregation": "votes"}, "expected embedding, keywords-ptr or keywords-joint"),
        (
            False,
            {"subsets": 101},
            "an ensemble of 101 prompts with 4 rows each draws 404 of at least 400 rows",
        ),
    ],
)
def test_what_does_not_fit_is_refused(free: bool, way: dict[str, Any], phrase: str) -> None:
    with pytest.raises(PrivacyError, match=phrase):
        plan(contract(free=free), 1.0, way)


def test_noise_that_needs_a_delta_is_refused_without_one() -> None:
    for free, way in [(False, LABELS[0]), (True, TEXTS[0]), (True, TEXTS[1])]:
        with pytest.raises(PrivacyError, match="its budget has no delta"):
            plan(contract(free=free, budget={"epsilon": 5}), 1.0, way)


def test_people_are_told_what_all_and_one_cost() -> None:
    told = statement(contract(), asked(1.0))
    for words in (
        "answers to all 20 queries on mail together are (0.99",
        "The 21st query is refused",
        "queries themselves are not protected",
    ):
        assert words in told
    assert plan(contract(), math.inf, {}).guarantee.epsilon == math.inf
