"""What a horizon of counters costs: against dp-accounting, and against direct sums, for an
adversary who waits for releases too.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from dpicl.accounting.accountant import compose
from dpicl.accounting.guarantee import Neighbours
from dpicl.accounting.pld import epsilon_at
from dpicl.accounting.pure import discrete_gaussian
from dpicl.mechanisms.continual_counts import ContinualCounts, Contribution, matrix
from dpicl.methods.gdp_series import GroupSeries
from tests.library.mechanisms.test_continual_counts import solved
from tests.library.mechanisms.test_noisy_steps import delta_at as gaussian_delta
from tests.library.series_contracts import series_contract, series_tree

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE
DELTA = 1e-6


def gaussian_epsilon(counted: ContinualCounts, norm: float) -> float:
    """Of the noise of these counters, moved so far."""
    losses = pld.from_gaussian_mechanism(
        math.sqrt(counted.variance),
        sensitivity=norm,
        value_discretization_interval=1e-4,
        use_connect_dots=False,
    )
    return losses.get_epsilon_for_delta(DELTA)


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize(
    "contribution",
    [Contribution(1, 1), Contribution(3, 1), Contribution(3, 3), Contribution(7, 3, signed=1)],
)
def test_a_horizon_costs_what_dp_accounting_says_of_one_gaussian(
    contribution: Contribution, neighbours: Neighbours
) -> None:
    """Moved by the releases of the worst pattern, which are added up here column by column in real
    numbers; privacy buckets, not our grid.
    """
    counted = solved(2.0, 60, 5, contribution, neighbours)
    full, rest = divmod(contribution.rows, contribution.per_period)
    rows = [contribution.per_period] * full + [rest] * bool(rest)
    columns = matrix(60).astype(float)
    norm = np.linalg.norm(columns[:, : len(rows)] @ rows) * math.sqrt(5)
    norm *= {ADD: 1, REPLACE: 2 if contribution.signed else math.sqrt(2)}[neighbours]
    oracle = gaussian_epsilon(counted, norm)
    stated = counted.guarantee(delta=DELTA, unit="person").epsilon
    assert oracle * (1 - 1e-3) <= stated <= oracle * (1 + 2e-3)


@pytest.mark.parametrize("neighbours", Neighbours)
def test_a_horizon_of_averages_costs_what_dp_accounting_says_of_one_gaussian(
    neighbours: Neighbours,
) -> None:
    """Moved by three rows at the ends of all bounds, added up here in real numbers; sums of numbers
    count twice where another's have the other sign.
    """
    content = series_tree(groups={2: ["label"]})
    content["privacy"] |= {"neighbours": neighbours.value}
    content["columns"] |= {"paid": {"type": "real", "bounds": [-5, 500]}}
    horizon = GroupSeries.of(series_contract(content), 2, origin="centre", epsilon=2.0, delta=DELTA)
    cells = horizon.vectors.cells[0]
    parts = [
        1.0 if part.grid is None else part.grid.total(np.array([500.0])) / cells.weight
        for part in cells.parts
    ]
    row = np.array([cells.count_weight, *(cells.weight * one for one in parts)], dtype=float)
    assert len(row) == 5, "a count, two numbers, and one cell of two categories each"
    squares = {ADD: row @ row, REPLACE: 2 * row @ row + 2 * row[1:3] @ row[1:3]}[neighbours]
    norm = np.linalg.norm(matrix(12, 12)[:, :3].astype(float).sum(axis=1)) * math.sqrt(squares)
    oracle = gaussian_epsilon(horizon.counters, norm)
    assert oracle * (1 - 2e-3) <= horizon.guarantee.epsilon <= oracle * (1 + 5e-3)


def test_an_adversary_who_chooses_periods_by_what_was_released_learns_no_more() -> None:
    """Two rows in three periods, one in each. The first comes at once; the second in period 2 or 3,
    by what period 1 released. All outcomes of discrete noise are summed: strategies tell more or
    less, and none more than to come early whatever was released.
    """
    counted = ContinualCounts(3, 1, Contribution(2, 1), ADD, None, bits=2)
    variance = Fraction(counted.squared_sensitivity) + 4
    counted = replace(counted, variance=variance)
    epsilon, delta = 1.0, gaussian_delta(1.0, 1.0)
    assert counted.guarantee(delta=delta, unit="person").epsilon == pytest.approx(epsilon, rel=1e-2)
    columns = matrix(3, 2)
    early, late = columns[:, 0] + columns[:, 1], columns[:, 0] + columns[:, 2]
    told = [
        adaptive_delta(float(variance), early, late, threshold, epsilon)
        for threshold in (-100, -5, 0, 5, 10, 100)
    ]
    assert told == sorted(told, reverse=True) and told[-1] < 0.6 * told[0] <= 0.6 * delta
    mu = float(np.linalg.norm(early) / math.sqrt(variance))
    assert told[0] == pytest.approx(gaussian_delta(epsilon, mu), rel=1e-3)


def adaptive_delta(
    variance: float, early: np.ndarray, late: np.ndarray, threshold: int, epsilon: float
) -> float:
    """Hockey-stick divergence of three releases, with a unit whose second row comes in period 2 if
    the first release is above the threshold.
    """
    reach = math.ceil(8 * math.sqrt(variance))
    values = np.arange(-reach, reach + 1)

    def shifted(by: int) -> np.ndarray:
        moved = np.exp(-((values - by) ** 2) / (2 * variance))
        return np.asarray(moved / moved.sum())

    law = shifted(0)
    total, without = 0.0, np.multiply.outer(law, law)
    for chosen, where in ((early, values > threshold), (late, values <= threshold)):
        first = shifted(int(chosen[0]))[where]
        rest = np.multiply.outer(shifted(int(chosen[1])), shifted(int(chosen[2])))
        total += sum(
            float(np.maximum(one * rest - math.exp(epsilon) * other * without, 0).sum())
            for one, other in zip(first, law[where], strict=True)
        )
    return total


def test_a_horizon_composes_with_other_releases_as_its_gaussian() -> None:
    counted = solved(1.0, 30, 4, Contribution(2, 1), ADD)
    one = counted.guarantee(delta=DELTA, unit="person")
    twice = discrete_gaussian(
        variance=counted.variance,
        squared_sensitivity=2 * counted.squared_sensitivity,
        neighbours=ADD,
    )
    assert compose([one, one], delta=DELTA).epsilon == pytest.approx(
        epsilon_at(frozenset({(twice, 1)}), ADD, DELTA)[0], rel=2e-3
    )
