"""MST-TabICL of a horizon: exact without noise, within its budget with it, whatever a unit does in
which period.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.accounting.guarantee import Neighbours
from dpicl.data.central.exact_counts import ExactCounts
from dpicl.data.central.graphical_model import NoisyMarginal
from dpicl.data.central.spanning_tree import FIRST, SECOND
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import stream
from dpicl.ground.types import PrivateCodes
from dpicl.mechanisms.continual_counts import Contribution
from dpicl.mechanisms.noisy_steps import GaussianTotal
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


def released(one: Series, deliveries: list[np.ndarray]) -> list[Arrays]:
    """All periods, with what is kept of each as the nights keep it."""
    history: list[ExactCounts] = []
    made: list[Arrays] = []
    for period, codes in enumerate(deliveries, 1):
        chosen = (
            [tuple(pair) for pair in made[STRUCTURE - 1][CHOSEN]] if period > STRUCTURE else None
        )
        history.append(one.kept(counted(codes), period, chosen))  # type: ignore[arg-type]
        made.append(one.draw(history, made, stream(0, "test", "", str(period))))
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
        window = one.window(made, first, last)
        pairs = [marginal for marginal in window if len(marginal.columns) == 3]
        assert bool(pairs) == (last >= STRUCTURE and (first == 1 or first > STRUCTURE)), (
            first,
            last,
        )
        for marginal in window:
            assert marginal.counts == pytest.approx(truth.tables[marginal.columns], abs=1e-6)


@given(
    st.lists(st.tuples(st.integers(1, PERIODS), st.integers(0, 23)), max_size=3),
    st.lists(st.tuples(st.integers(1, PERIODS), st.integers(0, 23)), max_size=3),
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
    sigma = Fraction(3)
    noisy, exact = (
        series(sigma=sigma, rows=rows, neighbours=neighbours),
        series(rows=rows, neighbours=neighbours),
    )
    moved = [_difference(mine, others, period) for period in range(1, PERIODS + 1)]
    base = [counted(np.zeros((50, len(SIZES)), dtype=np.int64)) for _ in range(PERIODS)]
    chosen = [(0, 1), (1, 2)]
    total = 0.0
    for period in range(1, PERIODS + 1):
        sums = []
        for histories in (base, [one + other for one, other in zip(base, moved, strict=True)]):
            given_pairs = {COLUMNS: np.zeros(0), CHOSEN: np.array(chosen)}
            before = [given_pairs] * (period - 1)
            if period == STRUCTURE:
                columns = exact.counters.release(
                    (_flat(one) for one in histories[:period]), period=period, stream=_stream()
                )
                pairs = exact.pairs(2).release(
                    [_pairs(histories[0]) + _pairs(histories[1])], period=1, stream=_stream()
                )
                sums.append({COLUMNS: columns, PAIRS: pairs})
            else:
                sums.append(exact.draw(histories[:period], before, _stream()))
        for name, variance in (
            (COLUMNS, noisy.counters.variance),
            (PAIRS, noisy.pairs(2).variance),
        ):
            if name in sums[0]:
                total += float(
                    np.square((sums[0][name] - sums[1][name]).astype(float)).sum()
                    / float(variance or 1)
                )
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


def _flat(counts: ExactCounts) -> np.ndarray:
    return np.concatenate([counts.tables[column, 3].ravel() for column in range(3)])


def _pairs(counts: ExactCounts) -> np.ndarray:
    return np.concatenate([counts.tables[0, 1, 3].ravel(), counts.tables[1, 2, 3].ravel()])


def _stream() -> object:
    return seeded()


def test_a_choice_is_spread_by_a_units_rows_of_the_whole_horizon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is replaced moves twice as many."""
    from dpicl.mechanisms.noisy_steps import GaussianBudget

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
    one = series(sigma=Fraction(1, 2))
    windows = [
        np.concatenate(
            [
                marginal.counts.ravel() / marginal.scale
                for marginal in one.window(_empty(one, seed), 2, 4)
            ]
        )
        for seed in range(60)
    ]
    spread = np.concatenate(windows)
    assert abs(spread.mean()) < 0.15 and spread.std() == pytest.approx(1, abs=0.1)


def _empty(one: Series, seed: int) -> list[Arrays]:
    nothing, made = counted(np.zeros((0, len(SIZES)), dtype=np.int64)), list[Arrays]()
    for period in range(1, PERIODS + 1):
        made.append(one.draw([nothing] * period, made, stream(seed, "test", "", str(period))))
    return made


def test_a_contract_says_how_many_rows_enter_and_when_pairs_are_chosen() -> None:
    person = Series.of(series_contract(), SIZES, epsilon=2, delta=1e-6, structure=None)
    assert (person.periods, person.contribution, person.structure) == (12, Contribution(3, 1), 1)
    assert Series.of(
        series_contract(of_rows()), SIZES, epsilon=2, delta=1e-6, structure=4
    ).contribution == Contribution(1, 1)
    year = series_tree(releases={"every": "day", "horizon": 365, "first": "2027-01-01"})
    assert (
        Series.of(series_contract(year), SIZES, epsilon=2, delta=1e-6, structure=None).structure
        == 30
    )
    assert (
        person.guarantee.epsilon == pytest.approx(2, rel=0.01) and person.guarantee.unit == "person"
    )
    with pytest.raises(ParameterError, match="one of the 12 periods of visits"):
        Series.of(series_contract(), SIZES, epsilon=2, delta=1e-6, structure=13)


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_its_price_is_that_of_its_whole_budget(neighbours: Neighbours) -> None:
    """mu of all parts together, priced by the trade-off function of two normal distributions."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    total = GaussianTotal.of(2.0, delta=1e-6, neighbours=neighbours, unit="person")
    one = Series(SIZES, PERIODS, Contribution(3, 1), total, STRUCTURE)
    counters = [(one.counters, FIRST), (one.pairs(3), SECOND)]
    for counter, share in counters:
        assert counter.variance is not None
        mu_squared = counter.squared_sensitivity / float(counter.variance - 4)
        assert mu_squared <= float(share) * mu_2(2.0, brentq, norm) * (1 + 1e-3)
        assert mu_squared >= float(share) * mu_2(2.0, brentq, norm) * 0.98


def mu_2(epsilon: float, brentq: object, norm: object) -> float:
    """The squared mu whose delta at epsilon is 1e-6."""

    def excess(mu: float) -> float:
        first, second = norm.cdf(mu / 2 - epsilon / mu), norm.cdf(-mu / 2 - epsilon / mu)  # type: ignore[attr-defined]
        return float(first - np.exp(epsilon) * second - 1e-6)

    return float(brentq(excess, 0.05, 5)) ** 2  # type: ignore[operator]


@given(st.integers(0, 5), st.integers(0, 23))
def test_scores_of_pairs_move_by_a_row_at_most(seed: int, cell: int) -> None:
    from dpicl.data.central.spanning_tree import pair_scores
    from dpicl.mechanisms.noisy_steps import GaussianBudget

    one = counted(rows(seed))
    more = one + counted(np.array(np.unravel_index(cell, SIZES)).reshape(1, -1))
    star = [
        NoisyMarginal((column, 3), one.tables[column, 3] - 0.4, 1.0, gaussian=True)
        for column in range(3)
    ]
    before, after = (
        pair_scores(counts, star, GaussianBudget(Fraction(1))) for counts in (one, more)
    )
    assert all(abs(before[pair] - after[pair]) <= 1 for pair in before)
