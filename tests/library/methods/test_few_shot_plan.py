"""What DP few-shot generation costs: noise by label, parallel and sequential composition, both
relations, and refusals.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import pytest

from dpicl.accounting.accountant import check, price
from dpicl.accounting.events import poisson_sampled, repeated
from dpicl.accounting.guarantee import Guarantee, Neighbours
from dpicl.accounting.pure import bounded_range
from dpicl.contract import TextContract
from dpicl.contract.pipeline import Cell, Unit
from dpicl.ground.errors import PrivacyError
from dpicl.mechanisms.difference_token import UNCLIPPED, DifferenceToken
from dpicl.mechanisms.private_token import UNITS
from dpicl.methods import grid
from dpicl.methods.few_shot_generation import FewShotGeneration
from dpicl.methods.few_shot_plan import (
    GenerationShape,
    VoterPool,
    labels_of,
    plan_release,
    statement,
)
from dpicl.methods.few_shot_voting import rule_of
from dpicl.methods.options import FewShotVariant
from dpicl.models.votes import VoteRule
from tests.direct import point, points_of
from tests.library.text_contracts import EDITIONS, TEXT_CONTRACTS, as_extraction, text_contract
from tests.library.units import unit_for

AGNEWS, TREC, GENRE = (
    EDITIONS["agnews:rows-10000"],
    *(TEXT_CONTRACTS[name] for name in ("trec", "mit_genre")),
)
ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE
REPLACED = AGNEWS.model_copy(
    update={"privacy": AGNEWS.privacy.model_copy(update={"neighbours": REPLACE.value})}
)
FIXED: dict[str, Any] = {"mechanism": "clipped-logits", "batches": "fixed", "voters": 500}
INK: dict[str, Any] = {"mechanism": "invisible-ink", "batches": "fixed", "voters": 8}


def unit(
    contract: TextContract,
    *,
    epsilons: tuple[float, ...] = (4.0,),
    shots: tuple[int, ...] = (4,),
    **options: Any,
) -> Unit:
    return unit_for("few_shot_generation", contract.name, epsilons=epsilons, shots=shots, **options)


def planned(
    contract: TextContract = AGNEWS, *, epsilon: float = 4.0, shots: int = 4, **options: Any
) -> tuple[Any, Any]:
    """The plan of one set of demonstrations, and what it draws of the first label."""
    cell = Cell("icl", epsilon, shots)
    plan = plan_release(contract, point(unit(contract, epsilons=(epsilon,), **options), cell))
    return plan, next(iter(plan.drawings.values()))


def priced(event: Any, neighbours: Neighbours = ADD, delta: float = 1e-4) -> Guarantee:
    return price(event, neighbours=neighbours, unit="row", delta=delta)


@pytest.mark.quick("1.0-trec", "8.0-mit_genre")
@pytest.mark.parametrize("contract", [AGNEWS, TREC, GENRE], ids=lambda contract: contract.name)
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_a_set_of_demonstrations_costs_what_is_asked_and_little_less(
    contract: TextContract, epsilon: float
) -> None:
    asked = unit(contract, epsilons=(epsilon,))
    (cost,) = grid.costs(FewShotGeneration(), contract, asked).values()
    assert 0.99 * epsilon < cost.charged.epsilon <= epsilon
    assert cost.charged.delta == float(contract.generation.delta)
    check(cost.charged)


def test_every_label_has_noise_of_its_own_for_its_rows() -> None:
    """TREC's abbreviations are few: they are drawn at a larger rate and need more noise."""
    plan, _ = planned(TREC, shots=6)
    by_rows = sorted((pool.row_bound, one) for pool, one in plan.drawings.items())
    assert [one.rate for _, one in by_rows] == [Fraction(80, rows) for rows, _ in by_rows]
    amounts = [one.noise.token.amount for _, one in by_rows]
    assert len(amounts) == 6 and amounts == sorted(amounts, reverse=True)
    assert amounts[0] > 2 * amounts[-1]


def test_texts_of_one_label_compose_in_sequence_and_of_several_in_parallel() -> None:
    """Four labels: as many tokens of one text each, whether one, two or four texts; of eight texts
    two each.
    """
    one, two, four, eight = (planned(shots=shots)[1].noise.token.amount for shots in (1, 2, 4, 8))
    assert one == two == four < eight


def test_open_answers_compose_all_texts_in_sequence() -> None:
    plan, drawing = planned(GENRE, epsilon=2.0)
    assert {*plan.drawings} == {VoterPool(None, GENRE.row_bounds[""])}
    event = repeated(poisson_sampled(drawing.rate, drawing.noise.token.event()), 4 * 20)
    assert plan.guarantee.epsilon == priced(event, delta=plan.guarantee.delta).epsilon


def test_replace_one_pays_for_a_row_that_changes_its_label() -> None:
    """Two labels in sequence, but for one label alone; and more noise than for a row that comes or
    goes.
    """
    (ours, drawn), (_, less), (_, alone) = planned(REPLACED), planned(), planned(REPLACED, shots=1)
    amount = drawn.noise.token.amount
    assert less.noise.token.amount < amount > alone.noise.token.amount
    tokens = repeated(poisson_sampled(Fraction(20, 10_000), drawn.noise.token.event()), 100)
    twice = priced(repeated(tokens, 2), REPLACE)
    assert ours.guarantee.neighbours is REPLACE
    assert 0.99 * 4 < ours.guarantee.epsilon == pytest.approx(twice.epsilon, rel=1e-3)
    assert ours.guarantee.epsilon <= 4


def test_exponential_noise_is_pure_and_adds_up_over_all_tokens() -> None:
    plan, drawing = planned(mechanism="exponential")
    one = math.log1p(20 / 10_000 * math.expm1(float(drawing.noise.token.amount)))
    assert plan.guarantee.epsilon == pytest.approx(100 * one)
    assert plan.guarantee.delta == 0 and 3.99 < plan.guarantee.epsilon <= 4


def test_fixed_batches_pay_for_the_tokens_of_one_text_whatever_the_shots() -> None:
    (few, drawing), (_, other) = planned(**FIXED), planned(shots=8, **FIXED)
    assert (drawing.rate, other.rate) == (Fraction(1, 20), Fraction(1, 10))
    assert drawing.noise.token.row_is_voter
    sampled = math.log1p(0.05 * math.expm1(100 * float(drawing.noise.token.amount)))
    assert few.guarantee.epsilon == pytest.approx(sampled)
    assert few.guarantee.delta == 0 and 3.99 < few.guarantee.epsilon <= 4


def test_elections_cost_what_they_are_and_tokens_beyond_cost_nothing() -> None:
    """Ten elections with their tests under one epsilon, of a text of a hundred tokens or of
    twenty.
    """
    (long, drawing), (_, short) = (
        planned(max_tokens=most, private_tokens=10, **FIXED) for most in (100, 20)
    )
    noise = drawing.noise
    assert noise == short.noise and noise.test is not None
    one = float(noise.token.amount + noise.test.epsilon)
    assert long.guarantee.epsilon == pytest.approx(math.log1p(0.05 * math.expm1(10 * one)))
    assert 3.99 < long.guarantee.epsilon <= 4
    check(long.guarantee)


def test_fixed_batches_with_gaussian_noise_count_no_subsample() -> None:
    plan, drawing = planned(batches="fixed", voters=500)
    plain = priced(repeated(drawing.noise.token.event(), 100))
    assert plan.guarantee.epsilon == plain.epsilon and 3.98 < plain.epsilon <= 4


def test_labels_come_from_the_public_list_and_no_label_twice_before_all_have_come() -> None:
    seen = {labels_of(AGNEWS, seed, 8) for seed in range(20)}
    assert len(seen) > 10
    for labels in seen:
        assert set(labels[:4]) == set(labels[4:]) == set(AGNEWS.demonstrated)
    assert labels_of(AGNEWS, 1, 4) == labels_of(AGNEWS, 1, 4)


@pytest.mark.parametrize(
    "contract, options, phrase",
    [
        (
            AGNEWS,
            {"voters": 6000},
            "a label of at least 10000 rows is smaller than the 12000 that are drawn from it",
        ),
        (AGNEWS, {"voters": 10_001, "batches": "fixed"}, "smaller than the 10001 that are drawn"),
        *(
            (
                REPLACED,
                pure,
                "priced for add-or-remove-one neighbours only; expected mechanism gaussian",
            )
            for pure in (
                {"mechanism": "exponential"},
                {"mechanism": "clipped-logits", "batches": "fixed"},
            )
        ),
        (
            text_contract(lambda content: content.update(privacy={"budget": {"epsilon": 10}})),
            {**INK, "voters": 1},
            "its budget has no delta, which invisible-ink needs",
        ),
    ],
)
def test_labels_too_small_pure_noise_of_a_replaced_row_and_ink_without_a_delta_are_refused(
    contract: TextContract, options: dict[str, Any], phrase: str
) -> None:
    with pytest.raises(PrivacyError, match=phrase):
        planned(contract, **options)


def test_sizes_are_the_contract_s_unless_the_pipeline_has_its_own() -> None:
    usual = GenerationShape("gaussian", False, 80, 1, None, 15, 10.0)
    assert GenerationShape.of(TREC, FewShotVariant()) == usual
    own = unit(
        TREC,
        voters=5,
        examples=3,
        candidates=50,
        max_tokens=9,
        variants={"wide": {"candidates": "all", "mechanism": "exponential"}},
    )
    chosen = {cell.system: one.options for cell, one in points_of(own).items()}
    assert {name: GenerationShape.of(TREC, options) for name, options in chosen.items()} == {
        "icl": GenerationShape("gaussian", False, 5, 3, 50, 9, 10.0),
        "icl-wide": GenerationShape("exponential", False, 80, 1, None, 15, 10.0),
    }


def told(contract: TextContract = AGNEWS, epsilon: float = 4.0, **options: Any) -> str:
    return statement(contract, point(unit(contract, **options), Cell("icl", epsilon, 4)))


def test_a_sentence_states_noise_rate_and_the_second_accountant_s_bounds() -> None:
    sentence = told()
    for words in ("sigma 0.", "sampling rate 0.002", "100 tokens charged for each text"):
        assert words in sentence
    bounds = re.search(r"bounds epsilon by ([\d.]+) and ([\d.]+\d)", sentence)
    assert bounds is not None
    assert float(bounds[1]) <= planned()[0].guarantee.epsilon <= float(bounds[2])


@pytest.mark.quick("contract1-200.0")
@pytest.mark.parametrize(
    "contract, epsilon",
    [(EDITIONS["dbpedia:rows-700"], 8.0), (TEXT_CONTRACTS["docstrings"], 200.0)],
)
def test_where_the_second_accountant_gives_up_the_sentence_stands_without_it(
    contract: TextContract, epsilon: float
) -> None:
    """Its mesh is rejected by its own check at large rates, and would be too large at little
    noise.
    """
    sentence = told(contract, epsilon)
    assert "sigma" in sentence and "prv-accountant" not in sentence


@pytest.mark.quick("8.0-8")
@pytest.mark.parametrize("shots", [4, 8])
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_invisible_ink_costs_what_is_asked_for_a_row_that_is_in_one_text_at_most(
    epsilon: float, shots: int
) -> None:
    """T choices of one range on one sample, however many texts there are; more texts of a label are
    a larger sample.
    """
    plan, drawing = planned(epsilon=epsilon, shots=shots, **INK)
    assert [*plan.drawings.values()] == [drawing] * 4
    assert drawing.rate == Fraction(8 * shots // 4, 10_000)
    tokens = repeated(drawing.noise.token.event(ADD), 100)
    assert plan.guarantee.event == poisson_sampled(drawing.rate, tokens)
    assert 0.99 * epsilon < plan.guarantee.epsilon <= epsilon and plan.guarantee.delta == 1e-4
    check(plan.guarantee)


def test_one_clip_applies_to_all_texts_of_a_cell() -> None:
    """Six shots of four labels: two labels have two texts, and all pay for two."""
    plan, drawing = planned(shots=6, **INK)
    assert {one.noise for one in plan.drawings.values()} == {drawing.noise}
    token = drawing.noise.token
    assert isinstance(token, DifferenceToken)
    assert rule_of(plan.shape, plan) == VoteRule("difference", 100, UNITS, token.clip, 8)
    assert rule_of(plan.shape).clip == UNCLIPPED


def test_invisible_ink_under_replace_one_pays_twice_the_range_once_and_for_all_rows() -> None:
    """Not for two labels in sequence: a row that changes its text moves a choice of a pair."""
    plan, drawing = planned(REPLACED, **INK)
    choice = bounded_range(2 * drawing.noise.token.amount, neighbours=REPLACE)
    assert plan.guarantee.event == repeated(choice, 100)
    assert plan.guarantee.neighbours is REPLACE and 0.99 * 4 < plan.guarantee.epsilon <= 4


def test_a_higher_temperature_clips_less_at_the_same_price() -> None:
    (cool, one), (warm, other) = planned(**INK), planned(**INK, temperature=1.5)
    assert cool.guarantee == warm.guarantee and cool.shape != warm.shape
    assert other.noise.token.clip == pytest.approx(1.5 * one.noise.token.clip)
    assert "differences clipped at" in told(**INK)


def test_a_small_contract_without_labels_is_one_pool() -> None:
    plan, _ = planned(text_contract(as_extraction), epsilon=50.0, shots=2, max_tokens=2)
    assert {*plan.drawings} == {VoterPool(None, 4)}
