"""What published sums of a series say: rows with true noise beside them, and drift that noise does
not feign.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpicl.accounting.guarantee import Neighbours
from dpicl.data.central.exact_counts import ExactCounts
from dpicl.ground.randomness import stream
from dpicl.ground.types import PrivateCodes
from dpicl.mechanisms.continual_counts import Contribution
from dpicl.mechanisms.noisy_steps import GaussianTotal
from dpicl.methods.counted_horizon import Arrays
from dpicl.methods.evaluation import rank_auc
from dpicl.methods.mst_series import Series
from dpicl.quality.series import _deviation, drifts, errors_by_period, rows_by_period

SIZES, PERIODS, ROWS = (4, 3, 2), 20, 120
NAMES = [f"day {number}" for number in range(1, PERIODS + 1)]


@pytest.fixture(autouse=True)
def no_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs are left out."""
    monkeypatch.setattr(Series, "_choice", lambda *_: iter(()))


def nights(seed: int, *, sigma: Fraction, drift: float) -> tuple[Series, list[Arrays]]:
    """Rows of which the first column's share of its first bin grows by `drift` in the second
    half.
    """
    total = GaussianTotal(sigma, 1, Neighbours.ADD_OR_REMOVE_ONE, "row", 1e-6)
    series = Series(SIZES, PERIODS, Contribution(1, 1), total, 1)
    chance = np.random.default_rng(seed)
    history: list[ExactCounts] = []
    released: list[Arrays] = []
    for period in range(1, PERIODS + 1):
        codes = chance.integers(SIZES, size=(ROWS, len(SIZES)))
        if period > PERIODS // 2:
            codes[chance.random(ROWS) < drift, 0] = 0
        counts = ExactCounts.of(PrivateCodes(codes), SIZES)
        history.append(series.kept(counts, period, None if period == 1 else []))
        released.append(series.draw(history, released, stream(seed, "test", "", str(period))))
    return series, released


@pytest.mark.quick("sigma1")
@pytest.mark.parametrize("sigma", [Fraction(1, 10), Fraction(3)])
def test_noise_alone_is_no_drift(sigma: Fraction) -> None:
    """Chances are uniform: with little noise, and with much more than rows vary by."""
    found = [
        one.chance
        for seed in range(60)
        for one in drifts(*nights(seed, sigma=sigma, drift=0.0), ["a", "b"], PERIODS // 2)
    ]
    chances = np.array([one for one in found if one is not None])
    assert len(chances) > 100
    assert (chances < 0.05).mean() < 0.14 and abs(chances.mean() - 0.5) < 0.12


def test_drift_is_found_in_its_column() -> None:
    first, second = drifts(*nights(0, sigma=Fraction(1), drift=0.3), ["a", "b"], PERIODS // 2)
    assert first.chance < 1e-6 and second.chance > 1e-3
    assert (first.column, first.degrees, second.degrees) == ("a", 7, 5)


def test_where_noise_hides_a_window_nothing_is_said() -> None:
    series, released = nights(0, sigma=Fraction(60), drift=0.0)
    assert {one.chance for one in drifts(series, released, ["a", "b"], 1)} == {None}
    assert drifts(series, released, ["a", "b"], PERIODS) == []


def test_rows_are_within_the_noise_that_stands_beside_them() -> None:
    off = []
    for seed in range(20):
        found = rows_by_period(*nights(seed, sigma=Fraction(2), drift=0.0), NAMES)
        for number, one in enumerate(found, 1):
            off += [
                (one.arrived - ROWS) / one.arrived_deviation,
                (one.total - number * ROWS) / one.total_deviation,
            ]
    assert np.std(off) == pytest.approx(1, abs=0.12) and abs(np.mean(off)) < 0.25


def test_the_expected_error_by_period_is_what_noise_does_and_falls_as_rows_come() -> None:
    """Beside counts of the same rows with a hundredth of the noise."""
    stated, measured = [], []
    for seed in range(8):
        series, released = nights(seed, sigma=Fraction(5), drift=0.0)
        fine, exact = nights(seed, sigma=Fraction(1, 20), drift=0.0)
        found = errors_by_period(series, released, NAMES, ["a", "b"], 5)
        first = found[0]  # of the same rows
        assert (first.total, first.total_worst) == (first.recent, first.recent_worst)
        assert {one.worst_column for one in found} == {"a"}, "which has more bins"
        stated.append([(one.total, one.recent, one.total_worst) for one in found])
        noisy, plain = (
            one.window(sums, 1, PERIODS).marginals[0].counts
            for one, sums in ((series, released), (fine, exact))
        )
        noise = noisy - plain
        measured.append(np.abs(noise.sum(axis=1)).sum() / 2 / (ROWS * PERIODS))
    total, recent, worst = np.mean(stated, axis=0).T
    assert (np.diff(total) < 0).all() and (recent[9:] > 1.5 * total[9:]).all(), (
        "a window has fewer rows, and more noise"
    )
    assert np.mean(measured) == pytest.approx(worst[-1], rel=0.3)


def test_the_deviation_of_an_auc_is_that_of_many_draws_of_as_few_rows() -> None:
    chance, aucs = np.random.default_rng(1), []
    answers = np.repeat([0, 1], [40, 25])
    for _ in range(400):
        odds = chance.normal(size=len(answers)) + answers
        aucs.append(rank_auc(np.stack([-odds, odds], axis=1), answers))
    stated = _deviation(float(np.mean(aucs)), answers[:, np.newaxis])
    assert stated == pytest.approx(np.std(aucs), rel=0.15)
    assert _deviation(0.8, np.array([[0], [1], [2]])) is None
