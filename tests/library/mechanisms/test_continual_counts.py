"""Counters of a table that grows: what a unit moves, against every pattern of participation;
windows; what is refused.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.accounting.accountant import check
from dpicl.accounting.guarantee import Neighbours
from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.ground.randomness import stream
from dpicl.mechanisms.continual_counts import BITS, ContinualCounts, Contribution, matrix, products
from tests.library.examples import seeded

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE
LARGEST = 2**40


def counters(
    periods: int,
    contribution: Contribution,
    *,
    squared_norm: int = 1,
    neighbours: Neighbours = ADD,
    bits: int = BITS,
) -> ContinualCounts:
    """Without noise."""
    return ContinualCounts(periods, squared_norm, contribution, neighbours, None, bits)


def moved(counted: ContinualCounts, deliveries: np.ndarray) -> int:
    """How far these counts, of shape (periods, cells), move all releases together: squared,
    exact.
    """
    return sum(int(one) ** 2 for one in np.concatenate(released(counted, deliveries)))


def released(counted: ContinualCounts, deliveries: np.ndarray) -> list[np.ndarray]:
    """In every period that there is a delivery of."""
    periods = range(1, len(deliveries) + 1)
    return [
        counted.release(deliveries[:period], period=period, stream=seeded()) for period in periods
    ]


def patterns(counted: ContinualCounts, rows: int) -> list[tuple[int, ...]]:
    """In which periods so many rows may come: no more than c in one."""
    most = counted.contribution.per_period
    return [
        places
        for places in combinations_with_replacement(range(counted.periods), rows)
        if max(map(places.count, places)) <= most
    ]


CONTRIBUTIONS = st.tuples(st.integers(1, 4), st.integers(1, 4)).map(
    lambda both: Contribution(max(both), min(both))
)


@given(st.integers(1, 6), CONTRIBUTIONS, st.sampled_from([0, 1, 3, BITS]))
def test_no_pattern_of_participation_moves_more_than_is_stated_and_one_nearly_does(
    periods: int, contribution: Contribution, bits: int
) -> None:
    """All patterns in one cell; reached by the earliest periods, but for the rounding of columns to
    `bits`.
    """
    counted = counters(periods, contribution, bits=bits)
    rows = min(contribution.rows, contribution.per_period * periods)
    reached = 0
    for places in patterns(counted, rows):
        deliveries = np.zeros((periods, 1), dtype=np.int64)
        np.add.at(deliveries, (list(places), 0), 1)
        reached = max(reached, moved(counted, deliveries))
    assert reached <= counted.squared_sensitivity
    slack = 1e-4 if rows <= 2 else 0.05  # of more rows the largest products are added
    assert bits < BITS or counted.squared_sensitivity <= reached * (1 + slack)


@given(st.integers(1, 5), CONTRIBUTIONS, st.integers(1, 2), st.data())
def test_cells_signs_and_fewer_rows_never_move_more(
    periods: int, contribution: Contribution, marginals: int, data: st.DataObject
) -> None:
    """A unit's rows in any cells, some of them taken back, in two marginals of three cells each;
    and another unit's in their place.
    """
    counted = counters(periods, replace(contribution, signed=1), squared_norm=marginals)
    units = []
    for _ in range(2):
        rows = data.draw(st.integers(0, min(contribution.rows, contribution.per_period * periods)))
        places = data.draw(st.sampled_from(patterns(counted, rows))) if rows else ()
        deliveries = np.zeros((periods, marginals, 3), dtype=np.int64)
        for place in places:
            sign = data.draw(st.sampled_from([-1, 1]))
            for marginal in range(marginals):
                deliveries[place, marginal, data.draw(st.integers(0, 2))] += sign
        units.append(deliveries.reshape(periods, -1))
    one, other = units
    assert moved(counted, one) <= counted.squared_sensitivity
    assert moved(counted, one - other) <= replace(counted, neighbours=REPLACE).squared_sensitivity
    kept = counters(periods, contribution, squared_norm=marginals, neighbours=REPLACE)
    assert moved(counted, abs(one) - abs(other)) <= kept.squared_sensitivity


@pytest.mark.parametrize(("rows", "most"), [(1, 1), (2, 1), (2, 2), (3, 2)])
def test_a_replaced_unit_moves_by_what_the_cells_that_have_a_sign_add_and_by_no_more(
    rows: int, most: int
) -> None:
    """All pairs of histories of three periods; a row adds -1, 0 or 1 to one cell and 1 to one of
    two others: S = 1, M = 2. 3 D are reached.
    """
    counted = counters(
        3, Contribution(rows, most, Fraction(1, 2)), squared_norm=2, neighbours=REPLACE
    )
    vectors = np.array([(sign, one, 1 - one) for sign in (-1, 0, 1) for one in (0, 1)])
    histories = [np.zeros((3, 3))]
    for count in range(1, rows + 1):
        for places in patterns(counted, count):
            for chosen in product(vectors, repeat=count):
                histories.append(np.zeros((3, 3)))
                np.add.at(histories[-1], list(places), np.array(chosen))
    moved_to = (matrix(3).astype(float) @ np.unique(histories, axis=0)).reshape(-1, 9)
    squares = np.square(moved_to).sum(axis=1)
    reached = (squares[:, np.newaxis] + squares - 2 * moved_to @ moved_to.T).max()
    stated = counted.squared_sensitivity
    assert (1 - 1e-4) * stated <= reached <= stated * (1 + 1e-12)
    unsigned = replace(counted, contribution=Contribution(rows, most))
    added = replace(counted, neighbours=ADD).squared_sensitivity
    assert unsigned.squared_sensitivity < reached and stated == 3 * added
    wider = replace(counted, squared_norm=3)
    assert wider.squared_sensitivity == 10 * (added // 2), "2 (3 + 3 / 2), rounded up"


def test_the_matrix_is_the_normalised_square_root_of_all_prefixes() -> None:
    """Columns of norm 1, entries that fall, and the same square root as powers of matrices give."""
    periods = 40
    columns = matrix(periods) / 2**BITS
    np.testing.assert_allclose(np.linalg.norm(columns, axis=0), 1, rtol=1e-4)
    assert (np.diff(columns, axis=0)[np.tril_indices(periods - 1, -1)] <= 0).all()
    assert (np.triu(columns, 1) == 0).all()
    root = columns / columns.diagonal()
    np.testing.assert_allclose(root @ root, np.tril(np.ones((periods, periods))), atol=2e-3)


def test_products_are_exact() -> None:
    """Against whole numbers of any size, at the least and the most bits."""
    for bits in (0, BITS):
        columns = matrix(50, bits).astype(object)
        gram = columns.T @ columns
        largest = [
            max(np.diagonal(gram, apart).max() for apart in range(distance, 50))
            for distance in range(50)
        ]
        assert products(50, bits) == tuple(largest)


@pytest.mark.parametrize(("periods", "most"), [(30, 1.99), (365, 2.76)])
def test_a_prefix_has_little_more_noise_than_the_best_matrix_could_give(
    periods: int, most: float
) -> None:
    """Against one release: the largest over all prefixes; within 5 % of the least that any matrix
    of real numbers reaches.
    """
    counted = replace(counters(periods, Contribution(1, 1)), variance=Fraction(10**12))
    deviations = [
        math.sqrt(counted.covariance([(1, last)])[0, 0])
        for last in range(1, periods + 1, max(1, periods // 50))
    ]
    against_one = max(deviations) * math.sqrt(counted.squared_sensitivity / 10**12)
    assert 0.95 * against_one <= best(periods) < against_one <= most


def best(periods: int) -> float:
    """A lower bound on what any factorisation reaches: the nuclear norm of prefix sums between two
    unit vectors, improved in turns.
    """
    prefixes, left, right = np.tril(np.ones((periods, periods))), np.ones(periods), np.ones(periods)
    for _ in range(12):
        left, right = left / np.linalg.norm(left), right / np.linalg.norm(right)
        u, values, v = np.linalg.svd(left[:, np.newaxis] * prefixes * right)
        left, right = np.sqrt((u**2 * values).sum(axis=1)), np.sqrt((v.T**2 * values).sum(axis=1))
    return float(values.sum())


@given(st.integers(1, 40), st.data())
def test_any_window_is_read_off_the_releases(periods: int, data: st.DataObject) -> None:
    """Without noise exactly, empty periods and negative counts included."""
    last = data.draw(st.integers(1, periods))
    first = data.draw(st.integers(1, last))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    deliveries = rng.integers(-3, 50, size=(periods, 4)) * (rng.random((periods, 1)) < 0.7)
    counted = counters(periods, Contribution(1, 1))
    read = counted.windows(iter(released(counted, deliveries[:last])), [(first, last), (1, last)])
    expected = [deliveries[first - 1 : last].sum(axis=0), deliveries[:last].sum(axis=0)]
    np.testing.assert_allclose(read, expected, atol=1e-7 * periods)


def test_a_release_is_a_function_of_the_counts_so_far_and_of_its_stream() -> None:
    counted = replace(counters(9, Contribution(2, 1)), variance=Fraction(10**9))
    history = [np.array([4, 0, 1]), np.array([0, 0, 0])]
    first, again, other = (
        counted.release(history, period=2, stream=stream(0, "test", name, ""))
        for name in ("a", "a", "b")
    )
    assert (first == again).all() and (first != other).all()


@pytest.mark.exhaustive
def test_a_count_beyond_40_bits_is_cut_off_and_never_wraps_round() -> None:
    counted = counters(2, Contribution(1, 1))
    for one, cut in ((2**62, LARGEST), (-(2**62), -LARGEST)):
        (found,) = counted.release([np.array([one])] * 2, period=2, stream=seeded())
        assert int(found) == cut * int(matrix(2)[1].sum())
    longest = counters(2048, Contribution(1, 1))
    total = longest.release([np.array([LARGEST])] * 2048, period=2048, stream=seeded())
    assert int(total[0]) == LARGEST * sum(matrix(2048)[-1].tolist()) < 2**61


def solved(
    epsilon: float,
    periods: int,
    squared_norm: int,
    contribution: Contribution,
    neighbours: Neighbours,
) -> ContinualCounts:
    """With the noise that is found for epsilon, at a delta of 1e-6."""
    return ContinualCounts.of(
        epsilon,
        delta=1e-6,
        periods=periods,
        squared_norm=squared_norm,
        contribution=contribution,
        neighbours=neighbours,
    )


@pytest.mark.quick("2.0-add-or-remove-one", "2.0-replace-one")
@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("epsilon", [0.1, 2.0, 20.0])
def test_the_noise_found_costs_what_was_asked_for_and_hardly_less(
    neighbours: Neighbours, epsilon: float
) -> None:
    counted = solved(epsilon, 30, 20, Contribution(5, 2), neighbours)
    stated = counted.guarantee(delta=1e-6, unit="person")
    check(stated)
    assert 0.99 * epsilon <= stated.epsilon <= epsilon
    assert (stated.neighbours, stated.unit, stated.delta) == (neighbours, "person", 1e-6)


def test_noise_that_would_be_priced_by_its_own_law_has_no_price() -> None:
    """That law is a maximum over fixed ways to move the sums; an adversary who waits for releases
    has others.
    """
    few = replace(counters(3, Contribution(1, 1), bits=1), variance=Fraction(9))
    assert few.squared_sensitivity <= 16
    with pytest.raises(PrivacyError, match="bits=1 have no price that holds for adaptive streams"):
        few.guarantee(delta=1e-6, unit="row")


def test_without_noise_the_cost_is_infinite() -> None:
    counted = solved(math.inf, 3, 1, Contribution(1, 1), ADD)
    assert counted.variance is None
    assert counted.guarantee(delta=1e-6, unit="row").epsilon == math.inf
    assert (counted.covariance([(1, 2), (2, 3)]) == 0).all()


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"periods": 0}, "periods"),
        ({"periods": 2049}, "periods"),
        ({"squared_norm": 0}, "squared_norm"),
        ({"bits": 17}, "bits"),
        ({"variance": Fraction(4)}, "variance"),
        ({"variance": Fraction(2**80 + 1)}, "variance"),
    ],
)
def test_impossible_counters_are_refused(changed: dict[str, int | Fraction], named: str) -> None:
    with pytest.raises(ParameterError, match=f"{named}=.*: expected"):
        replace(counters(3, Contribution(1, 1)), **changed)  # type: ignore[arg-type]


def test_a_history_that_is_no_history_is_refused() -> None:
    counted, draws = counters(2, Contribution(1, 1)), seeded()
    one = np.array([1, 2])
    for history, period, named in (
        ([], 0, "period"),
        ([one] * 3, 3, "period"),
        ([one], 2, "periods"),
        ([one] * 2, 1, "periods"),
        ([one, one[:1]], 2, "history"),
        ([one, one / 2], 2, "history"),
        ([one, one.astype(np.uint64)], 2, "history"),
    ):
        with pytest.raises(ParameterError, match=f"{named}="):
            counted.release(history, period=period, stream=draws)
    for window in ((0, 1), (2, 1), (1, 3)):
        with pytest.raises(ParameterError, match="window="):
            counted.weights(*window)
    with pytest.raises(ParameterError, match="periods="):
        counted.windows([one], [(1, 2)])
    for rows, per_period in ((1, 0), (1, 2), (0, 0)):
        with pytest.raises(ParameterError, match="contribution="):
            Contribution(rows, per_period)
    with pytest.raises(ParameterError, match="signed=3/2: expected a part"):
        Contribution(1, 1, Fraction(3, 2))
