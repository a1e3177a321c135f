"""What many Gaussian steps cost together, against dp-accounting's composition of the very steps
that a release made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from dpicl.accounting.guarantee import Neighbours
from dpicl.data.central import adaptive, spanning_tree
from dpicl.data.central.exact_counts import ExactCounts
from dpicl.ground.types import PrivateCodes
from dpicl.mechanisms.noisy_steps import GaussianTotal
from tests.library.examples import seeded
from tests.library.methods.spending import Step, gaussian_steps

DELTA, GRID = 1e-6, 2e-4
SIZES = (2, 3, 2, 4, 3, 2)
PAIRS = [(rows, neighbours) for rows in (1, 3) for neighbours in Neighbours]


def made(way: Callable[..., Any], total: GaussianTotal) -> list[Step]:
    """The steps of one release of rows whose columns lean towards each other."""
    rng = np.random.default_rng(0)
    label = rng.integers(2, size=20_000)
    columns = [
        np.where(rng.random(20_000) < 0.5, label * (size - 1), rng.integers(size, size=20_000))
        for size in SIZES[:-1]
    ]
    columns[1] = np.where(rng.random(20_000) < 0.6, columns[0], columns[1])
    exact = ExactCounts.of(
        PrivateCodes(np.stack([*columns, label], axis=1).astype(np.uint8)), SIZES, triples=True
    )
    with gaussian_steps() as steps:
        way(exact, budget=total.budget, stream=seeded(0, "oracle"))
    return steps


def losses(step: Step, moved: int) -> Any:
    """Of one step, for a unit that moves it so many times as far as one row does; of a choice those
    that tell most at this delta.
    """
    if step.variance is not None:
        return pld.from_discrete_gaussian_mechanism(
            math.sqrt(step.variance),
            sensitivity=moved * step.fine,
            value_discretization_interval=GRID,
        )
    return max(
        (two_outcomes(moved * float(step.chosen_at), share) for share in (0.3, 0.4, 0.5, 0.6, 0.7)),
        key=lambda one: one.get_epsilon_for_delta(DELTA),
    )


def two_outcomes(width: float, share: float) -> Any:
    """Log-ratios that are so far apart, the larger one this share of it."""
    high = share * width
    low = high - width
    # of the first under the second law, since both sum to 1
    rarer = -math.expm1(low) / (math.exp(high) - math.exp(low))
    second = {0: math.log(rarer), 1: math.log1p(-rarer)}
    first = {0: second[0] + high, 1: second[1] + low}
    return pld.from_two_probability_mass_functions(
        first, second, value_discretization_interval=GRID, symmetric=False
    )


@pytest.mark.quick(
    "1.0-1-add-or-remove-one-MST",
    "1.0-3-add-or-remove-one-MST",
    "1.0-1-replace-one-AIM",
    "1.0-3-replace-one-MST",
    "1.0-3-add-or-remove-one-AIM",
    "1.0-3-replace-one-AIM",
)
@pytest.mark.parametrize("way", [spanning_tree.measure, adaptive.measure], ids=["MST", "AIM"])
@pytest.mark.parametrize(("rows", "neighbours"), PAIRS)
@pytest.mark.parametrize("epsilon", [1.0, 5.0])
def test_the_steps_of_a_release_cost_no_more_than_is_charged_and_nearly_all_of_it(
    way: Callable[..., Any], rows: int, neighbours: Neighbours, epsilon: float
) -> None:
    total = GaussianTotal.of(epsilon, delta=DELTA, neighbours=neighbours, rows=rows)
    moved = rows * (2 if neighbours is Neighbours.REPLACE_ONE else 1)
    steps = made(way, total)
    assert any(step.chosen_at for step in steps)
    assert sum(step.amount for step in steps) == total.budget.amount

    def cost(made: list[Step]) -> float:
        parts = (losses(step, moved) for step in made)
        together = reduce(lambda one, other: one.compose(other), parts)
        return together.get_epsilon_for_delta(DELTA)

    charged = total.guarantee().epsilon
    assert 0.85 * charged < cost(steps) <= charged
    louder = [  # half the variance, and choices of twice their range
        replace(
            step,
            variance=step.variance and step.variance / 2,
            chosen_at=step.chosen_at and 2 * step.chosen_at,
        )
        for step in steps
    ]
    assert cost(louder) > 1.2 * charged
