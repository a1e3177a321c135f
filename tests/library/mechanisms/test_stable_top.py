"""Propose, test, release: what one answer can do to gaps, stability and set; the exact law of what
leaves, and its price.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.accounting.accountant import price
from dpicl.accounting.guarantee import Neighbours
from dpicl.ground.errors import ParameterError
from dpicl.mechanisms.stable_top import SPREAD, StableTop, _by_count, _falling, _gap
from tests.library.examples import seeded
from tests.library.maxima import law_of_maximum

RULE = StableTop(Fraction(1), Fraction(1, 2), Fraction(1, 100), 3)
answers = st.lists(st.sets(st.sampled_from("abcdef")), min_size=1, max_size=9)
Law = dict[tuple[str, ...] | None, float]


def with_other(ballot: list[set[str]], answer: set[str], where: int) -> list[set[str]]:
    where %= len(ballot)
    return [*ballot[:where], answer, *ballot[where + 1 :]]


def counted(ballot: list[set[str]]) -> dict[str, int]:
    words = [word for answer in ballot for word in answer]
    return {word: words.count(word) for word in sorted(set(words))}


def chance_of_at_least(least: int, epsilon: Fraction) -> float:
    """P[Z >= least] of discrete Laplace noise."""
    decay = math.exp(-epsilon)
    return decay**least / (1 + decay) if least >= 1 else 1 - decay ** (1 - least) / (1 + decay)


def law_of(rule: StableTop, counts: Mapping[str, int]) -> Law:
    """Of what leaves, by summing over k and the noise."""
    gaps = [_gap(_falling(counts), size) for size in range(1, rule.most + 1)]
    sizes = law_of_maximum(gaps, Fraction(math.exp(-rule.size_epsilon / SPREAD)))
    law: Law = {None: 0.0}
    for size, chance in enumerate(sizes, 1):
        short = rule.threshold - rule.stability(counts, size)
        leaves = chance_of_at_least(short, rule.test_epsilon)
        words = tuple(sorted(_by_count(counts)[:size]))
        law[words] = law.get(words, 0.0) + float(chance) * leaves
        law[None] += float(chance) * (1 - leaves)
    return law


def delta_between(one: Law, other: Law, epsilon: float) -> float:
    return sum(
        max(0.0, chance - math.exp(epsilon) * other.get(words, 0.0))
        for words, chance in one.items()
    )


words = st.sets(st.sampled_from("abcdefg"))
sizes = st.integers(1, 4)


@given(answers, words, st.integers(0, 8), sizes, sizes)
def test_one_changed_answer_moves_gaps_and_stability_by_as_much_as_stated(
    ballot: list[set[str]], changed: set[str], where: int, size: int, other_size: int
) -> None:
    here, there = counted(ballot), counted(with_other(ballot, changed, where))
    moved = [_gap(_falling(there), one) - _gap(_falling(here), one) for one in (size, other_size)]
    assert max(map(abs, moved)) <= 2 and abs(moved[0] - moved[1]) <= SPREAD
    stabilities = [RULE.stability(counts, size) for counts in (here, there)]
    assert abs(stabilities[0] - stabilities[1]) <= 1
    if max(stabilities) >= 1:
        assert set(_by_count(here)[:size]) == set(_by_count(there)[:size])


def test_the_spread_is_reached() -> None:
    """Of the gaps behind the first and the third word: a smaller one would not do, nor for gaps
    side by side.
    """
    for here, there, sizes in (
        ((9, 6, 4, 1), (10, 5, 3, 2), (1, 3)),
        ((9, 6, 3), (10, 5, 4), (1, 2)),
    ):
        one, other = (_falling(dict(zip("abcd", counts, strict=False))) for counts in (here, there))
        assert [_gap(other, size) - _gap(one, size) for size in sizes] == [2, -2]


@given(answers, st.integers(1, 3), st.data())
def test_as_many_changed_answers_as_stated_leave_the_set_as_it_is(
    ballot: list[set[str]], size: int, data: st.DataObject
) -> None:
    counts = counted(ballot)
    stable = RULE.stability(counts, size)
    fresh = data.draw(st.lists(words, min_size=stable, max_size=stable))
    if stable:
        then = _by_count(counted(fresh + ballot[stable:]))
        assert set(then[:size]) == set(_by_count(counts)[:size])


@given(answers, words, st.integers(0, 8))
def test_the_price_holds_for_all_that_can_leave(
    ballot: list[set[str]], changed: set[str], where: int
) -> None:
    """Exactly, both ways; k words and the test together."""
    ballots = ballot, with_other(ballot, changed, where)
    here, there = (law_of(RULE, counted(one)) for one in ballots)
    for one, other in ((here, there), (there, here)):
        assert delta_between(one, other, 1.5) <= 0.01 + 1e-12


@pytest.mark.parametrize("delta", [Fraction(1, 3), Fraction(1, 10**5), Fraction(1, 10**12)])
@pytest.mark.parametrize(
    "epsilon",
    [pytest.param(Fraction(1, 100), marks=pytest.mark.exhaustive), Fraction(1), Fraction(10**4)],
)
def test_the_threshold_is_the_smallest_that_noise_reaches_rarely_enough(
    epsilon: Fraction, delta: Fraction
) -> None:
    mpmath.mp.dps = 50
    rate, limit = (mpmath.mpf(one.numerator) / one.denominator for one in (epsilon, delta))
    least = 0
    while mpmath.exp(-rate * least) / (1 + mpmath.exp(-rate)) > limit:
        least += 1
    assert StableTop(Fraction(1), epsilon, delta, 1).threshold == max(1, least)


def test_where_the_chance_is_delta_itself_the_threshold_does_not_round_it_up() -> None:
    exact = Fraction(math.exp(-3) / (1 + math.exp(-1)))
    for by, threshold in ((1, 3), (-1, 4)):
        delta = exact * Fraction(10**12 + by, 10**12)
        assert StableTop(Fraction(1), Fraction(1), delta, 1).threshold == threshold


def test_what_leaves_has_the_law_of_the_sum() -> None:
    counts = {"a": 30, "b": 19, "c": 7, "d": 2}
    drawn = RULE.choose_all([counts] * 20_000, seeded(0, "size"), seeded())
    for words, chance in law_of(RULE, counts).items():
        expected = 20_000 * chance
        assert abs(drawn.count(words) - expected) <= 5 * math.sqrt(expected) + 1


def test_the_words_leave_in_the_order_of_the_alphabet() -> None:
    exact = StableTop(None, None, Fraction(1, 100), 3)
    chosen = exact.choose({"zebra": 90, "ape": 80, "bee": 2}, seeded(), seeded())
    assert chosen == ("ape", "zebra")


def test_without_noise_the_widest_gap_decides_and_a_set_that_one_answer_changes_is_withheld() -> (
    None
):
    exact, draws = StableTop(None, None, Fraction(1, 100), 2), seeded(0, "")
    assert exact.choose({"a": 5, "b": 5, "c": 2}, draws, draws) == ("a", "b")
    assert exact.choose({"a": 3, "b": 0}, draws, draws) == ("a",)
    assert exact.choose({"a": 2, "b": 0}, draws, draws) is exact.choose({}, draws, draws) is None
    for rule in (
        exact,
        replace(exact, size_epsilon=Fraction(1)),
        replace(exact, test_epsilon=Fraction(1)),
    ):
        with pytest.raises(ParameterError, match="expected noise, where a cost is stated"):
            rule.event()


def test_words_that_do_not_occur_never_leave() -> None:
    drawn = RULE.choose_all([{"a": 2, "b": 0}] * 5000, seeded(0, "size"), seeded())
    assert set(drawn) <= {None, ("a",)} and np.mean([one is None for one in drawn]) > 0.98


def test_one_choice_costs_both_epsilons_and_delta() -> None:
    assert dict(RULE.event().parameters) == {"epsilon": 1.5, "delta": 0.01}
    how = {"neighbours": Neighbours.ADD_OR_REMOVE_ONE, "unit": "row", "delta": 0.011}
    assert price(RULE.event(), **how).epsilon <= 1.5 * 1.001


@pytest.mark.parametrize(
    "wrong",
    [
        {"size_epsilon": Fraction(0)},
        {"test_epsilon": Fraction(-1)},
        {"test_epsilon": Fraction(10_001)},
        {"delta": Fraction(0)},
        {"delta": Fraction(1, 2)},
        {"most": 0},
    ],
)
def test_numbers_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match="expected"):
        replace(RULE, **wrong)  # type: ignore[arg-type]
