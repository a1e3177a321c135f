"""One private token: noise, price and sensitivity belong together, for every way to vote."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpicl.accounting.accountant import price
from dpicl.accounting.events import gaussian, poisson_sampled, repeated
from dpicl.accounting.guarantee import Neighbours
from dpicl.ground.errors import ParameterError
from dpicl.mechanisms.noisy_max import exponential_max, gaussian_max
from dpicl.mechanisms.private_token import UNITS, NoiseKind, TokenNoise
from tests.library.examples import seeded

KINDS: tuple[NoiseKind, ...] = ("gaussian", "exponential", "clipped-logits")
ADD = Neighbours.ADD_OR_REMOVE_ONE
SUMS = [UNITS, 3 * UNITS, 2 * UNITS]


def test_gaussian_noise_has_the_variance_that_its_price_is_for() -> None:
    """sigma times the movement: sqrt(2) S for a changed vote, S for a vote of a row's own."""
    for row_is_voter, squares in ((False, 2), (True, 1)):
        noise = TokenNoise("gaussian", Fraction(3, 2), row_is_voter)
        variance = Fraction(9, 4) * squares * UNITS**2
        for seed in range(40):
            expected = gaussian_max(SUMS, variance=variance, stream=seeded(seed))
            assert noise.select(SUMS, seeded(seed)) == expected
        assert dict(noise.event().parameters) == {
            "variance": str(variance),
            "squared_sensitivity": squares * UNITS**2,
            "neighbours": ADD.value,
        }


@pytest.mark.parametrize("kind", ["exponential", "clipped-logits"])
@pytest.mark.parametrize(("row_is_voter", "spread"), [(False, 2 * UNITS), (True, UNITS)])
def test_a_noisy_maximum_has_the_spread_that_its_price_is_for(
    kind: NoiseKind, row_is_voter: bool, spread: int
) -> None:
    third = Fraction(1, 3)
    noise = TokenNoise(kind, third, row_is_voter)
    elected = [noise.select(SUMS, seeded(seed)) for seed in range(40)]
    expected = [
        exponential_max(SUMS, epsilon=third, spread=spread, stream=seeded(seed))
        for seed in range(40)
    ]
    assert elected == expected and len(set(elected)) > 1
    assert price(noise.event(), neighbours=ADD, unit="row").epsilon == pytest.approx(1 / 3)


@pytest.mark.quick("0.51")
@pytest.mark.parametrize("sigma", [0.51, 1.36])
def test_the_price_of_whole_units_is_that_of_the_paper_s_gaussian(sigma: float) -> None:
    """Noise of multiplier sigma on a Poisson sample, a hundred times: rounding votes down to units
    costs nothing to speak of.
    """
    noise = TokenNoise("gaussian", Fraction(sigma))
    texts = (
        repeated(poisson_sampled(Fraction(20, 30_000), event), 100)
        for event in (noise.event(), gaussian(sigma=sigma))
    )
    ours, theirs = (
        price(event, neighbours=ADD, unit="row", delta=1 / 30_000).epsilon for event in texts
    )
    assert ours == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_the_largest_is_selected_and_has_no_price(kind: NoiseKind) -> None:
    noise = TokenNoise(kind, None)
    assert noise.select(np.array([1, 5, 4]), seeded(0, "")) == 1
    with pytest.raises(ParameterError, match="expected noise, where a cost is stated"):
        noise.event()


@pytest.mark.parametrize("amount", [Fraction(0), Fraction(-1)])
def test_noise_is_positive(amount: Fraction) -> None:
    with pytest.raises(ParameterError, match="expected a rational > 0, or None for no noise"):
        TokenNoise("gaussian", amount)
