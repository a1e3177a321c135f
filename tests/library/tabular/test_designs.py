"""Collection designs: who is asked what at which cost, counts that add up, and estimators that find
the population again.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import reduce
from itertools import combinations

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
    places,
    synthesise,
)
from dpicl.data.local.questions import (
    MOST_QUESTIONS,
    Tally,
    best_column_count,
    questionnaire,
    same_half,
    suits_agreement,
    tally,
)
from dpicl.ground.errors import DataError, ParameterError
from dpicl.ground.randomness import stream
from dpicl.ground.types import MADE_ROWS, LocalReports, PrivateCodes
from dpicl.mechanisms.randomised_response import Response, randomise, response
from dpicl.mechanisms.unary_encoding import Unary

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
) -> Tally:
    questions = questionnaire(sizes, design, epsilon, columns=columns)  # type: ignore[arg-type]
    return tally(
        PrivateCodes(rows), questions, chance=stream(1, "q", "", ""), secret=stream(1, "s", "", "")
    )


@given(SHAPES, st.integers(0, 2**32 - 1))
def test_moments_say_the_same_as_shares(sizes: list[int], seed: int) -> None:
    shares = np.random.default_rng(seed).dirichlet(np.ones(math.prod(sizes))).reshape(sizes)
    moments = analyse(shares)
    assert np.allclose(synthesise(moments) / shares.size, shares, atol=1e-12)
    assert moments.reshape(-1)[0] == pytest.approx(1) and orders(sizes).max() == sum(
        size > 1 for size in sizes
    )
    dense = reduce(np.kron, [contrasts(size) for size in sizes])
    assert np.allclose(dense.T @ shares.reshape(-1), moments.reshape(-1), atol=1e-12)


def test_the_contrast_of_two_categories_is_their_parity() -> None:
    assert np.allclose(contrasts(2), [[1, -1], [1, 1]]) or np.allclose(
        contrasts(2), [[1, 1], [1, -1]]
    )


@given(st.permutations(range(len(SIZES))), st.integers(1, 3))
def test_a_marginal_is_a_choice_of_moments(order: list[int], count: int) -> None:
    columns, shares = sorted(order[:count]), shares_of(population(500))
    others = tuple(axis for axis in range(len(SIZES)) if axis not in columns)
    chosen = (
        analyse(shares)
        .reshape(-1)[places(columns, SIZES)]
        .reshape([SIZES[column] for column in columns])
    )
    assert np.allclose(synthesise(chosen) / chosen.size, shares.sum(axis=others))


@pytest.mark.parametrize(
    ("design", "asks"), [("one-column", 5), ("pairs", 4), ("subset", 6), ("agreement", 8)]
)
def test_every_question_costs_no_more_than_epsilon(design: str, asks: int) -> None:
    made = questionnaire(SIZES, design, 2.0, columns=2 if design == "subset" else None)  # type: ignore[arg-type]
    assert len(made.questions) == asks and all(
        question.law.epsilon <= 2.0 for question in made.questions
    )
    assert made.guarantee.epsilon == max(question.law.epsilon for question in made.questions) > 1.99
    assert design == "one-column" or all(
        question.columns[-1] == len(SIZES) - 1 for question in made.questions
    )


def test_more_columns_are_asked_for_together_the_less_privacy_costs() -> None:
    sizes = (2,) * 13
    assert [best_column_count(sizes, epsilon) for epsilon in (0.1, 1, 5, 10, 50, math.inf)] == [
        1,
        1,
        4,
        10,
        12,
        12,
    ]


def test_an_answer_over_many_cells_is_unary_encoded_and_over_few_is_not() -> None:
    assert isinstance(questionnaire((30, 2), "pairs", 1.0).questions[0].law, Unary)
    assert isinstance(questionnaire((30, 2), "pairs", 5.0).questions[0].law, Response)


def test_of_very_many_subsets_some_are_asked_for_always_the_same() -> None:
    sizes = (2,) * 41
    one = questionnaire(sizes, "subset", 5.0)
    questionnaire.cache_clear()
    together = Counter(
        pair for question in one.questions for pair in combinations(question.columns[:-1], 2)
    )
    assert one == questionnaire(sizes, "subset", 5.0) and len(one.questions) < MOST_QUESTIONS
    assert len(together) == 780 and 15 < np.mean(list(together.values())) < 17


def test_a_question_with_too_many_cells_is_refused() -> None:
    with pytest.raises(ParameterError, match="expected at most 8192: fewer columns"):
        questionnaire((2,) * 20, "subset", 5.0, columns=15)


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
    assert (
        len(found.counts) == 1 and (found.counts[0].reshape(SIZES) / 300 == shares_of(rows)).all()
    )


@settings(max_examples=10)
@given(st.sampled_from(["all-columns", "pairs", "subset", "agreement"]), st.integers(0, 100))
def test_the_gradient_of_the_likelihood_is_its_slope(design: str, seed: int) -> None:
    rows = population(200, seed=seed)
    seen = (
        reported(rows, 4.0).on(range(5))
        if design == "all-columns"
        else observed_tally(asked(rows, design, 4.0))
    )
    moments = analyse(np.random.default_rng(seed).dirichlet(np.ones(96)).reshape(SIZES)).reshape(-1)
    value, slope = seen.likelihood(moments)
    step = 1e-6 * np.random.default_rng(seed + 1).normal(size=moments.shape)
    assert seen.likelihood(moments + step)[0] - seen.likelihood(moments - step)[0] == pytest.approx(
        2 * step @ slope, rel=1e-3, abs=1e-9
    )
    assert value < 0


def reported(rows: np.ndarray, epsilon: float) -> Reported:
    laws = tuple(response(epsilon=epsilon / len(SIZES), categories=size) for size in SIZES)
    reports = [randomise(rows[:, i], law, stream(i, "r", "", "")) for i, law in enumerate(laws)]
    return Reported(LocalReports(np.stack(reports, axis=1)), laws)


def seen_by(design: str, rows: np.ndarray, epsilon: float) -> Observed:
    return (
        reported(rows, epsilon).on(range(5))
        if design == "all-columns"
        else observed_tally(asked(rows, design, epsilon))
    )


@pytest.mark.parametrize("estimate", [log_linear, maximum_likelihood])
@pytest.mark.parametrize("design", ["all-columns", "subset"])
def test_with_many_clients_and_little_noise_the_population_is_found(
    design: str, estimate: object
) -> None:
    rows = population(40_000)
    found = estimate(seen_by(design, rows, 25.0))  # type: ignore[operator]
    assert found.shape == SIZES and found.sum() == pytest.approx(1) and found.min() >= 0
    assert distance(found, shares_of(rows)) < 0.03


@pytest.mark.parametrize("design", ["all-columns", "subset", "pairs", "agreement"])
def test_bonds_that_reports_cannot_tell_from_noise_are_not_believed(design: str) -> None:
    """On columns without any bond a few clients at a small epsilon must not make one up."""
    rng, sizes = np.random.default_rng(3), (2, 2, 2, 2, 2)
    rows = rng.integers(2, size=(400, 5)).astype(np.uint8)
    laws = tuple(response(epsilon=1 / 5, categories=2) for _ in sizes)
    if design == "all-columns":
        reports = [randomise(rows[:, i], law, stream(i, "r", "", "")) for i, law in enumerate(laws)]
        found = log_linear(Reported(LocalReports(np.stack(reports, axis=1)), laws).on(range(5)))
    else:
        found = log_linear(observed_tally(asked(rows, design, 1.0, sizes)))
    bonds = analyse(found)[orders(sizes) == 2]
    assert np.abs(bonds).max() < 0.35


def test_unary_reports_are_restated_without_bias() -> None:
    sizes, rng = (40, 2), np.random.default_rng(0)
    rows = np.stack(
        [rng.choice(40, p=np.arange(1, 41) / 820, size=60_000), rng.integers(2, size=60_000)],
        axis=1,
    ).astype(np.uint8)
    seen = observed_tally(asked(rows, "pairs", 2.0, sizes))
    found = maximum_likelihood(seen)
    assert (
        distance(found.sum(axis=1), np.arange(1, 41) / 820) < 0.08
        and abs(found[:, 1].sum() - 0.5) < 0.07
    )


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


def test_columns_that_no_question_has_together_get_no_bond() -> None:
    rng = np.random.default_rng(0)
    label = rng.random(50_000) < 0.3
    columns = [
        np.where(rng.random(50_000) < 0.5, label, rng.random(50_000) < 0.5) for _ in range(2)
    ]
    shares = log_linear(
        observed_tally(
            asked(np.stack([*columns, label], axis=1).astype(np.uint8), "pairs", 5.0, (2, 2, 2))
        )
    )
    of_label = shares.sum(axis=(0, 1), keepdims=True)
    assert np.allclose(
        shares * of_label,
        shares.sum(axis=1, keepdims=True) * shares.sum(axis=0, keepdims=True),
        atol=1e-9,
    )


def test_what_is_said_about_some_columns_is_what_all_say_about_them() -> None:
    rows = population(20_000)
    for seen in (observed_tally(asked(rows, "subset", 8.0)), reported(rows, 30.0)):
        part = seen.on((3, 4))
        assert (
            part.sizes == (4, 2)
            and distance(maximum_likelihood(part), shares_of(rows).sum(axis=(0, 1, 2))) < 0.03
        )


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


def test_columns_without_any_bond_keep_their_place_in_the_tree() -> None:
    rows = population(5_000, (2,) * 9)
    drawn = tree(observed_tally(asked(rows, "pairs", math.inf, (2,) * 9))).rows(
        20_000, np.random.default_rng(0)
    )
    assert np.abs(drawn.mean(axis=0) - rows.mean(axis=0)).max() < 0.05


@pytest.mark.exhaustive
def test_a_tree_takes_columns_of_which_no_table_of_cells_could_be_made() -> None:
    sizes = (2,) * 40
    rows = population(3_000, sizes)
    made = estimated_rows(asked(rows, "pairs", 5.0, sizes), "tree", stream(0, "rows", "", ""))
    assert made.codes.shape == (MADE_ROWS, 40) and made.codes.dtype == np.uint8
    agree = [(made.codes[:, column] == made.codes[:, -1]).mean() for column in range(39)]
    assert min(agree) > 0.6
    with pytest.raises(ParameterError, match="expected tree for this table"):
        estimated_rows(asked(rows, "pairs", 5.0, sizes), "log-linear", stream(0, "rows", "", ""))


@given(st.tuples(st.integers(1, 6), st.integers(1, 6)), st.floats(0.01, 20))
def test_an_agreement_is_one_bit_under_the_whole_budget_and_as_many_cells_agree_as_do_not(
    shape: tuple[int, int], epsilon: float
) -> None:
    bits = [
        question
        for question in questionnaire(shape, "agreement", epsilon).questions
        if question.agreement
    ]
    assert len(bits) == (min(shape) > 1 and any(size % 2 == 0 for size in shape))
    for question in bits:
        clients = np.argwhere(np.ones(shape, dtype=bool)).astype(np.uint8)
        halves = (clients >= np.array(shape) // 2).T
        assert (question.cells_of(clients) == (halves[0] == halves[1])).all()
        assert question.cells_of(clients).mean() == 0.5 and question.cells == 2
        law = question.law
        assert isinstance(law, Response) and math.log(
            law.truth_probability / law.lie_probability
        ) <= epsilon * (1 + 1e-12)


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
            questions = questionnaire(sizes, design, 0.7)  # type: ignore[arg-type]
            seen = tally(
                PrivateCodes(rows),
                questions,
                chance=stream(seed, "q", "", ""),
                secret=stream(seed, "s", "", ""),
            )
            found.append(float((maximum_likelihood(observed_tally(seen)) * sign).sum()) - truth)
    spread = {design: float(np.std(found)) for design, found in errors.items()}
    assert (
        spread["agreement"] < 0.9 * spread["pairs"]
        and abs(np.mean(errors["agreement"])) < 4 * spread["agreement"] / 60**0.5
    )


def test_agreement_says_nothing_of_one_column_alone() -> None:
    seen = observed_tally(asked(population(500), "agreement", 1.0))
    assert sum(one.agreement for one in seen.on((0, 4)).reports) == 1
    assert not any(
        one.agreement for columns in ((0,), (4,), (0, 1)) for one in seen.on(columns).reports
    )


def test_one_bit_is_asked_for_where_it_tells_more() -> None:
    wide = (2,) * 20 + (2,)
    assert [suits_agreement(wide, epsilon) for epsilon in (0.1, 1, 2, 3, 10, math.inf)] == [
        True
    ] * 3 + [False] * 3
    assert not any(
        suits_agreement(sizes, 1.0)
        for sizes in ((2,) * 5 + (1,), (2,) * 5 + (7,), (30,) * 5 + (2,))
    )


def test_questions_are_about_some_columns_only() -> None:
    for design in ("one-column", "pairs", "subset", "agreement"):
        asked_for = {
            column
            for one in questionnaire(SIZES, design, 2.0, about=(1, 3)).questions
            for column in one.columns
        }  # type: ignore[arg-type]
        assert asked_for == {1, 3, 4}
    many = questionnaire((2,) * 42, "subset", 5.0, about=tuple(range(41))[::-1][:40][::-1])
    assert {column for one in many.questions for column in one.columns} == {*range(1, 42)} and len(
        many.questions
    ) < MOST_QUESTIONS


def test_of_no_client_any_row_is_as_likely() -> None:
    rows = estimated_rows(
        asked(population(0), "pairs", 1.0), "log-linear", stream(0, "rows", "", ""), 9_000
    ).codes
    sizes = asked(population(0), "pairs", 1.0).questionnaire.sizes
    assert rows.shape == (9_000, len(sizes)) and rows.dtype == np.uint8
    for column, size in zip(rows.T, sizes, strict=True):
        assert np.abs(np.bincount(column, minlength=size) / 9_000 - 1 / size).max() < 0.03


def test_a_tree_leaves_columns_of_too_many_cells_independent_given_the_label() -> None:
    sizes, rng = (60, 60, 2), np.random.default_rng(0)
    column, label = rng.integers(60, size=20_000), rng.integers(2, size=20_000)
    rows = np.stack([column, column, label], axis=1).astype(np.uint8)
    shares = tree(observed_tally(asked(rows, "subset", 30.0, sizes, columns=2))).shares[1]
    of_label, first, second = (
        shares.sum(axis=(0, 1)),
        shares.sum(axis=1, keepdims=True),
        shares.sum(axis=0, keepdims=True),
    )
    assert np.allclose(shares, first * second / of_label), (
        "they are equal in every row, and 7,200 cells are more than are estimated"
    )
    assert (
        np.abs(
            first[:, 0]
            - np.stack([np.bincount(column[label == one], minlength=60) for one in (0, 1)], axis=1)
            / len(rows)
        ).sum()
        < 0.3
    )
