"""What DP few-shot generation costs: noise by label, parallel and sequential composition, both
relations, and refusals.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from dpicl.accounting.accountant import check, price
from dpicl.accounting.events import poisson_sampled, repeated
from dpicl.accounting.guarantee import Neighbours
from dpicl.accounting.pure import bounded_range
from dpicl.contract import TextContract
from dpicl.contract.pipeline import Cell, Unit
from dpicl.ground.errors import PrivacyError
from dpicl.mechanisms.difference_token import UNCLIPPED, DifferenceToken
from dpicl.mechanisms.private_token import UNITS
from dpicl.methods import Options, grid, unit_of
from dpicl.methods.few_shot_generation import FewShotGeneration
from dpicl.methods.few_shot_plan import (
    GenerationShape,
    VoterPool,
    labels_of,
    plan_release,
    statement,
)
from dpicl.methods.few_shot_voting import rule_of
from dpicl.methods.options import FewShotOptions, FewShotVariant
from dpicl.models.votes import VoteRule
from tests.direct import point, points_of
from tests.library.text_contracts import EDITIONS, TEXT_CONTRACTS, as_extraction, text_contract

AGNEWS, TREC, GENRE = (
    EDITIONS["agnews:rows-10000"],
    *(TEXT_CONTRACTS[name] for name in ("trec", "mit_genre")),
)


def unit(
    contract: TextContract,
    *,
    epsilons: tuple[float, ...] = (4.0,),
    shots: tuple[int, ...] = (4,),
    **options: Any,
) -> Unit:
    chosen = Options(few_shot_generation=FewShotOptions.model_validate(options))
    return unit_of("few_shot_generation", contract.name, 0, epsilons, shots, (), False, chosen)


def neighbours(contract: TextContract, relation: Neighbours) -> TextContract:
    return contract.model_copy(
        update={"privacy": contract.privacy.model_copy(update={"neighbours": relation.value})}
    )


@pytest.mark.quick("1.0-trec", "8.0-mit_genre")
@pytest.mark.parametrize("contract", [AGNEWS, TREC, GENRE], ids=lambda contract: contract.name)
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_a_set_of_demonstrations_costs_what_is_asked_and_little_less(
    contract: TextContract, epsilon: float
) -> None:
    (cost,) = grid.costs(
        FewShotGeneration(), contract, unit(contract, epsilons=(epsilon,))
    ).values()
    assert 0.99 * epsilon < cost.charged.epsilon <= epsilon
    assert cost.charged.delta == float(contract.generation.delta)
    check(cost.charged)


def test_every_label_has_noise_of_its_own_for_its_rows() -> None:
    """TREC's abbreviations are few: they are drawn at a larger rate and need more noise."""
    plan = plan_release(TREC, point(unit(TREC, shots=(6,)), Cell("icl", 4.0, 6)))
    by_rows = sorted(
        (pool.row_bound, drawing.rate, drawing.noise.token.amount)
        for pool, drawing in plan.drawings.items()
    )
    assert len(by_rows) == 6 and [rate for _, rate, _ in by_rows] == [
        Fraction(80, rows) for rows, _, _ in by_rows
    ]
    assert [amount for *_, amount in by_rows] == sorted(
        (amount for *_, amount in by_rows), reverse=True
    )  # type: ignore[type-var]
    assert by_rows[0][2] > 2 * by_rows[-1][2]  # type: ignore[operator]


def test_texts_of_one_label_compose_in_sequence_and_of_several_in_parallel() -> None:
    """Four labels: as many tokens of one text each, whether one, two or four texts; of eight texts
    two each.
    """
    noises = {
        shots: next(
            iter(
                plan_release(AGNEWS, point(unit(AGNEWS), Cell("icl", 4.0, shots))).drawings.values()
            )
        ).noise.token.amount
        for shots in (1, 2, 4, 8)
    }
    assert noises[1] == noises[2] == noises[4] < noises[8]  # type: ignore[operator]


def test_open_answers_compose_all_texts_in_sequence() -> None:
    plan = plan_release(GENRE, point(unit(GENRE), Cell("icl", 2.0, 4)))
    ((pool, drawing),) = plan.drawings.items()
    assert pool == VoterPool(None, GENRE.row_bounds[""])
    event = repeated(poisson_sampled(drawing.rate, drawing.noise.token.event()), 4 * 20)
    assert (
        plan.guarantee.epsilon
        == price(
            event, neighbours=Neighbours.ADD_OR_REMOVE_ONE, unit="row", delta=plan.guarantee.delta
        ).epsilon
    )


def test_replace_one_pays_for_a_row_that_changes_its_label() -> None:
    """Two labels in sequence; and more noise than for a row that comes or goes."""
    replaced = neighbours(AGNEWS, Neighbours.REPLACE_ONE)
    ours, plain = (
        plan_release(contract, point(unit(contract), Cell("icl", 4.0, 4)))
        for contract in (replaced, AGNEWS)
    )
    noise, less = (next(iter(plan.drawings.values())).noise for plan in (ours, plain))
    assert noise.token.amount > less.token.amount  # type: ignore[operator]
    tokens = repeated(poisson_sampled(Fraction(20, 10_000), noise.token.event()), 100)
    twice = price(repeated(tokens, 2), neighbours=Neighbours.REPLACE_ONE, unit="row", delta=1e-4)
    assert ours.guarantee.neighbours is Neighbours.REPLACE_ONE
    assert (
        ours.guarantee.epsilon == pytest.approx(twice.epsilon, rel=1e-3)
        and 0.99 * 4 < ours.guarantee.epsilon <= 4
    )


def test_one_label_alone_is_not_paid_for_twice() -> None:
    replaced = neighbours(AGNEWS, Neighbours.REPLACE_ONE)
    one, several = (
        next(
            iter(
                plan_release(replaced, point(unit(replaced), Cell("icl", 4.0, k))).drawings.values()
            )
        ).noise.token.amount
        for k in (1, 4)
    )
    assert one < several  # type: ignore[operator]


def test_exponential_noise_is_pure_and_adds_up_over_all_tokens() -> None:
    plan = plan_release(AGNEWS, point(unit(AGNEWS, mechanism="exponential"), Cell("icl", 4.0, 4)))
    noise = next(iter(plan.drawings.values())).noise
    one = math.log1p(20 / 10_000 * math.expm1(float(noise.token.amount or 0)))
    assert (
        plan.guarantee.delta == 0
        and plan.guarantee.epsilon == pytest.approx(100 * one)
        and 3.99 < plan.guarantee.epsilon <= 4
    )


def test_fixed_batches_pay_for_the_tokens_of_one_text_whatever_the_shots() -> None:
    chosen: dict[str, Any] = {"mechanism": "clipped-logits", "batches": "fixed", "voters": 500}
    few, many = (
        plan_release(AGNEWS, point(unit(AGNEWS, **chosen), Cell("icl", 4.0, shots)))
        for shots in (4, 8)
    )
    drawing, other = (next(iter(plan.drawings.values())) for plan in (few, many))
    assert (drawing.rate, other.rate) == (
        Fraction(1, 20),
        Fraction(1, 10),
    ) and drawing.noise.token.row_is_voter
    sampled = math.log1p(0.05 * math.expm1(100 * float(drawing.noise.token.amount or 0)))
    assert (
        few.guarantee.delta == 0
        and few.guarantee.epsilon == pytest.approx(sampled)
        and 3.99 < few.guarantee.epsilon <= 4
    )


def test_elections_cost_what_they_are_and_tokens_beyond_cost_nothing() -> None:
    """Ten elections with their tests under one epsilon, of a text of a hundred tokens or of
    twenty.
    """
    chosen: dict[str, Any] = {
        "mechanism": "clipped-logits",
        "batches": "fixed",
        "voters": 500,
        "private_tokens": 10,
    }
    long, short = (
        plan_release(AGNEWS, point(unit(AGNEWS, max_tokens=most, **chosen), Cell("icl", 4.0, 4)))
        for most in (100, 20)
    )
    noise = next(iter(long.drawings.values())).noise
    assert noise == next(iter(short.drawings.values())).noise and noise.test is not None
    one = float((noise.token.amount or 0) + (noise.test.epsilon or 0))
    assert (
        long.guarantee.epsilon == pytest.approx(math.log1p(0.05 * math.expm1(10 * one)))
        and 3.99 < long.guarantee.epsilon <= 4
    )
    check(long.guarantee)


def test_fixed_batches_with_gaussian_noise_count_no_subsample() -> None:
    plan = plan_release(
        AGNEWS, point(unit(AGNEWS, batches="fixed", voters=500), Cell("icl", 4.0, 4))
    )
    noise = next(iter(plan.drawings.values())).noise
    plain = price(
        repeated(noise.token.event(), 100),
        neighbours=Neighbours.ADD_OR_REMOVE_ONE,
        unit="row",
        delta=1e-4,
    )
    assert plan.guarantee.epsilon == plain.epsilon and 3.98 < plain.epsilon <= 4


def test_labels_come_from_the_public_list_and_no_label_twice_before_all_have_come() -> None:
    seen = {labels_of(AGNEWS, seed, 8) for seed in range(20)}
    assert len(seen) > 10
    for labels in seen:
        assert set(labels[:4]) == set(labels[4:]) == set(AGNEWS.demonstrated)
    assert labels_of(AGNEWS, 1, 4) == labels_of(AGNEWS, 1, 4)


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        (
            {"voters": 6000},
            "a label of at least 10000 rows is smaller than the 12000 that are drawn from it",
        ),
        ({"voters": 10_001, "batches": "fixed"}, "smaller than the 10001 that are drawn"),
    ],
)
def test_a_label_smaller_than_what_is_drawn_is_refused(
    options: dict[str, Any], phrase: str
) -> None:
    with pytest.raises(PrivacyError, match=phrase):
        plan_release(AGNEWS, point(unit(AGNEWS, **options), Cell("icl", 4.0, 4)))


@pytest.mark.parametrize(
    "options", [{"mechanism": "exponential"}, {"mechanism": "clipped-logits", "batches": "fixed"}]
)
def test_pure_noise_is_not_priced_under_replace_one(options: dict[str, Any]) -> None:
    contract = neighbours(AGNEWS, Neighbours.REPLACE_ONE)
    with pytest.raises(
        PrivacyError,
        match="is priced for add-or-remove-one neighbours only; expected mechanism gaussian",
    ):
        plan_release(contract, point(unit(contract, **options), Cell("icl", 4.0, 4)))


def test_sizes_are_the_contract_s_unless_the_pipeline_has_its_own() -> None:
    assert GenerationShape.of(TREC, FewShotVariant()) == GenerationShape(
        "gaussian", False, 80, 1, None, 15, 10.0
    )
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


def test_a_sentence_states_noise_rate_and_the_second_accountant_s_bounds() -> None:
    cell = Cell("icl", 4.0, 4)
    asked = unit(AGNEWS)
    sentence = statement(AGNEWS, point(asked, cell))
    assert (
        "sigma 0." in sentence
        and "sampling rate 0.002" in sentence
        and "100 tokens charged for each text" in sentence
    )
    low, high = (
        float(part)
        for part in sentence.split("bounds epsilon by ")[1]
        .split(".  ")[0]
        .split(". Every")[0]
        .split(" and ")
    )
    assert low <= plan_release(AGNEWS, point(asked, cell)).guarantee.epsilon <= high


@pytest.mark.quick("contract1-200.0")
@pytest.mark.parametrize(
    ("contract", "epsilon"),
    [(EDITIONS["dbpedia:rows-700"], 8.0), (TEXT_CONTRACTS["docstrings"], 200.0)],
)
def test_where_the_second_accountant_gives_up_the_sentence_stands_without_it(
    contract: TextContract, epsilon: float
) -> None:
    """Its mesh is rejected by its own check at large rates, and would be too large at little
    noise.
    """
    cell, asked = Cell("icl", epsilon, 4), unit(contract)
    sentence = statement(contract, point(asked, cell))
    assert "sigma" in sentence and "prv-accountant" not in sentence


INK: dict[str, Any] = {"mechanism": "invisible-ink", "batches": "fixed", "voters": 8}


@pytest.mark.quick("8.0-8")
@pytest.mark.parametrize("shots", [4, 8])
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_invisible_ink_costs_what_is_asked_for_a_row_that_is_in_one_text_at_most(
    epsilon: float, shots: int
) -> None:
    """T choices of one range on one sample, however many texts there are; more texts of a label are
    a larger sample.
    """
    plan = plan_release(AGNEWS, point(unit(AGNEWS, **INK), Cell("icl", epsilon, shots)))
    (drawing, *others) = plan.drawings.values()
    assert others == [drawing] * 3 and drawing.rate == Fraction(8 * shots // 4, 10_000)
    assert plan.guarantee.event == poisson_sampled(
        drawing.rate, repeated(drawing.noise.token.event(Neighbours.ADD_OR_REMOVE_ONE), 100)
    )  # type: ignore[call-arg]
    assert 0.99 * epsilon < plan.guarantee.epsilon <= epsilon and plan.guarantee.delta == 1e-4
    check(plan.guarantee)


def test_one_clip_applies_to_all_texts_of_a_cell() -> None:
    """Six shots of four labels: two labels have two texts, and all pay for two."""
    plan = plan_release(AGNEWS, point(unit(AGNEWS, **INK), Cell("icl", 4.0, 6)))
    assert len({drawing.noise for drawing in plan.drawings.values()}) == 1
    rule = rule_of(plan.shape, plan)
    token = next(iter(plan.drawings.values())).noise.token
    assert isinstance(token, DifferenceToken) and rule == VoteRule(
        "difference", 100, UNITS, token.clip, 8
    )
    assert rule_of(plan.shape).clip == UNCLIPPED


def test_invisible_ink_under_replace_one_pays_twice_the_range_once_and_for_all_rows() -> None:
    """Not for two labels in sequence: a row that changes its text moves a choice of a pair."""
    replaced = neighbours(AGNEWS, Neighbours.REPLACE_ONE)
    plan = plan_release(replaced, point(unit(replaced, **INK), Cell("icl", 4.0, 4)))
    token = next(iter(plan.drawings.values())).noise.token
    assert plan.guarantee.event == repeated(
        bounded_range(2 * token.amount, neighbours=Neighbours.REPLACE_ONE), 100
    )  # type: ignore[operator]
    assert (
        plan.guarantee.neighbours is Neighbours.REPLACE_ONE
        and 0.99 * 4 < plan.guarantee.epsilon <= 4
    )


def test_a_higher_temperature_clips_less_at_the_same_price() -> None:
    cool, warm = (
        plan_release(AGNEWS, point(unit(AGNEWS, **INK, temperature=tau), Cell("icl", 4.0, 4)))
        for tau in (1.0, 1.5)
    )
    tokens = [next(iter(plan.drawings.values())).noise.token for plan in (cool, warm)]
    assert cool.guarantee == warm.guarantee and tokens[1].clip == pytest.approx(
        1.5 * tokens[0].clip
    )  # type: ignore[union-attr]
    assert GenerationShape.of(AGNEWS, FewShotVariant(**INK)) != GenerationShape.of(
        AGNEWS, FewShotVariant(**INK, temperature=1.5)
    )
    assert "differences clipped at" in statement(
        AGNEWS, point(unit(AGNEWS, **INK), Cell("icl", 4.0, 4))
    )


def test_invisible_ink_needs_a_delta_of_the_budget() -> None:
    content = text_contract(
        lambda content: content.update({"privacy": {"budget": {"epsilon": 10}}})
    )
    with pytest.raises(PrivacyError, match="its budget has no delta, which invisible-ink needs"):
        plan_release(content, point(unit(content, **{**INK, "voters": 1}), Cell("icl", 4.0, 1)))


def test_a_small_contract_without_labels_is_one_pool() -> None:
    contract = text_contract(as_extraction)
    assert {
        *plan_release(contract, point(unit(contract, max_tokens=2), Cell("icl", 50.0, 2))).drawings
    } == {VoterPool(None, 4)}
