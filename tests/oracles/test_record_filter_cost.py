"""What retrieval under an individual filter costs: against dp-accounting, and against everybody who
chooses queries by what was answered.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from dpicl.accounting.accountant import price
from dpicl.accounting.guarantee import Neighbours
from dpicl.contract.pipeline import Cell
from dpicl.methods.ensemble_plan import plan_release
from tests.direct import point
from tests.library.methods.test_retrieval import contract, unit

GRID = 1e-4


def asked(participations: int) -> Any:
    return point(unit(2.0, similarity=0.4, participations=participations), Cell("icl", 2.0, 2))


@pytest.mark.quick("8-replace-one")
@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("participations", [1, 8])
def test_gaussian_uses_cost_what_dp_accounting_says(
    participations: int, neighbours: Neighbours
) -> None:
    """Of a thousand queries; a replaced record and its successor have uses each, twice the movement
    at most in as many queries.
    """
    declared = contract()
    privacy = declared.privacy.model_copy(update={"neighbours": neighbours.value})
    declared = declared.model_copy(update={"query_count": 1000, "privacy": privacy})
    found = plan_release(declared, asked(participations))
    movement = 1 if neighbours is Neighbours.ADD_OR_REMOVE_ONE else 2
    sigma = float(found.noise.amount) / movement
    losses = pld.from_gaussian_mechanism(sigma, value_discretization_interval=GRID)
    oracle = losses.self_compose(participations).get_epsilon_for_delta(found.guarantee.delta)
    assert oracle * (1 - 1e-3) <= found.guarantee.epsilon <= oracle * (1 + 2e-3)


QUERIES, MOST, EPSILON = 3, 2, 0.5
_KEEP = math.exp(EPSILON) / (1 + math.exp(EPSILON))


def strategies() -> Iterator[dict[tuple[int, ...], bool]]:
    """All ways to choose, after each course of answers, whether the next of three queries is near
    to the record.
    """
    courses = [
        course for length in range(QUERIES) for course in itertools.product((0, 1), repeat=length)
    ]
    for chosen in itertools.product((False, True), repeat=len(courses)):
        yield dict(zip(courses, chosen, strict=True))


def law(
    near_to: dict[tuple[int, ...], bool], is_there: bool, *, shared: bool = False
) -> dict[tuple[int, ...], float]:
    """Probabilities of all courses of answers, where one that the record takes part in is
    randomised response to whether it is there.

    `shared`: the mutant, which counts only uses that were answered by 1.
    """
    found = {(): 1.0}
    for _ in range(QUERIES):
        longer: dict[tuple[int, ...], float] = {}
        for course, probability in found.items():
            uses = sum(
                near_to[course[:place]] and (not shared or course[place] == 1)
                for place in range(len(course))
            )
            one = (_KEEP if is_there else 1 - _KEEP) if near_to[course] and uses < MOST else 0.5
            longer |= {(*course, 1): probability * one, (*course, 0): probability * (1 - one)}
        found = longer
    return found


def divergence(
    one: dict[tuple[int, ...], float], other: dict[tuple[int, ...], float], epsilon: float
) -> float:
    return math.fsum(
        max(0.0, probability - math.exp(epsilon) * other[course])
        for course, probability in one.items()
    )


@pytest.mark.parametrize("epsilon", [0.0, 0.25, 0.7, 0.9, 1.0])
def test_no_choice_of_queries_gets_more_than_the_uses_that_were_charged(epsilon: float) -> None:
    """The theorem itself, exactly, on every deterministic strategy of three queries under two uses;
    one that counts wrongly exceeds it.
    """
    there, not_there = (
        {
            answers: math.prod(keep if answer else 1 - keep for answer in answers)
            for answers in itertools.product((0, 1), repeat=MOST)
        }
        for keep in (_KEEP, 1 - _KEEP)
    )
    charged = divergence(there, not_there, epsilon)
    worst = wrong = 0.0
    for near_to in strategies():
        for shared in (False, True):
            there, not_there = (law(near_to, is_there, shared=shared) for is_there in (True, False))
            most = max(divergence(there, not_there, epsilon), divergence(not_there, there, epsilon))
            worst, wrong = (worst, max(wrong, most)) if shared else (max(worst, most), wrong)
    assert worst == pytest.approx(charged, abs=1e-12)
    assert wrong > charged + 0.01


def test_the_ledger_is_charged_the_event_that_was_priced() -> None:
    found = plan_release(contract(), asked(1)).guarantee
    how = {"neighbours": found.neighbours, "unit": found.unit, "delta": found.delta}
    assert price(found.event, **how) == found
    assert dict(found.event.parameters)["count"] == 1
