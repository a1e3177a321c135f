"""Collection designs: who is asked what at which cost, counts that add up, and estimators that find
the population again.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import reduce
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.data.local.estimate import estimated_rows, log_linear, maximum_likelihood, tree
from dpicl.data.local.observed import (
    Observed,
    Reported,
    analyse,
    contrasts,
    observed_tally,
    orders,
    synthesise,
)
from dpicl.data.local.questions import (
    MOST_QUESTIONS,
    Tally,
    best_column_count,
    questionnaire,
    same_half,
    suits_agreement,
    suits_label_alone,
    tally,
)
from dpicl.ground.errors import DataError, ParameterError
from dpicl.ground.randomness import stream
from dpicl.ground.types import MADE_ROWS, LocalReports, PrivateCodes
from dpicl.mechanisms.randomised_response import Response, randomise, response
from dpicl.mechanisms.unary_encoding import Unary
from tests.library.examples import seeded

SIZES = (2, 3, 2, 4, 2)
SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def population(count: int, sizes: tuple[int, ...] = SIZES, seed: int = 0) -> np.ndarray:
    """Rows whose columns lean towards the label: shape (count, columns)."""
    rng = np.random.default_rng(seed)
    label = rng.random(count) < 0.3
    columns = [
        np.where(rng.random(count) < 0.6, label * (size - 1), rng.integers(size, size=count))
        for size in sizes[:-1]
    ]
    return np.stack([*columns, label], axis=1).astype(np.uint8)


def shares_of(rows: np.ndarray, sizes: tuple[int, ...] = SIZES) -> np.ndarray:
    cells = np.ravel_multi_index(tuple(rows.T.astype(int)), sizes)
    return np.bincount(cells, minlength=math.prod(sizes)).reshape(sizes) / len(rows)


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """Total variation."""
    return float(np.abs(one - other).sum() / 2)


def asked(
    rows: np.ndarray,
    design: str,
    epsilon: float,
    sizes: tuple[int, ...] = SIZES,
    columns: int | None = None,
    seed: int = 1,
) -> Tally:
    questions = questionnaire(sizes, design, epsilon, columns=columns)  # type: ignore[arg-type]
    chance, secret = (stream(seed, name, "", "") for name in "qs")
    return tally(PrivateCodes(rows), questions, chance=chance, secret=secret)


def reported(rows: np.ndarray, epsilon: float, sizes: tuple[int, ...] = SIZES) -> Reported:
    laws = tuple(response(epsilon=epsilon / len(sizes), categories=size) for size in sizes)
    reports = [randomise(rows[:, i], law, stream(i, "r", "", "")) for i, law in enumerate(laws)]
    return Reported(LocalReports(np.stack(reports, axis=1)), laws)


def seen_by(
    design: str, rows: np.ndarray, epsilon: float, sizes: tuple[int, ...] = SIZES
) -> Observed:
    if design == "all-columns":
        return reported(rows, epsilon, sizes).on(range(5))
    return observed_tally(asked(rows, design, epsilon, sizes))


@given(SHAPES, st.integers(0, 2**32 - 1))
def test_moments_say_the_same_as_shares(sizes: list[int], seed: int) -> None:
    shares = np.random.default_rng(seed).dirichlet(np.ones(math.prod(sizes))).reshape(sizes)
    moments = analyse(shares)
    assert np.allclose(synthesise(moments) / shares.size, shares, atol=1e-12)
    assert moments.flat[0] == pytest.approx(1)
    assert orders(sizes).max() == sum(size > 1 for size in sizes)
    dense = reduce(np.kron, [contrasts(size) for size in sizes])
    assert np.allclose(dense.T @ shares.reshape(-1), moments.reshape(-1), atol=1e-12)


def test_the_contrast_of_two_categories_is_their_parity() -> None:
    assert np.sort(contrasts(2), axis=0) == pytest.approx(np.array([[1, -1], [1, 1]]))


@pytest.mark.parametrize(
    ("design", "asks"), [("one-column", 5), ("pairs", 4), ("subset", 6), ("agreement", 8)]
)
def test_every_question_costs_no_more_than_epsilon(design: str, asks: int) -> None:
    made = questionnaire(SIZES, design, 2.0, columns=2 if design == "subset" else None)
    costs = [question.law.epsilon for question in made.questions]
    assert len(costs) == asks and 1.99 < made.guarantee.epsilon == max(costs) <= 2
    lasts = {question.columns[-1] for question in made.questions}
    assert design == "one-column" or lasts == {len(SIZES) - 1}


@pytest.mark.parametrize("design", ["pairs", "subset", "agreement"])
def test_about_one_client_in_eight_is_asked_for_the_label_alone_with_all_of_epsilon(
    design: str,
) -> None:
    sizes = (*SIZES[:-1], 3)
    plain, more = (
        questionnaire(sizes, design, 1.0, label_alone=alone)  # type: ignore[arg-type]
        for alone in (False, True)
    )
    count = len(plain.questions)
    assert more.questions[:count] == plain.questions
    added = more.questions[count:]
    assert {question.columns for question in added} == {(len(SIZES) - 1,)}
    assert 1 / 8 <= len(added) / len(more.questions) <= (count / 7 + 1) / len(more.questions)
    assert {question.law for question in added} == {response(epsilon=1.0, categories=3)}
    assert 0.99 < more.guarantee.epsilon <= 1
    without = questionnaire((*SIZES[:-1], 1), design, 1.0, label_alone=True)  # type: ignore[arg-type]
    assert all(len(question.columns) > 1 for question in without.questions)


@pytest.mark.parametrize("label_alone", [False, True])
@pytest.mark.parametrize("design", ["pairs", "agreement"])
def test_the_label_is_as_noisy_as_it_says(design: str, label_alone: bool) -> None:
    """By log-linear models of 60 collections; a prior takes a little of the noise."""
    sizes, clients = (9, 2), 3000
    rows = population(clients, sizes)
    questions = questionnaire(sizes, design, 1.0, label_alone=label_alone)  # type: ignore[arg-type]
    found = []
    for seed in range(60):
        chance, secret = (stream(seed, name, "", "") for name in "qs")
        told = tally(PrivateCodes(rows), questions, chance=chance, secret=secret)
        found.append(float(log_linear(observed_tally(told))[:, 1].sum()))
    expected = questions.label_deviation(clients)
    assert 0.5 * expected < np.std(found) < 1.3 * expected


def test_the_label_is_asked_for_alone_where_the_other_answers_say_little_of_it() -> None:
    for design in ("pairs", "agreement"):
        suited = [
            suits_label_alone(questionnaire((10, 4, 2), design, epsilon), epsilon)  # type: ignore[arg-type]
            for epsilon in (0.1, 0.5, 1.0, 5.0, 8.0, 600.0)
        ]
        assert suited == [True, True, True, False, False, False]
        least = questionnaire((10, 4, 2), design, 1.0).label_deviation(1000)  # type: ignore[arg-type]
        more = questionnaire((10, 4, 2), design, 1.0, label_alone=True)  # type: ignore[arg-type]
        assert more.label_deviation(1000) < least * 0.8
    assert not suits_label_alone(questionnaire((10, 4, 1), "pairs", 1.0), 1.0)
    assert questionnaire((10, 4, 1), "pairs", 1.0).label_deviation(0) == math.inf


def test_more_columns_are_asked_for_together_the_less_privacy_costs() -> None:
    counts = [best_column_count((2,) * 13, one) for one in (0.1, 1, 5, 10, 50, math.inf)]
    assert counts == [1, 1, 4, 10, 12, 12]


def test_an_answer_over_many_cells_is_unary_encoded_and_over_few_is_not() -> None:
    assert isinstance(questionnaire((30, 2), "pairs", 1.0).questions[0].law, Unary)
    assert isinstance(questionnaire((30, 2), "pairs", 5.0).questions[0].law, Response)


def test_of_very_many_subsets_some_are_asked_for_always_the_same() -> None:
    sizes = (2,) * 41
    one = questionnaire(sizes, "subset", 5.0)
    questionnaire.cache_clear()
    pairs = (combinations(question.columns[:-1], 2) for question in one.questions)
    together = Counter(chain.from_iterable(pairs))
    assert one == questionnaire(sizes, "subset", 5.0) and len(one.questions) < MOST_QUESTIONS
    assert len(together) == 780 and 15 < np.mean(list(together.values())) < 17


def test_tallies_of_two_parts_add_up_to_that_of_both() -> None:
    rows = population(900)
    parts = [asked(part, "subset", 3.0) for part in (rows[:400], rows[400:])]
    both = parts[0] + parts[1]
    assert both.clients == 900 and (both.stored == parts[0].stored + parts[1].stored).all()
    assert Tally.read(both.stored, both.questionnaire).stored.tolist() == both.stored.tolist()
    with pytest.raises(DataError, match="tally: expected"):
        Tally.read(both.stored[1:], both.questionnaire)


def test_without_noise_a_tally_counts_the_truth() -> None:
    rows = population(300)
    found = asked(rows, "subset", math.inf)
    (counts,) = found.counts
    assert (counts.reshape(SIZES) / 300 == shares_of(rows)).all()


@settings(max_examples=10)
@given(st.sampled_from(["all-columns", "pairs", "subset", "agreement"]), st.integers(0, 100))
def test_the_gradient_of_the_likelihood_is_its_slope(design: str, seed: int) -> None:
    seen, rng = seen_by(design, population(200, seed=seed), 4.0), np.random.default_rng(seed)
    moments = analyse(rng.dirichlet(np.ones(96)).reshape(SIZES)).reshape(-1)
    value, slope = seen.likelihood(moments)
    step = 1e-6 * rng.normal(size=moments.shape)
    more, less = (seen.likelihood(moments + by)[0] for by in (step, -step))
    assert more - less == pytest.approx(2 * step @ slope, rel=1e-3, abs=1e-9) and value < 0


@pytest.mark.parametrize("design", ["all-columns", "subset", "pairs", "agreement"])
def test_bonds_that_reports_cannot_tell_from_noise_are_not_believed(design: str) -> None:
    """On columns without any bond a few clients at a small epsilon must not make one up."""
    sizes = (2,) * 5
    rows = np.random.default_rng(3).integers(2, size=(400, 5)).astype(np.uint8)
    found = log_linear(seen_by(design, rows, 1.0, sizes))
    bonds = analyse(found)[orders(sizes) == 2]
    assert np.abs(bonds).max() < 0.35


def test_few_unary_reports_of_each_question_add_up_without_bias() -> None:
    """Each alone says next to nothing, and some say less than nothing; cut at zero one by one, they
    would lose a third.
    """
    sizes, clients = (4,) * 12 + (2,), 3_000
    rows = np.zeros((clients, 13), dtype=np.uint8)
    found = observed_tally(asked(rows, "subset", 2.0, sizes, columns=2))
    assert len(found.reports) == 66 and all(np.isfinite(one.counts).all() for one in found.reports)
    part = found.on((0, 12))
    (one,) = [one for one in part.reports if one.columns == (0, 1)]
    kept, cells = one.attenuation[1, 1], one.counts / one.counts.sum()
    assert cells[0, 0] - 1 / 8 == pytest.approx(kept * (1 - 1 / 8), rel=0.25)
    assert log_linear(part)[0, 0] > 0.5


def independent_given_the_label(shares: np.ndarray, most: float) -> None:
    """Two columns."""
    first, second = shares.sum(axis=1, keepdims=True), shares.sum(axis=0, keepdims=True)
    assert np.allclose(shares * shares.sum(axis=(0, 1)), first * second, atol=most)


def test_columns_that_no_question_has_together_get_no_bond() -> None:
    rows = population(50_000, (2, 2, 2))
    shares = log_linear(observed_tally(asked(rows, "pairs", 5.0, (2, 2, 2))))
    independent_given_the_label(shares, 1e-9)


def test_what_is_said_about_some_columns_is_what_all_say_about_them() -> None:
    rows = population(20_000)
    for seen in (observed_tally(asked(rows, "subset", 8.0)), reported(rows, 30.0)):
        found = maximum_likelihood(seen.on((3, 4)))
        assert found.shape == (4, 2)
        assert distance(found, shares_of(rows).sum(axis=(0, 1, 2))) < 0.03


@pytest.mark.parametrize("design", ["all-columns", "subset"])
def test_a_tree_finds_pairs_with_the_label_and_their_bonds(design: str) -> None:
    rows = population(40_000)
    rows[:, 2] = rows[:, 0]
    made = tree(reported(rows, 30.0) if design == "all-columns" else seen_by(design, rows, 25.0))
    drawn = made.rows(40_000, np.random.default_rng(0))
    assert made.parents[2] == 0
    assert (drawn[:, 0] == drawn[:, 2]).mean() > 0.95
    for column in range(4):
        pairs = [
            np.histogram2d(table[:, column], table[:, 4], bins=(SIZES[column], 2))[0] / len(table)
            for table in (rows, drawn)
        ]
        assert distance(*pairs) < 0.04


@pytest.mark.exhaustive
def test_a_tree_takes_columns_of_which_no_table_of_cells_could_be_made() -> None:
    sizes = (2,) * 40
    rows = population(3_000, sizes)
    seen = asked(rows, "pairs", 5.0, sizes)
    made = estimated_rows(seen, "tree", seeded())
    assert made.codes.shape == (MADE_ROWS, 40) and made.codes.dtype == np.uint8
    agree = [(made.codes[:, column] == made.codes[:, -1]).mean() for column in range(39)]
    assert min(agree) > 0.6
    with pytest.raises(ParameterError, match="expected tree for this table"):
        estimated_rows(seen, "log-linear", seeded())


@given(st.tuples(st.integers(1, 6), st.integers(1, 6)), st.floats(0.01, 20))
def test_an_agreement_is_one_bit_under_the_whole_budget_and_as_many_cells_agree_as_do_not(
    shape: tuple[int, int], epsilon: float
) -> None:
    asked_for = questionnaire(shape, "agreement", epsilon).questions
    bits = [question for question in asked_for if question.agreement]
    assert len(bits) == (min(shape) > 1 and any(size % 2 == 0 for size in shape))
    for question in bits:
        clients = np.argwhere(np.ones(shape, dtype=bool)).astype(np.uint8)
        halves = (clients >= np.array(shape) // 2).T
        assert (question.cells_of(clients) == (halves[0] == halves[1])).all()
        assert question.cells_of(clients).mean() == 0.5 and question.cells == 2
        odds = question.law.truth_probability / question.law.lie_probability
        assert math.log(odds) <= epsilon * (1 + 1e-12)


@pytest.mark.quick("sizes1")
@pytest.mark.parametrize("sizes", [(2, 2), (4, 2), (3, 2), (2, 5)])
def test_agreement_halves_the_noise_of_a_bond(sizes: tuple[int, int]) -> None:
    """At a small epsilon, against all of the clients naming a cell, and without bias."""
    rng, errors = np.random.default_rng(0), dict[str, list[float]](pairs=[], agreement=[])
    label = rng.integers(sizes[1], size=4_000)
    column = np.where(
        rng.random(4_000) < 0.3, label * sizes[0] // sizes[1], rng.integers(sizes[0], size=4_000)
    )
    rows = np.stack([column, label], axis=1).astype(np.uint8)
    sign = np.where(same_half(sizes), 1, -1)
    truth = float((shares_of(rows, sizes) * sign).sum())
    for design, found in errors.items():
        for seed in range(60):
            seen = asked(rows, design, 0.7, sizes, seed=seed)
            found.append(float((maximum_likelihood(observed_tally(seen)) * sign).sum()) - truth)
    spread = {design: float(np.std(found)) for design, found in errors.items()}
    assert spread["agreement"] < 0.9 * spread["pairs"]
    assert abs(np.mean(errors["agreement"])) < 4 * spread["agreement"] / 60**0.5


def test_agreement_says_nothing_of_one_column_alone() -> None:
    seen = observed_tally(asked(population(500), "agreement", 1.0))
    for columns, agreements in (((0, 4), 1), ((0,), 0), ((4,), 0), ((0, 1), 0)):
        assert sum(one.agreement for one in seen.on(columns).reports) == agreements


def test_one_bit_is_asked_for_where_it_tells_more() -> None:
    wide, few = (2,) * 21, (2,) * 5
    suited = [suits_agreement(wide, epsilon) for epsilon in (0.1, 1, 2, 3, 10, math.inf)]
    assert suited == [True] * 3 + [False] * 3
    for sizes in ((*few, 1), (*few, 7), (30,) * 5 + (2,)):
        assert not suits_agreement(sizes, 1.0)


def test_questions_are_about_some_columns_only() -> None:
    for design in ("one-column", "pairs", "subset", "agreement"):
        made = questionnaire(SIZES, design, 2.0, about=(1, 3)).questions
        assert {column for one in made for column in one.columns} == {1, 3, 4}
    many = questionnaire((2,) * 42, "subset", 5.0, about=tuple(range(1, 41))).questions
    assert {column for one in many for column in one.columns} == {*range(1, 42)}
    assert len(many) < MOST_QUESTIONS


def test_of_no_client_any_row_is_as_likely() -> None:
    seen = asked(population(0), "pairs", 1.0)
    rows = estimated_rows(seen, "log-linear", seeded(), 9_000).codes
    assert rows.shape == (9_000, len(SIZES)) and rows.dtype == np.uint8
    for column, size in zip(rows.T, SIZES, strict=True):
        assert np.abs(np.bincount(column, minlength=size) / 9_000 - 1 / size).max() < 0.03


def test_a_tree_leaves_columns_of_too_many_cells_independent_given_the_label() -> None:
    sizes, rng = (60, 60, 2), np.random.default_rng(0)
    column, label = rng.integers(60, size=20_000), rng.integers(2, size=20_000)
    rows = np.stack([column, column, label], axis=1).astype(np.uint8)
    shares = tree(observed_tally(asked(rows, "subset", 30.0, sizes, columns=2))).shares[1]
    independent_given_the_label(shares, 1e-8)  # though they are equal in every row
    assert distance(shares.sum(axis=1), shares_of(rows[:, 1:], (60, 2))) < 0.15
