"""MST-TabICL of a horizon: exact without noise, within its budget with it, whatever a unit does in
which period.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from dpicl.accounting.guarantee import Neighbours
from dpicl.data.central.exact_counts import ExactCounts
from dpicl.data.central.spanning_tree import FIRST, SECOND
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import stream
from dpicl.ground.types import PrivateCodes
from dpicl.mechanisms.continual_counts import Contribution
from dpicl.mechanisms.noisy_steps import GaussianBudget, GaussianTotal
from dpicl.methods.counted_horizon import Arrays
from dpicl.methods.mst_series import CHOSEN, COLUMNS, PAIRS, Series
from tests.library.examples import seeded
from tests.library.series_contracts import of_rows, series_contract, series_tree

SIZES = (3, 2, 2, 2)
ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE
PERIODS, STRUCTURE = 5, 2


def series(
    *,
    sigma: Fraction | None = None,
    rows: Contribution = Contribution(3, 2),  # noqa: B008
    neighbours: Neighbours = ADD,
) -> Series:  # noqa: B008 - frozen
    return Series(
        SIZES, PERIODS, rows, GaussianTotal(sigma, 1, neighbours, "person", 1e-6), STRUCTURE
    )


def counted(codes: np.ndarray) -> ExactCounts:
    return ExactCounts.of(PrivateCodes(codes.reshape(-1, len(SIZES))), SIZES)


def released(one: Series, deliveries: list[np.ndarray], seed: int = 0) -> list[Arrays]:
    """All periods, with what is kept of each as the nights keep it."""
    history: list[ExactCounts] = []
    made: list[Arrays] = []
    for period, codes in enumerate(deliveries, 1):
        chosen: Any = (
            [tuple(pair) for pair in made[STRUCTURE - 1][CHOSEN]] if period > STRUCTURE else None
        )
        history.append(one.kept(counted(codes), period, chosen))
        made.append(one.draw(history, made, stream(seed, "test", "", str(period))))
    return made


def rows(seed: int, count: int = 60) -> np.ndarray:
    """Columns 0 and 1 say the same, column 2 nothing."""
    chance = np.random.default_rng(seed)
    first = chance.integers(3, size=count)
    return np.stack([first, first > 0, chance.integers(2, size=count), first == 2], axis=1)


def test_windows_are_exact_without_noise() -> None:
    one, deliveries = series(), [rows(seed) for seed in range(PERIODS)]
    made = released(one, deliveries)
    assert (0, 1) in [tuple(pair) for pair in made[STRUCTURE - 1][CHOSEN]], (
        "the one pair that says something"
    )
    for first, last in ((1, 5), (1, 2), (1, 1), (3, 5), (4, 4), (2, 4)):
        truth = counted(np.concatenate(deliveries[first - 1 : last]))
        window = one.window(made, first, last).marginals
        pairs = [marginal for marginal in window if len(marginal.columns) == 3]
        assert bool(pairs) == (last >= STRUCTURE and (first == 1 or first > STRUCTURE)), (
            first,
            last,
        )
        for marginal in window:
            assert marginal.counts == pytest.approx(truth.tables[marginal.columns], abs=1e-6)


PLACES = st.lists(st.tuples(st.integers(1, PERIODS), st.integers(0, 23)), max_size=3)


@given(
    PLACES,
    PLACES,
    st.sampled_from([ADD, REPLACE]),
    st.sampled_from([Contribution(3, 3), Contribution(2, 1), Contribution(3, 2)]),
)
def test_a_unit_moves_what_is_counted_by_no_more_than_its_budget(
    mine: list[tuple[int, int]],
    others: list[tuple[int, int]],
    neighbours: Neighbours,
    rows: Contribution,
) -> None:
    """Movement over noise, squared, of all sums of all periods together: at most the counters' part
    of mu^2. The pairs are the same.
    """
    mine, others = (
        _within(places, rows) for places in (mine, others if neighbours is REPLACE else [])
    )
    sigma, chosen = Fraction(3), [(0, 1), (1, 2)]
    noisy = series(sigma=sigma, rows=rows, neighbours=neighbours)
    exact = series(rows=rows, neighbours=neighbours)
    base = [counted(np.zeros((50, len(SIZES)), dtype=np.int64)) for _ in range(PERIODS)]
    moved = [one + _difference(mine, others, period) for period, one in enumerate(base, 1)]
    given_pairs = {COLUMNS: np.zeros(0), CHOSEN: np.array(chosen)}

    def sums(history: list[ExactCounts], period: int) -> Arrays:
        if period != STRUCTURE:
            return exact.draw(history[:period], [given_pairs] * (period - 1), seeded())
        columns = (_flat(one, *((column, 3) for column in range(3))) for one in history[:period])
        pairs = sum(_flat(one, (0, 1, 3), (1, 2, 3)) for one in history[:STRUCTURE])
        return {
            COLUMNS: exact.counters.release(columns, period=period, stream=seeded()),
            PAIRS: exact.pairs(2).release([pairs], period=1, stream=seeded()),
        }

    total = 0.0
    for period in range(1, PERIODS + 1):
        one, other = (sums(history, period) for history in (base, moved))
        for name, counter in ((COLUMNS, noisy.counters), (PAIRS, noisy.pairs(2))):
            if name in one:
                apart = np.square((one[name] - other[name]).astype(float)).sum()
                total += float(apart / float(counter.variance or 1))
    twice = 4 if neighbours is REPLACE else 1
    assert total <= float((FIRST + SECOND) * twice / sigma**2)


def _within(places: list[tuple[int, int]], rows: Contribution) -> list[tuple[int, int]]:
    """No more than may enter."""
    kept: list[tuple[int, int]] = []
    for period, cell in places:
        if len(kept) < rows.rows and sum(other == period for other, _ in kept) < rows.per_period:
            kept.append((period, cell))
    return kept


def _difference(
    mine: list[tuple[int, int]], others: list[tuple[int, int]], period: int
) -> ExactCounts:
    def one(places: list[tuple[int, int]]) -> ExactCounts:
        cells = [np.unravel_index(cell, SIZES) for own, cell in places if own == period]
        return counted(np.array(cells, dtype=np.int64).reshape(-1, len(SIZES)))

    more, less = one(mine), one(others)
    return replace(
        more, tables={scope: table - less.tables[scope] for scope, table in more.tables.items()}
    )


def _flat(counts: ExactCounts, *scopes: tuple[int, ...]) -> np.ndarray:
    return np.concatenate([counts.tables[scope].ravel() for scope in scopes])


def test_a_choice_is_spread_by_a_units_rows_of_the_whole_horizon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is replaced moves twice as many."""
    asked: list[int] = []
    monkeypatch.setattr(
        GaussianBudget, "chosen", lambda self, scores, *, spread, stream: asked.append(spread) or 0
    )
    for neighbours in (ADD, REPLACE):
        released(
            series(sigma=Fraction(1), neighbours=neighbours), [rows(seed) for seed in range(2)]
        )
    assert asked == [6, 12]


def test_the_noise_is_what_it_is_said_to_be() -> None:
    """Of counts of no rows, in every cell of a window."""
    one, nothing = series(sigma=Fraction(1, 2)), np.zeros((0, len(SIZES)), dtype=np.int64)
    spread = np.concatenate(
        [
            marginal.counts.ravel() / marginal.scale
            for seed in range(60)
            for marginal in one.window(released(one, [nothing] * PERIODS, seed), 2, 4).marginals
        ]
    )
    assert abs(spread.mean()) < 0.15 and spread.std() == pytest.approx(1, abs=0.1)


def test_a_contract_says_how_many_rows_enter_and_when_pairs_are_chosen() -> None:
    def of(tree: Any = None, structure: int | None = None) -> Series:
        contract = series_contract(tree)
        return Series.of(contract, SIZES, epsilon=2, delta=1e-6, structure=structure)

    person = of()
    assert (person.periods, person.contribution, person.structure) == (12, Contribution(3, 1), 1)
    assert of(of_rows(), 4).contribution == Contribution(1, 1)
    year = series_tree(releases={"every": "day", "horizon": 365, "first": "2027-01-01"})
    assert of(year).structure == 30
    assert person.guarantee.epsilon == pytest.approx(2, rel=0.01)
    assert person.guarantee.unit == "person"
    with pytest.raises(ParameterError, match="one of the 12 periods of visits"):
        of(structure=13)


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_its_price_is_that_of_its_whole_budget(neighbours: Neighbours) -> None:
    """mu of all parts together, priced by the trade-off function of two normal distributions."""

    def excess(mu: float) -> float:
        return norm.cdf(mu / 2 - 2 / mu) - np.exp(2) * norm.cdf(-mu / 2 - 2 / mu) - 1e-6

    total = GaussianTotal.of(2.0, delta=1e-6, neighbours=neighbours, unit="person")
    one, mu = Series(SIZES, PERIODS, Contribution(3, 1), total, STRUCTURE), brentq(excess, 0.05, 5)
    for counter, share in ((one.counters, FIRST), (one.pairs(3), SECOND)):
        assert counter.variance is not None
        of_mu = counter.squared_sensitivity / float(counter.variance - 4) / float(share) / mu**2
        assert 0.98 <= of_mu <= 1 + 1e-3
