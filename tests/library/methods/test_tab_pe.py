"""Tab-PE: what one row moves whatever the candidates are, what every path costs, and structure of
many columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.data.central.evolution import (
    DistinctRows,
    Histogram,
    Space,
    every_row,
    evolve,
    expected_errors,
    is_small,
    label_counts,
    nearest,
    voted_rows,
)
from dpicl.ground.types import PrivateCodes
from dpicl.mechanisms import noisy_count
from tests.library.examples import seeded
from tests.library.methods.spending import spending

SMALL, LARGE = Space((2, 3, 2, 2), (0, 3, 0)), Space((9, 4, 8, 7, 3), (9, 0, 7, 0))
"""All of whose rows are candidates; and one with numbers, a number that may be missing, and
categories.
"""
SPACES = pytest.mark.parametrize("space", [SMALL, LARGE], ids=["small", "large"])


def drawn(space: Space, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(size, size=count) for size in space.sizes], axis=1)


def voters(rows: np.ndarray) -> DistinctRows:
    return DistinctRows.of(PrivateCodes(rows.astype(np.uint8)))


def public(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def evolved(rows: np.ndarray, space: Space, epsilon: float, seed: int = 0) -> list[Histogram]:
    return evolve(
        voters(rows), space, epsilon=epsilon, stream=seeded(seed, "evolve"), chance=public(seed)
    )


@given(st.integers(1, 60), st.integers(1, 90), st.integers(1, 4), st.integers(0, 999))
def test_so_many_rows_more_are_so_many_votes_more_whatever_the_candidates_are(
    count: int, candidates: int, more: int, seed: int
) -> None:
    """Candidates that hold what rows hold, equals, and labels that have no candidate; every row but
    these votes once.
    """
    rows = drawn(LARGE, count + more, seed)
    chosen = np.vstack([drawn(LARGE, candidates, seed + 1), rows[: more // 2]])
    without, with_them = (voters(some).votes(chosen, LARGE) for some in (rows[:count], rows))
    moved = with_them - without
    assert moved.min() >= 0
    assert moved.sum() == np.isin(rows[count:, -1], chosen[:, -1]).sum() <= more
    for columns in ([4], [1, 4], [*range(5)]):
        cells = voters(rows).over(columns, LARGE.sizes) - voters(rows[:count]).over(
            columns, LARGE.sizes
        )
        assert cells.min() >= 0 and cells.sum() == more


@SPACES
@given(st.integers(0, 120), st.integers(0, 999), st.sampled_from([0.3, 2.0, 40.0]))
@settings(max_examples=15)
def test_with_the_same_noisy_votes_one_row_moves_one_number_of_every_histogram_by_one(
    space: Space, count: int, seed: int, epsilon: float
) -> None:
    """Adaptively: the second table's noise is what makes its noisy votes those of the first, so
    that its candidates are the same.
    """
    rows, released = drawn(space, count + 1, seed), list[list[int]]()
    exact, again = list[Sequence[int]](), list[Sequence[int]]()
    plain = noisy_count.noisy_counts

    def first(counts: Sequence[int], **how: Any) -> list[int]:
        exact.append(list(counts))
        released.append(plain(counts, **how))
        return released[-1]

    def drawn_again(counts: Sequence[int], **how: Any) -> list[int]:
        again.append(list(counts))
        return released[len(again) - 1]

    histograms = []
    for counted, some in ((first, rows), (drawn_again, rows[1:])):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(noisy_count, "noisy_counts", counted)
            histograms.append(evolved(some, space, epsilon, seed))
    before, after = ([one.candidates.tolist() for one in some] for some in histograms)
    assert before == after
    cost = Fraction(0)
    for one, other, histogram in zip(exact, again, histograms[0], strict=True):
        moved = np.subtract(one, other)
        assert moved.min() >= 0 and moved.sum() <= 1
        cost += Fraction(int(moved.sum())) / Fraction(histogram.scale)
    assert float(cost) <= epsilon * (1 + 1e-9)


@given(st.integers(2, 60), st.integers(0, 999))
def test_what_a_row_votes_for_depends_on_no_other_row(count: int, seed: int) -> None:
    rows, candidates = drawn(LARGE, count, seed), np.unique(drawn(LARGE, 40, seed + 1), axis=0)
    together = nearest(rows, candidates, LARGE)
    alone = np.concatenate([nearest(row[np.newaxis], candidates, LARGE) for row in rows])
    assert (together == alone).all()
    places, theirs = (LARGE.places(some).astype(np.int64) for some in (rows, candidates))
    for row, chosen, place in zip(rows, together, places, strict=True):
        distances = np.where(
            candidates[:, -1] == row[-1], ((theirs - place) ** 2).sum(axis=1), 1 << 40
        )
        assert (
            chosen == -1
            if row[-1] not in candidates[:, -1]
            else distances[chosen] == distances.min()
        )


def test_bins_of_a_number_are_near_that_are_beside_each_other_and_categories_are_all_apart() -> (
    None
):
    space, ends = Space((9, 4, 2), (9, 0)), np.array([[0, 0, 0], [8, 0, 0], [4, 3, 0]])
    numbers = np.array([[bin, 0, 0] for bin in (1, 2, 3, 5, 6, 7)])
    assert nearest(numbers, ends[:2], space).tolist() == [0, 0, 0, 1, 1, 1]
    assert nearest(np.array([[3, 1, 0], [3, 2, 0]]), ends, space).tolist() == [2, 2]


def test_equals_share_the_votes_of_different_rows() -> None:
    """By the row alone: none of two candidates that are as far from all rows gets all of their
    votes.
    """
    space = Space((64, 3, 2), (64, 0))
    rows = np.array([[place, 0, 0] for place in range(64)])
    candidates = np.array([[5, 1, 0], [5, 2, 0]])
    votes = voters(rows).votes(candidates, space)
    assert votes.sum() == 64 and votes.min() > 8


@SPACES
@given(st.integers(0, 300), st.integers(0, 999), st.sampled_from([0.05, 1.0, 7.5, 300.0]))
@settings(max_examples=20)
def test_whatever_is_drawn_the_histograms_spend_exactly_epsilon(
    space: Space, count: int, seed: int, epsilon: float
) -> None:
    with spending() as (spent, _):
        histograms = evolved(drawn(space, count, seed), space, epsilon, seed)
    assert sum(spent) == Fraction(epsilon) and len(spent) == len(histograms)
    assert [one.scale for one in histograms] == [pytest.approx(float(1 / each)) for each in spent]
    assert len(histograms) == (
        2 if is_small(space, Fraction(epsilon), label_counts(histograms[:1]).sum()) else 1 + 4 + 2
    )


def test_without_noise_a_small_table_is_counted_as_it_is() -> None:
    rows = drawn(SMALL, 500, 0)
    last = evolved(rows, SMALL, math.inf)[-1]
    assert (last.candidates == every_row(SMALL.sizes)).all() and last.scale == 0
    assert sorted(np.repeat(last.candidates, last.votes, axis=0).tolist()) == sorted(rows.tolist())


def test_the_second_iteration_says_more_than_the_first() -> None:
    """Three numbers in a large space, of which no two say anything of the label: votes find them,
    and variations of the best find more.
    """
    space = Space((4,) * 10 + (2,), (4,) * 10)
    rows = drawn(space, 20_000, 0)
    rows[:, -1] = (rows[:, [1, 4, 7]] >= 2).sum(axis=1) % 2
    histograms = evolved(rows, space, 10.0)
    first, second = (
        (made[:, -1] == (made[:, [1, 4, 7]] >= 2).sum(axis=1) % 2).mean()
        for some in (histograms[:-1], histograms)
        for made in [voted_rows(some, 20_000, public())]
    )
    assert 0.6 < first < second - 0.05


def test_rows_have_labels_as_all_histograms_say_and_candidates_below_zero_are_none() -> None:
    few = Histogram((1,), np.array([[0], [1]]), np.array([90, -40]), 50.0)
    last = Histogram(
        (0, 1), np.array([[0, 0], [1, 0], [2, 0], [1, 1]]), np.array([30, -5, 10, 60]), 1.0
    )
    assert label_counts([few, last]) == pytest.approx([35.1, 59.96], abs=0.3)
    made = voted_rows([few, last], 40_000, public())
    assert made[:, -1].mean() == pytest.approx(60 / 95, abs=0.01)
    assert (made[made[:, -1] == 0, 0] == 0).mean() == pytest.approx(0.75, abs=0.01)
    assert ((made[:, 0] == 1) & (made[:, 1] == 0)).mean() < 1e-3


def test_variations_stay_among_the_codes_and_bins_move_to_the_next() -> None:
    rows = drawn(LARGE, 5000, 0)
    varied = LARGE.varied(rows, public())
    assert (varied < LARGE.sizes).all()
    assert (varied >= 0).all()
    assert (varied[:, -1] == rows[:, -1]).all()
    assert np.abs(varied[:, 0] - rows[:, 0]).max() == 1
    assert 0.1 < (varied[:, 3] != rows[:, 3]).mean() < 0.3, "one in four, to one of seven"
    assert (varied[rows[:, 2] < 7, 2] < 7).all(), "a number is not lost"


def test_errors_are_those_of_the_noise() -> None:
    rows = drawn(LARGE, 2000, 0)
    assert expected_errors(LARGE, 1.0, 2000)[0] < expected_errors(LARGE, 0.5, 2000)[0] < 1
    assert expected_errors(SMALL, math.inf, 10) == [0, 0, 0]
    noise = []
    for seed in range(20):
        last = evolved(rows, LARGE, 0.5, seed)[-1]
        exact = voters(rows).votes(last.candidates, LARGE)
        apart = np.bincount(last.candidates[:, 1], weights=last.votes - exact, minlength=4)
        noise.append(np.abs(apart).sum() / 2 / 2000)
    assert 0.5 < np.mean(noise) / expected_errors(LARGE, 0.5, 2000)[1] < 2
