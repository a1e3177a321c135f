"""Epsilon = infinity is each mechanism's own limit: what a finite epsilon does, without noise, and
nothing of its own.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpicl.data.central import adaptive, spanning_tree
from dpicl.data.central.graphical_model import NoisyMarginal
from dpicl.ground.randomness import Stream, stream
from dpicl.ground.types import PrivateTable
from dpicl.mechanisms.difference_token import UNCLIPPED, DifferenceToken
from dpicl.mechanisms.joint_exponential import joint_top
from dpicl.mechanisms.noisy_embedding import EmbeddingNoise
from dpicl.mechanisms.noisy_max import bounded_range_max, exponential_max, gaussian_max
from dpicl.mechanisms.noisy_steps import GaussianBudget
from dpicl.mechanisms.private_token import UNITS, NoiseKind, TokenNoise
from dpicl.mechanisms.stable_top import LARGEST_EPSILON, StableTop
from dpicl.methods import METHODS, tabular
from dpicl.methods.few_shot_voting import rule_of
from dpicl.methods.options import PateOptions
from dpicl.methods.tab_pate import Sizes, noisy_votes
from dpicl.methods.tabular_method import TabularMethod
from dpicl.models.votes import VoteRule, public_votes, whole_votes
from tests.direct import release
from tests.library.examples import random_table, seeded, small_contract
from tests.library.methods.test_few_shot_plan import INK, planned
from tests.library.methods.test_gaussian_noise import counts
from tests.library.text_contracts import TEXT_CONTRACTS
from tests.library.units import unit_for

HUGE = 1e6
DRAWS = 200
CLEAR = Fraction(1, 1000)
"""Standard deviation in votes of next to no noise, which still tells equals apart."""
TABLES = sorted(name for name, method in METHODS.items() if isinstance(method, TabularMethod))


def chosen(votes: list[int], kind: NoiseKind, amount: Fraction | None, draws: Stream) -> int:
    return TokenNoise(kind, amount).select([vote * UNITS for vote in votes], draws)


SELECTIONS: dict[str, Callable[[bool, Stream], Hashable]] = {
    "exponential": lambda finite, draws: exponential_max(
        [2, 5, 5, 1], epsilon=Fraction(1000) if finite else None, spread=1, stream=draws
    ),
    "range": lambda finite, draws: bounded_range_max(
        [2, 5, 5, 1], epsilon=Fraction(1000) if finite else None, spread=1, stream=draws
    ),
    "gaussian": lambda finite, draws: gaussian_max(
        [2, 5, 5, 1], variance=Fraction(1, 1000) if finite else None, stream=draws
    ),
    "joint": lambda finite, draws: joint_top(
        [1, 4, 4, 9, 4],
        length=3,
        epsilon=Fraction(LARGEST_EPSILON) if finite else None,
        sensitivity=2,
        stream=draws,
    ),
    "votes, gaussian": lambda finite, draws: chosen(
        [5, 5, 0], "gaussian", CLEAR if finite else None, draws
    ),
    "votes, exponential": lambda finite, draws: chosen(
        [5, 5, 0], "exponential", 1 / CLEAR if finite else None, draws
    ),
}
"""A draw each, with equals among the largest."""


@pytest.mark.parametrize("name", SELECTIONS)
def test_of_equals_each_is_selected_as_often_as_with_next_to_no_noise(name: str) -> None:
    seen = {}
    for finite in (True, False):
        draws = stream(0, "limit", name, str(finite))
        seen[finite] = Counter(SELECTIONS[name](finite, draws) for _ in range(DRAWS))
    assert seen[True].keys() == seen[False].keys() and len(seen[False]) > 1
    table = [[seen[finite][one] for one in seen[True]] for finite in (True, False)]
    assert stats.chi2_contingency(table).pvalue > 1e-4


@pytest.mark.parametrize(
    "counts",
    [{"a": 9, "b": 4}, {"a": 9, "b": 8, "c": 7}, {"a": 3, "b": 3, "c": 2}, {"a": 2}, {"a": 1}, {}],
)
def test_words_leave_and_are_withheld_as_with_next_to_no_noise(counts: dict[str, int]) -> None:
    amounts = (Fraction(LARGEST_EPSILON), None)
    rules = [StableTop(amount, amount, Fraction(1, 100), 2) for amount in amounts]
    found = [
        {rule.choose(counts, seeded(seed, "limit"), seeded(seed)) for seed in range(20)}
        for rule in rules
    ]
    assert found[0] == found[1]


def test_embeddings_are_summed_as_with_next_to_no_noise() -> None:
    vectors, draws = np.array([[3, -4], [5, 6]]), seeded(0, "limit")
    clear, silent = (
        EmbeddingNoise(sigma).release(vectors, draws) for sigma in (Fraction(1, 10**9), None)
    )
    assert clear == silent == [8, 2]


@pytest.mark.parametrize("tau", [Fraction(1, 2), Fraction(3, 2)])
def test_invisible_ink_samples_from_the_softmax_of_mean_differences_at_its_temperature(
    tau: Fraction,
) -> None:
    """The law of a finite epsilon whose clip is beyond every difference, and that of equation (3)
    without a clip.
    """
    generator, voters = seeded(0, "ink").generator(), 3
    public, private = generator.normal(0, 2, 5), generator.normal(0, 2, (voters, 5))
    chances = [row - np.logaddexp.reduce(row) for row in (public, *private)]
    law = np.exp(np.mean(chances[1:], axis=0) / float(tau))
    law /= law.sum()
    finite = DifferenceToken(2 * Fraction(60) / (voters * tau), voters, tau)
    for token in (finite, DifferenceToken(None, voters, tau)):
        rule = VoteRule("difference", None, UNITS, token.clip, voters)
        sums = whole_votes(private, rule, np, public).sum(axis=0) + public_votes(public, rule, np)
        seen = np.bincount(token.select_all([sums] * 2000, seeded(1, "ink")), minlength=5)
        assert stats.chisquare(seen, law * 2000).pvalue > 1e-4


def test_a_plan_at_infinity_has_the_temperature_of_its_finite_ones_and_no_clip_that_binds() -> None:
    trec = TEXT_CONTRACTS["trec"]
    (finite, one), (silent, other) = (
        planned(trec, epsilon=epsilon, temperature=1.5, **INK) for epsilon in (8.0, math.inf)
    )
    assert one.noise.token.temperature == other.noise.token.temperature == Fraction(3, 2)
    clips = [rule_of(plan.shape, plan).clip for plan in (finite, silent)]
    assert clips[1] == UNCLIPPED > (clips[0] or math.inf)
    assert (finite.drawings.keys(), finite.shape) == (silent.drawings.keys(), silent.shape)


RELEASES = [(name, {}) for name in TABLES if name != "tab_pate"]
RELEASES += [("ldp_tabicl", {"design": "subset", "estimator": "log-linear"})]


@pytest.mark.parametrize("name, options", RELEASES, ids=str)
def test_a_table_is_released_as_with_next_to_no_noise(name: str, options: dict[str, str]) -> None:
    """All rows take part; what is told of the noise's size beside a number is no part of it."""
    contract, method = small_contract(), tabular(name)
    rates = (Fraction(1),) if name == "gdp_tabicl" else ()
    unit = unit_for(name, epsilons=(HUGE, math.inf), shots=(2,), rates=rates, **options)
    draws = release(PrivateTable(random_table(contract, 300, 0)), contract, unit).draws
    ordered = sorted(draws, key=lambda cell: cell.epsilon or 0.0)
    assert [cell.epsilon for cell in ordered] == [HUGE, math.inf]
    finite, silent = (
        re.sub(rb'"scale": [^,}]+', b"", method.encode(draws[cell])) for cell in ordered
    )
    assert finite == silent


@pytest.mark.parametrize("measure", [spanning_tree.measure, adaptive.measure], ids=["MST", "AIM"])
def test_gaussian_steps_choose_and_count_as_with_next_to_no_noise(
    measure: Callable[..., list[NoisyMarginal]],
) -> None:
    exact = counts(300, 0)
    finite, silent = (
        measure(exact, budget=GaussianBudget(one), stream=seeded(0, "limit"))
        for one in (Fraction(10**6), None)
    )
    assert [one.columns for one in finite] == [one.columns for one in silent]
    assert all(
        np.abs(one.counts - other.counts).max() < 1
        for one, other in zip(finite, silent, strict=True)
    )


def test_teachers_are_as_many_and_counted_as_with_next_to_no_noise() -> None:
    """Which rows they are taught by is drawn anew for every epsilon, so that whole releases
    differ.
    """
    finite, silent = (Sizes.of(PateOptions(), epsilon, 300) for epsilon in (HUGE, math.inf))
    assert (finite.teachers, finite.queries) == (silent.teachers, silent.queries)
    exact = np.array([[5, 7], [9, 3]], dtype=np.int64)
    one, other = (
        noisy_votes(exact, epsilon=amount, stream=seeded(0, "limit"))
        for amount in (Fraction(10**6), None)
    )
    assert one.tolist() == other.tolist() == exact.tolist()
