"""What all histograms of Tab-PE cost together, against dp-accounting."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from dpicl.data.central.evolution import DistinctRows, Space, evolve
from dpicl.ground.types import PrivateCodes
from dpicl.mechanisms.noisy_steps import PureBudget
from tests.library.examples import seeded

SPACES = {"every row": Space((2, 3, 2), (0, 3)), "candidates": Space((9, 4, 8, 7, 3), (9, 0, 7, 0))}


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("space", SPACES)
def test_noise_of_these_scales_costs_what_is_charged(space: str, epsilon: float) -> None:
    """One vote in each histogram, noise of the scale that the artefact states: no more than
    epsilon, and little less.
    """
    sizes, chance = SPACES[space].sizes, np.random.default_rng(0)
    rows = DistinctRows.of(PrivateCodes(chance.integers(sizes, size=(300, len(sizes)))))
    histograms = evolve(rows, SPACES[space], epsilon=epsilon, stream=seeded(), chance=chance)
    losses = [
        pld.from_discrete_laplace_mechanism(1 / one.scale, value_discretization_interval=1e-3)
        for one in histograms
    ]
    charged = PureBudget.of(epsilon).guarantee()
    assert charged.epsilon == epsilon and charged.delta == 0
    found = reduce(lambda one, other: one.compose(other), losses).get_epsilon_for_delta(0)
    assert found == pytest.approx(epsilon, abs=1e-3 * len(histograms))
    assert sum(1 / one.scale for one in histograms) <= epsilon * (1 + 1e-12)


def test_an_iteration_that_is_not_charged_would_be_seen() -> None:
    """The mutant that spends on one iteration more."""
    histograms = 2 * [pld.from_discrete_laplace_mechanism(1.0, value_discretization_interval=1e-3)]
    assert histograms[0].compose(histograms[1]).get_epsilon_for_delta(0) > 1.9
    assert PureBudget.of(math.inf).guarantee().epsilon == math.inf
