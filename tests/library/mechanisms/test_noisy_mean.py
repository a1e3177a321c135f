"""Noisy means: no row moves the sum by more than the stated sensitivity, and the mean stays in
bounds.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dpicl.accounting.guarantee import Neighbours
from dpicl.ground.errors import ParameterError
from dpicl.mechanisms.noisy_count import noisy_counts
from dpicl.mechanisms.noisy_mean import Grid, Origin, guarantee, mean_of, noised_means, noisy_mean
from tests.library.examples import seeded

origins = pytest.mark.parametrize("origin", ["lower", "centre"])
anything = st.one_of(
    st.floats(), st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0, 1e308, -1e308, 5e-324])
)


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    low = draw(st.one_of(st.integers(-1000, 1000).map(float), st.floats(-1e9, 1e9)))
    width = draw(st.one_of(st.integers(1, 10**6).map(float), st.floats(1e-3, 1e9)))
    step = draw(st.sampled_from([1.0, 0.1, 0.01, 0.001, 0.00001, 0.3, 7.0]))
    assume(step <= low + width - low)
    return Grid(low, low + width, step, draw(st.sampled_from(["lower", "centre"])))


def _sum(grid: Grid, values: list[float]) -> int:
    return sum(grid.units(np.array(values, dtype=np.float64)).tolist())


@given(grids(), st.lists(anything, max_size=6), anything)
def test_one_row_more_moves_the_sum_by_at_most_the_sensitivity(
    grid: Grid, rows: list[float], more: float
) -> None:
    assert abs(_sum(grid, [*rows, more]) - _sum(grid, rows)) <= grid.sensitivity


@given(grids())
def test_the_sensitivity_is_reached_so_it_is_not_wasteful(grid: Grid) -> None:
    assert max(abs(_sum(grid, [bound])) for bound in (grid.low, grid.high)) == grid.sensitivity


@given(st.integers(-1000, 1000), st.integers(1, 1000))
def test_the_centre_halves_the_sensitivity(low: int, width: int) -> None:
    lower, centre = (
        Grid(low, low + width, 1.0, origin).sensitivity for origin in ("lower", "centre")
    )  # type: ignore[arg-type]
    assert (lower, centre) == (width, math.ceil(width / 2))


@given(
    grids(),
    st.lists(anything, max_size=6),
    st.sampled_from([None, Fraction(5e-324), Fraction(1, 100), Fraction(1), Fraction(1e308)]),
)
def test_the_mean_is_a_number_within_its_bounds(
    grid: Grid, rows: list[float], epsilon: Fraction | None
) -> None:
    mean = noisy_mean(np.array(rows), grid, epsilon=epsilon, stream=seeded())
    assert grid.low <= mean <= grid.high


@given(
    grids(), st.lists(anything.filter(lambda value: not math.isnan(value)), min_size=1, max_size=6)
)
def test_without_noise_the_mean_is_that_of_clipped_values_up_to_half_a_step(
    grid: Grid, rows: list[float]
) -> None:
    mean = noisy_mean(np.array(rows), grid, epsilon=None, stream=seeded())
    exact = float(np.mean(np.clip(rows, grid.low, grid.high)))
    # Where the width is no whole number of steps the upper bound falls between two of them.
    assert abs(mean - exact) <= grid.step / 2 * (1 + 1e-6) + 1e-6 * abs(exact)


@origins
def test_missing_numbers_count_as_the_origin_and_infinities_as_the_bounds(origin: Origin) -> None:
    grid = Grid(0, 10, 1, origin)
    assert grid.units(np.array([math.nan])).tolist() == [0]
    units = grid.units(np.array([-math.inf, math.inf, -0.0])).tolist()
    assert units == [round(bound - grid.zero) for bound in (0, 10, 0)]


@origins
def test_an_empty_column_gives_the_origin(origin: Origin) -> None:
    grid = Grid(2, 12, 1, origin)
    assert noisy_mean(np.array([]), grid, epsilon=None, stream=seeded()) == grid.zero
    draws = seeded()
    means = {noisy_mean(np.array([]), grid, epsilon=Fraction(1), stream=draws) for _ in range(50)}
    assert len(means) > 3


def test_sum_and_count_spend_half_of_epsilon_each() -> None:
    grid, epsilon, draws = Grid(0, 10, 1, "lower"), Fraction(1), seeded()
    means = noised_means([500, 700], [100, 100], grid, epsilon=epsilon, stream=draws)
    again = seeded()
    totals = noisy_counts([500, 700], epsilon=epsilon / 2 / 10, stream=again)
    counts = noisy_counts([100, 100], epsilon=epsilon / 2, stream=again)
    assert means == [mean_of(*one, grid) for one in zip(totals, counts, strict=True)]


@origins
def test_sums_beyond_machine_words_do_not_wrap_round(origin: Origin) -> None:
    """A sum modulo 2^64 has no bounded sensitivity."""
    grid = Grid(0, 2**53, 1, origin)
    assert noisy_mean(np.full(10_000, 2**53), grid, epsilon=None, stream=seeded()) == 2**53


@pytest.mark.parametrize(
    ("bounds", "step", "told"),
    [((0, 1e6), 1e-15, "step=1e-15")]
    + [((0, 10), step, "step=") for step in (0, -1, 11, math.nan, math.inf)]
    + [
        (bounds, 1, "expected finite numbers with low < high")
        for bounds in ((1, 1), (2, 1), (0, math.inf), (math.nan, 1), (-math.inf, math.inf))
    ],
)
def test_a_grid_of_no_exact_whole_numbers_is_refused(
    bounds: tuple[float, float], step: float, told: str
) -> None:
    with pytest.raises(ParameterError, match=told):
        Grid(*bounds, step, "lower")


def test_a_mean_costs_its_epsilon_half_for_the_sum_half_for_the_count() -> None:
    cost = guarantee(Grid(0, 10, 1, "lower"), Fraction(1))
    assert (cost.epsilon, cost.delta, cost.neighbours) == (1, 0, Neighbours.ADD_OR_REMOVE_ONE)
    assert dict(cost.event.parameters) == {
        "epsilon": 1,
        "sum_sensitivity": 10,
        "count_sensitivity": 1,
    }
    assert guarantee(Grid(0, 10, 1, "lower"), None).epsilon == math.inf
