"""The lemmas of docs/proofs.md against brute force: each claim as the page states it, computed here
from its words, and all cases, strategies or outcomes of a small instance. Where a claim has a rule
that could be left out, the same search beats the claim without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.accounting.events import approximate
from dpicl.accounting.filters import ALIKE, MIXTURE, RESERVE, Spent
from dpicl.accounting.guarantee import Guarantee, Neighbours
from dpicl.mechanisms.continual_counts import ContinualCounts, Contribution, matrix
from dpicl.mechanisms.noisy_steps import GaussianBudget

few = settings(max_examples=60)


# Lemma A: D of continual counts.


def factor(periods: int, bits: int) -> np.ndarray:
    """Equation (1) of `continual_counts` in exact fractions, rounded to the nearest."""
    root = [Fraction(math.comb(2 * j, j), 4**j) for j in range(periods)]
    columns = np.zeros((periods, periods), dtype=object)
    for start in range(periods):
        squares = sum(entry**2 for entry in root[: periods - start])
        for row in range(start, periods):
            quadruple = 4 * 4**bits * root[row - start] ** 2 / squares
            columns[row, start] = (math.isqrt(math.floor(quadruple)) + 1) // 2
    return columns


def stated(columns: np.ndarray, rows: int, most: int, *, rest_at: int = -1) -> int:
    """D / M as lemma A states it; `rest_at` is the place of the rest, which is last."""
    periods = len(columns)
    gram = columns.T @ columns
    largest = [
        max(gram[i, j] for i in range(periods) for j in range(periods) if abs(i - j) >= apart)
        for apart in range(periods)
    ]
    full, rest = divmod(min(rows, most * periods), most)
    weights = [most] * full
    if rest:
        weights.insert(len(weights) if rest_at < 0 else rest_at, rest)
    return int(
        sum(
            one * other * largest[abs(i - j)]
            for i, one in enumerate(weights)
            for j, other in enumerate(weights)
        )
    )


def reached(columns: np.ndarray, rows: int, most: int) -> int:
    """The most that whole numbers of rows move all releases: no more than `most` in a period."""
    periods = len(columns)
    placed = np.array([w for w in product(range(most + 1), repeat=periods) if sum(w) <= rows])
    moved = placed.astype(object) @ columns.T
    return int((moved * moved).sum(axis=1).max())


LIMITS = st.tuples(st.integers(1, 7), st.integers(1, 3)).map(lambda both: (max(both), min(both)))


@few
@given(st.integers(1, 5), LIMITS, st.data())
def test_d_bounds_every_placement_of_rows_for_any_matrix_without_negative_entries(
    periods: int, limits: tuple[int, int], data: st.DataObject
) -> None:
    """The proof asks nothing else of the matrix."""
    entries = st.lists(st.integers(0, 9), min_size=periods**2, max_size=periods**2)
    columns = np.tril(np.array(data.draw(entries), dtype=object).reshape(periods, periods))
    assert reached(columns, *limits) <= stated(columns, *limits)


@pytest.mark.parametrize("bits", [2, 12, 16])
@pytest.mark.parametrize(("rows", "most"), [(1, 1), (3, 1), (3, 2), (5, 2), (7, 3)])
def test_d_is_what_counters_are_priced_at_and_nearly_reached(
    rows: int, most: int, bits: int
) -> None:
    columns = factor(5, bits)
    assert (matrix(5, bits) == columns).all()
    add = Neighbours.ADD_OR_REMOVE_ONE
    priced = ContinualCounts(5, 1, Contribution(rows, most), add, None, bits).squared_sensitivity
    assert priced == stated(columns, rows, most)
    assert (0.7 if bits == 2 else 0.9) * priced < reached(columns, rows, most) <= priced


def test_with_the_rest_between_others_d_would_be_too_small() -> None:
    """Five rows, two in a period: 2, 2 and 1, which move more than 2, 1 and 2."""
    columns = factor(3, 16)
    assert stated(columns, 5, 2, rest_at=1) < reached(columns, 5, 2) <= stated(columns, 5, 2)


# Lemma B: replaced units, and counts that are cut off.

CELLS = 3
"""Of which the first may be negative."""


def history(rows: Sequence[tuple[int, int, int]], periods: int) -> np.ndarray:
    """What these rows add: each 1 to one of two cells, and a number to the first, in a period."""
    added = np.zeros((periods, CELLS), dtype=int)
    for period, number, cell in rows:
        added[period, 0] += number
        added[period, 1 + cell] += 1
    return added


@few
@given(st.integers(2, 3), st.integers(1, 3), st.data())
def test_a_replaced_unit_moves_no_more_where_counts_are_cut_off(
    periods: int, rows: int, data: st.DataObject
) -> None:
    """S = 1, M = 2; other rows are near the cut, or beyond it, so that a part of what a unit adds
    is lost.
    """
    row = st.tuples(st.integers(0, periods - 1), st.integers(-1, 1), st.integers(0, 1))
    mine, its = (history(data.draw(st.lists(row, max_size=rows)), periods) for _ in range(2))
    others = np.array(data.draw(st.lists(st.integers(-6, 6), min_size=9, max_size=9)))
    base, cut, columns = others.reshape(3, CELLS)[:periods], 4, factor(periods, 8)
    both = [np.clip(base + unit, -cut, cut).astype(object) for unit in (mine, its)]
    apart = columns @ (both[0] - both[1])
    added = stated(columns, rows, rows)
    assert int((apart * apart).sum()) <= 2 * added * (2 + 1)


# Lemma C: a choice of bounded range, and steps of a Gaussian budget.


def normal(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))


def range_of(amount: float) -> mpmath.mpf:
    """r = 2 logit F(sqrt(b) / 2)."""
    with mpmath.workdps(40):
        place = mpmath.sqrt(mpmath.mpf(amount)) / 2
        return 2 * mpmath.log(mpmath.ncdf(place) / mpmath.ncdf(-place))


def curve(epsilon: float, mu: float) -> float:
    """Hockey-stick divergence of N(mu, 1) and N(0, 1) at any real epsilon."""
    if mu == 0:
        return max(0.0, -math.expm1(epsilon))
    return normal(mu / 2 - epsilon / mu) - math.exp(epsilon) * normal(-mu / 2 - epsilon / mu)


def test_the_slope_of_a_normal_quantile_by_the_logit_falls_from_one_half_on() -> None:
    """The signs of k, k' and k'' on which the proof rests, in 30 digits."""
    with mpmath.workdps(30):
        changes = 0
        before = None
        for z in (mpmath.mpf(i) / 50 for i in range(1, 600)):
            f, above, below = mpmath.npdf(z), mpmath.ncdf(z), mpmath.ncdf(-z)
            assert f * (above - below) - z * above * below > 0
            rises = 2 * f**2 > above * below
            changes += before is not None and rises != before
            before = rises
        assert changes == 1 and not before


@few
@given(st.floats(1e-6, 2000.0))
def test_the_range_of_a_choice_is_that_of_the_lemma_rounded_down(amount: float) -> None:
    exact, used = range_of(amount), GaussianBudget(Fraction(amount)).range
    assert used is not None
    share = mpmath.mpf(used.numerator) / used.denominator / exact
    assert 1 - 3e-7 < share <= 1


@given(
    st.floats(0.01, 9.0),
    st.lists(st.tuples(st.floats(0, 1), st.floats(1e-6, 1)), min_size=2, max_size=7),
)
def test_trade_offs_of_any_choice_of_that_range_lie_above_the_gaussian_one(
    amount: float, outcomes: list[tuple[float, float]]
) -> None:
    """At the corners, between which the one is straight and the other convex. Outcomes have a
    log-ratio in a window of the range, which any law of Q with E_Q[P / Q] = 1 may have.
    """
    width = float(range_of(amount))
    ratios = np.exp(np.array([place * width for place, _ in outcomes]))
    other = np.array([weight for _, weight in outcomes])
    other = other / other.sum()
    # scaled so that P sums to 1; the width of the window is the same
    ratios = ratios / (other @ ratios)
    order = np.argsort(-ratios)
    power, size = np.cumsum((other * ratios)[order]), np.cumsum(other[order])
    with mpmath.workdps(30):
        for alpha, beta in zip(size[:-1], 1 - power[:-1], strict=True):
            quantile = math.sqrt(2) * mpmath.erfinv(1 - 2 * mpmath.mpf(alpha))
            assert beta >= mpmath.ncdf(quantile - mpmath.sqrt(amount)) - mpmath.mpf("1e-12")


SHARE = st.floats(0.02, 0.98)


@given(
    st.floats(0.05, 6.0),
    st.floats(-1.0, 3.0),
    SHARE,
    st.lists(st.tuples(SHARE, SHARE, st.booleans()), min_size=7, max_size=7),
)
def test_steps_whose_parts_depend_on_earlier_answers_cost_one_gaussian(
    whole: float, epsilon: float, first: float, plan: list[tuple[float, float, bool]]
) -> None:
    """Two or three choices, and a count by what is left: how large the next part is, which of two
    outcomes is the likelier, and whether there is a third choice follow from those before. All
    outcomes are added up.
    """

    def divergence(left: float, at: float, node: int, depth: int) -> float:
        """At the factor e^at, of what follows."""
        share, lean, stops = plan[node]
        if depth == 2 or (stops and depth == 1):
            return curve(at, math.sqrt(left))
        part = left * (first if depth == 0 else share)
        width = float(range_of(part))
        high = width * (0.5 if stops else lean)
        chance = -math.expm1(high - width) / -math.expm1(-width)
        return sum(
            probability * divergence(left - part, at - ratio, 2 * node + 1 + branch, depth + 1)
            for branch, (probability, ratio) in enumerate(
                ((chance, high), (1 - chance, high - width))
            )
        )

    assert divergence(whole, epsilon, 0, 0) <= curve(epsilon, math.sqrt(whole)) + 1e-12


# Lemmas D and E: the filter of an account.

Counts = tuple[int, ...]
Kind = tuple[int, float]
"""Randomised response of so many units, outside an event of this probability."""
MOST = 40


def needed(
    unit: float, kinds: Sequence[Kind], epsilon: float, accepts: Callable[[Counts], bool]
) -> float:
    """The largest E max(0, 1 - e^(epsilon - L)) of an adversary who sees every outcome and makes
    what is accepted: exact, as losses are whole multiples of the unit; 1 at once in an event.
    """
    reach = MOST * sum(multiple for multiple, _ in kinds)
    losses = np.arange(-reach, reach + 1) * unit
    stop = np.where(losses > epsilon + 1e-9, -np.expm1(np.minimum(epsilon - losses, 0)), 0.0)

    @cache
    def value(counts: Counts) -> np.ndarray:
        largest = stop
        for place, (multiple, chance) in enumerate(kinds):
            after = tuple(count + (place == other) for other, count in enumerate(counts))
            if max(after) > MOST or not accepts(after):
                continue
            following, truth = value(after), 1 / (1 + math.exp(-multiple * unit))
            padded = np.pad(following, multiple, mode="edge")
            up, down = padded[2 * multiple :], padded[: len(following)]
            largest = np.maximum(largest, chance + (1 - chance) * (truth * up + (1 - truth) * down))
        return largest

    return float(value((0,) * len(kinds))[reach])


def mixture(
    unit: float,
    kinds: Sequence[Kind],
    epsilon: float,
    weights: dict[float, float],
    tail: Callable[[float], float],
) -> Callable[[Counts], bool]:
    """Equation (2) for every loss above epsilon there can be, with these weights by a - 1, and a
    tail that may depend on the deltas of the entries.
    """
    losses = np.arange(math.floor(epsilon / unit + 1e-9) + 1, 3000) * unit
    left = -np.expm1(epsilon - losses)

    def accepts(counts: Counts) -> bool:
        right = np.zeros_like(losses)
        for power, weight in weights.items():
            spent = sum(
                count
                * math.log((math.exp((power + 1) * e) + math.exp(-power * e)) / (1 + math.exp(e)))
                for count, e in zip(counts, (multiple * unit for multiple, _ in kinds), strict=True)
            )
            right += weight * np.exp(np.minimum(power * losses - spent, 500))
        deltas = sum(count * chance for count, (_, chance) in zip(counts, kinds, strict=True))
        return bool((left <= tail(deltas) * right).all())

    return accepts


def fixed(tail: float, reserve: float) -> Callable[[float], float]:
    return lambda deltas: tail if deltas <= reserve * (1 + 1e-9) else 0.0


FILTERS = [
    (0.1, (1, 4), 1.0, {4.0: 1.0}),
    (0.1, (1, 4), 1.0, {2.0: 0.5, 6.0: 0.5}),
    (0.1, (2, 3), 0.3, {8.0: 1.0}),
    (0.2, (1, 3), 1.0, {3.0: 0.4, 8.0: 0.6}),
]


@pytest.mark.parametrize(("unit", "multiples", "epsilon", "weights"), FILTERS)
def test_the_best_adversary_gets_no_more_than_the_tail_and_the_reserve(
    unit: float, multiples: tuple[int, int], epsilon: float, weights: dict[float, float]
) -> None:
    """Also with entries that are nothing but an event. Where the tail had what the deltas leave of
    the whole, the same adversary would get more than the whole.
    """
    delta = 0.05
    kinds = [*((multiple, 0.0) for multiple in multiples), (0, delta / 8)]

    def most(tail: Callable[[float], float]) -> float:
        return needed(unit, kinds, epsilon, mixture(unit, kinds, epsilon, weights, tail))

    assert 0.25 * delta < most(fixed(0.75 * delta, 0.25 * delta)) <= delta
    assert most(lambda deltas: max(delta - deltas, 0.0)) > 1.1 * delta


def test_deltas_that_no_reserve_pays_for_are_seen() -> None:
    unit, multiples, epsilon, weights = FILTERS[0]
    kinds, delta = [*((multiple, 0.005) for multiple in multiples)], 0.05
    accepts = mixture(unit, kinds, epsilon, weights, lambda deltas: delta)
    assert needed(unit, kinds, epsilon, accepts) > 1.5 * delta


@pytest.mark.parametrize(
    ("unit", "kinds", "epsilon", "delta"),
    [
        (0.25, [(1, 0.05 / 32), (4, 0.0)], 2.0, 0.05),
        (0.25, [(1, 0.0), (2, 0.1 / 24), (0, 0.1 / 16)], 1.0, 0.1),
    ],
)
def test_an_account_pays_for_deltas_of_its_entries(
    unit: float, kinds: list[Kind], epsilon: float, delta: float
) -> None:
    """The same adversary against the filter of an account with this cap, by all of its rules."""
    entries = [
        Guarantee(1.0, delta, Neighbours.REPLACE_ONE, "row", approximate(unit * multiple, chance))
        for multiple, chance in kinds
    ]

    @cache
    def spent(counts: Counts) -> Spent:
        place = next((place for place, count in enumerate(counts) if count), None)
        if place is None:
            return Spent.nothing()
        before = tuple(count - (place == other) for other, count in enumerate(counts))
        return spent(before).plus(entries[place])

    def accepts(counts: Counts) -> bool:
        return spent(counts).cost(delta).epsilon <= epsilon

    assert 0.2 * delta < needed(unit, kinds, epsilon, cache(accepts)) <= delta


@pytest.mark.parametrize(
    ("unit", "multiples", "epsilon", "delta", "power"),
    [
        (0.05, (3, 11), 1.5, 0.01, 8.0),
        (0.1, (2, 7), 2.0, 0.01, 6.0),
        (0.2, (1, 7), 1.5, 0.1, 4.0),
    ],
)
def test_a_second_rule_for_equal_entries_needs_a_share_of_delta_of_its_own(
    unit: float, multiples: tuple[int, int], epsilon: float, delta: float, power: float
) -> None:
    """Either rule may accept: so many equal entries, by their exact distribution, or any entries by
    the mixture. At shares of delta the best adversary stays within their sum; with all of delta for
    both, no.
    """
    kinds = [(multiple, 0.0) for multiple in multiples]

    def equal(share: float) -> Callable[[Counts], bool]:
        def alone(counts: Counts) -> bool:
            return counts[1] == 0 and counts[0] <= most

        most = max(
            count
            for count in range(MOST)
            if needed(unit, kinds, epsilon, lambda c: c[1] == 0 and c[0] <= count) <= share  # noqa: B023
        )
        return alone

    def either(alike: float, tail: float) -> float:
        one = equal(alike)
        other = mixture(unit, kinds, epsilon, {power: 1.0}, fixed(tail, 0.0))
        return needed(unit, kinds, epsilon, lambda counts: one(counts) or other(counts))

    for alike in (0.25, 0.5, 0.75):
        assert either(alike * delta, (1 - alike) * delta) <= delta
    assert either(delta, delta) > 1.1 * delta
    assert ALIKE + MIXTURE + RESERVE <= 1


# Lemma F: the threshold filter, where a record is replaced.


@pytest.mark.parametrize(("queries", "most"), [(3, 1), (5, 2), (6, 3)])
def test_a_replaced_record_moves_all_answers_by_what_so_many_uses_of_both_do(
    queries: int, most: int
) -> None:
    """Squared movements in units of s, of all sets of queries that each of the two takes part in:
    1 of one alone, 4 of both at once.
    """
    uses = [
        set(chosen) for count in range(most + 1) for chosen in combinations(range(queries), count)
    ]
    moved = [len(mine ^ its) + 4 * len(mine & its) for mine in uses for its in uses]
    assert max(moved) == 4 * most


# Lemma G: a continuous Gaussian bounds the discrete one.


@pytest.mark.parametrize(("scale", "variance"), [(0.35, 0.2), (0.5, 0.35), (0.7, 0.6)])
def test_discrete_noise_differs_from_smoothed_noise_by_no_more_than_its_factor(
    scale: float, variance: float
) -> None:
    """At scales at which h can be seen; at 2 it is below 2e-34. Integrals in 20 digits."""
    with mpmath.workdps(20):
        h = 2 * mpmath.fsum(mpmath.exp(-2 * (mpmath.pi * scale * k) ** 2) for k in range(1, 9))
        spread = mpmath.mpf(variance) - mpmath.mpf(scale) ** 2

        def around(place: mpmath.mpf, width: mpmath.mpf, y: int) -> mpmath.mpf:
            return mpmath.exp(-((y - place) ** 2) / (2 * width))

        def smoothed(y: int) -> mpmath.mpf:
            def at(x: mpmath.mpf) -> mpmath.mpf:
                low = int(mpmath.floor(x))
                whole = mpmath.fsum(around(x, scale**2, z) for z in range(low - 6, low + 8))
                density = around(x, spread, 0) / mpmath.sqrt(2 * mpmath.pi * spread)
                return density * around(x, scale**2, y) / whole

            middle = y * spread / variance
            return mpmath.quad(at, [middle - 5, middle - 1, middle, middle + 1, middle + 5])

        total = mpmath.fsum(around(mpmath.mpf(0), variance, z) for z in range(-30, 31))
        ratios = [around(mpmath.mpf(0), variance, y) / total / smoothed(y) for y in range(3)]
        assert (1 - h) / (1 + h) <= min(ratios) and max(ratios) <= 1 + h
        assert max(abs(ratio - 1) for ratio in ratios) > h / 5, "else the factor says nothing"
