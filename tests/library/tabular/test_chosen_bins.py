"""Bins that nobody states: what one row moves, what choosing costs, what is chosen, and where
numbers lie in their bins.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.contract import Contract, parse_contract
from dpicl.contract.columns.number import NumberColumn
from dpicl.data.central import chosen_bins
from dpicl.data.central.chosen_bins import cells, chosen, share
from dpicl.data.inside import inside
from dpicl.ground.randomness import stream
from dpicl.ground.types import PrivateTable
from dpicl.mechanisms.noisy_steps import PureBudget
from dpicl.methods import METHODS, tabular
from dpicl.methods.base import draws_for
from dpicl.methods.grid import points
from tests.library.examples import tree
from tests.library.methods.spending import spending
from tests.library.units import unit_for

Make = Callable[[np.random.Generator, int], np.ndarray]
SHAPES: dict[str, tuple[tuple[float, float], Make]] = {
    "log-normal": ((0, 2000), lambda rng, n: rng.lognormal(4, 0.8, n)),
    "normal": ((18, 100), lambda rng, n: rng.normal(45, 16, n)),
    "even": ((0, 10), lambda rng, n: rng.uniform(0, 10, n)),
    "narrow in wide bounds": ((0, 1000), lambda rng, n: rng.normal(120, 15, n)),
    "falling from the upper bound": ((0, 100), lambda rng, n: 100 - rng.exponential(2, n)),
    "nearly all zero": (
        (0, 99_999),
        lambda rng, n: np.where(rng.random(n) < 0.9, 0, rng.lognormal(8, 1, n)),
    ),
    "around zero": ((-5000, 5000), lambda rng, n: 5 * rng.standard_t(3, n)),
    "mirrored": ((-2000, 0), lambda rng, n: -rng.lognormal(4, 0.8, n)),
    "humped": ((0, 80), lambda rng, n: 80 * rng.beta(2, 5, n)),
    "two humps": (
        (0, 200),
        lambda rng, n: np.where(rng.random(n) < 0.5, rng.normal(40, 5, n), rng.normal(150, 9, n)),
    ),
    "recent years": ((1900, 2100), lambda rng, n: rng.normal(2019, 3, n)),
    "tiny": ((0, 1), lambda rng, n: rng.exponential(0.01, n)),
}
every_shape = pytest.mark.parametrize("shape", SHAPES)


def contract_of(bounds: tuple[float, float], kind: str = "real", **more: Any) -> Contract:
    """One number without bins, and a label."""
    content = {
        **{key: value for key, value in tree().items() if key in ("source", "privacy", "split")},
        "version": 2,
        "name": "open",
        "columns": {
            "x": {"type": kind, "bounds": list(bounds), **more},
            "y": {"type": "category", "categories": ["no", "yes"]},
        },
        "label": "y",
    }
    contract = parse_contract(content, "open.yaml")
    assert isinstance(contract, Contract)
    return contract


def column_of(contract: Contract) -> NumberColumn:
    return contract.numbers["x"]


def table_of(values: np.ndarray, contract: Contract) -> PrivateTable:
    label = pa.DictionaryArray.from_arrays(np.zeros(len(values), np.int8), ["no", "yes"])
    return PrivateTable(pa.table({"x": np.clip(values, *column_of(contract).bounds), "y": label}))


bounds = st.tuples(
    st.integers(-10_000, 10_000), st.sampled_from([17, 100, 2000, 10**6, 2**40])
).map(lambda drawn: (drawn[0], drawn[0] + drawn[1]))


@given(bounds=bounds, kind=st.sampled_from(["real", "integer"]))
def test_grids_are_bins_that_a_contract_could_state(bounds: tuple[int, int], kind: str) -> None:
    contract = contract_of(bounds, kind)
    grids = column_of(contract).grids()
    assert len({*grids}) == len(grids) > 10
    for grid in grids:
        column = contract.with_bins({"x": grid}).numbers["x"]
        assert not list(column.check_bins("bins")) and 1 <= len(grid) <= 9
        assert np.array_equal(column.edges(), grid)


@given(
    bounds=bounds,
    kind=st.sampled_from(["real", "integer"]),
    places=st.lists(st.floats(0, 1), max_size=30),
    place=st.floats(0, 1),
)
def test_one_row_moves_scores_by_at_most_the_spread(
    bounds: tuple[int, int], kind: str, places: list[float], place: float
) -> None:
    contract = contract_of(bounds, kind)
    low, high = bounds
    column, values = column_of(contract), low + (high - low) * np.array([*places, place])
    if kind == "integer":
        values = np.floor(values)

    def scores(some: np.ndarray) -> np.ndarray:
        counts = cells(table_of(some, contract), contract, np.arange(len(some)))["x"]
        assert counts.sum() == len(some)
        return np.array(chosen_bins._scores(counts, column))

    moved = scores(values) - scores(values[:-1])
    assert moved.max() <= 0 and moved.min() >= -chosen_bins._SPREAD


@pytest.mark.parametrize("method", ["aim_tabicl", "mst_tabicl", "tab_pe"])
def test_choices_and_the_rest_add_up_to_epsilon(method: str) -> None:
    contract = contract_of((0, 2000))
    unit = unit_for(method, contract.name, epsilons=(0.75,))
    ((_, asked),) = points(METHODS[method], unit).items()
    with spending() as (spent, spreads):
        tabular(method).draw(
            table_of(np.arange(300.0), contract), contract, asked, draws_for(contract, 0)
        )
    assert spent[0] == Fraction(3, 40) == share(contract) * Fraction(3, 4)
    assert spreads[0] == chosen_bins._SPREAD
    assert Fraction(3, 4) * Fraction(999, 1000) < sum(spent) <= Fraction(3, 4)


def test_what_is_stated_is_not_chosen_and_names_nothing() -> None:
    unit = unit_for("aim_tabicl", "open", epsilons=(1.0,))
    ((_, asked),) = points(METHODS["aim_tabicl"], unit).items()
    for contract, is_open in (
        (contract_of((0, 2000)), True),
        (contract_of((0, 2000), bins=[10, 50]), False),
        (contract_of((0, 12), "integer"), False),
    ):
        assert bool(share(contract)) == bool(contract.open_numbers) == is_open
        assert ("bins" in METHODS["aim_tabicl"].identity(contract, asked)) == is_open


@every_shape
@pytest.mark.parametrize("rows", [0, 1, 2, 40])
def test_few_rows_leave_the_usual_bins(shape: str, rows: int) -> None:
    """With 0, 1 and 2 rows something is chosen all the same; of few, what noise chooses is seldom
    another grid than the usual one.
    """
    contract = contract_of(SHAPES[shape][0])
    values = SHAPES[shape][1](np.random.default_rng(0), rows)
    counts = cells(table_of(values, contract), contract, np.arange(rows))
    found = [
        chosen(counts, contract, PureBudget.of(0.03), stream(seed, "bins", "open", ""))["x"]
        for seed in range(60)
    ]
    assert sum(grid != column_of(contract).grids()[0] for grid in found) <= 10


@every_shape
def test_the_mean_of_released_numbers_is_within_a_tenth_of_a_deviation(shape: str) -> None:
    """3,000 rows, epsilon 1; and 5,000 drawn ones."""
    contract = contract_of(SHAPES[shape][0])
    method, off = tabular("aim_tabicl"), []
    for seed in range(3):
        values = np.clip(
            SHAPES[shape][1](np.random.default_rng(seed), 3000), *column_of(contract).bounds
        )
        unit = unit_for(method.name, contract.name, seed=seed, epsilons=(1.0,))
        ((_, asked),) = points(method, unit).items()
        draws = draws_for(contract, seed)
        drawn = method.draw(table_of(values, contract), contract, asked, draws)
        binned = contract.with_bins(method.chosen_bins(drawn))
        codes = method.rows(drawn, contract, asked, draws).codes
        form = method.form(binned, asked).seen(codes)
        released = form.table(codes[:5000], contract, np.random.default_rng(seed)).column("x")
        off.append(abs(np.mean(released.to_numpy()) - values.mean()) / values.std())
    assert np.mean(off) < 0.1, off


@given(
    shares=st.lists(st.integers(0, 20), min_size=1, max_size=9).filter(any),
    widths=st.lists(st.sampled_from([1e-6, 0.5, 1, 40, 1e9]), min_size=9, max_size=9),
    at=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=20),
)
def test_numbers_stay_in_their_bins_in_the_order_of_their_shares(
    shares: list[int], widths: list[float], at: list[float]
) -> None:
    edges = (0.0, *np.cumsum(widths[: len(shares)]).tolist())
    lies = inside(edges, tuple(share / sum(shares) for share in shares))
    for number in range(len(shares)):
        ways = lies.drawn(np.full(len(at), number), np.sort(at))
        assert (np.diff(ways) >= 0).all() and ways.min() >= 0 and ways.max() < 1


def test_numbers_that_are_even_stay_so() -> None:
    lies = inside((0.0, 1.0, 3.0, 10.0), (0.1, 0.2, 0.7))
    at = np.linspace(0, 1, 11)[:-1]
    for number in range(3):
        assert lies.drawn(np.full(10, number), at) == pytest.approx(at, abs=1e-6)


def test_a_wide_last_bin_holds_what_those_before_it_let_expect() -> None:
    """Exponential rows of mean 10, with a last bin from 40 to a bound of 10,000: above 40 they are
    10 more on average.
    """
    edges = (0.0, 10.0, 20.0, 40.0, 10_000.0)
    below = [-math.expm1(-edge / 10) for edge in edges]
    lies = inside(edges, tuple(np.diff(below).tolist()))
    at = (np.arange(1000) + 0.5) / 1000
    beyond = 9960 * lies.drawn(np.full(1000, 3), at)
    assert 7 < beyond.mean() < 13


@pytest.mark.parametrize(("grain", "least", "most"), [(1.0, 4, 16), (0.0, 0, 2)])
def test_a_number_that_many_rows_have_says_little_of_those_beyond_it(
    grain: float, least: float, most: float
) -> None:
    """Hours of work: half of all rows have 40, and those above 40 are 12 more on average."""
    edges, shares = (1.0, 39.0, 40.0, 41.0, 99.0), (0.22, 0.01, 0.47, 0.30)
    lies = inside(edges, shares, grain)
    beyond = 58 * lies.drawn(np.full(1000, 3), (np.arange(1000) + 0.5) / 1000)
    assert least < beyond.mean() < most
