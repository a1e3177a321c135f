"""GDP-TabICL of a horizon: exact without noise, within its budget with it, whatever a unit's rows
are, in which group and period.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.contract import Contract
from dpicl.contract.pipeline import Unit
from dpicl.data.central import aggregate
from dpicl.data.central.aggregate import assign, partition
from dpicl.data.central.group_vectors import BITS
from dpicl.data.reading.parse import typed_table
from dpicl.data.reading.split import Entered
from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.ground.randomness import stream
from dpicl.ground.types import PrivateTable
from dpicl.mechanisms.noisy_mean import Origin
from dpicl.methods import METHODS, grid, tabular
from dpicl.methods.counted_horizon import Arrays
from dpicl.methods.gdp_series import GroupSeries
from dpicl.quality.gate import doubtful
from dpicl.quality.series import drifts
from dpicl.quality.worth import ReleasePoint
from dpicl.release.horizon import entering_counts
from lab.in_memory import averages
from tests.direct import point
from tests.library import units
from tests.library.examples import seeded
from tests.library.series_contracts import NAME, series_contract, series_tree, visit
from tests.library.units import unit_for

METHOD = METHODS["gdp_tabicl"]
KEY = bytes(range(32))
PERIODS = 5
COLUMNS = {
    "age": {"type": "integer", "bounds": [18, 90], "bins": [30, 60]},
    "paid": {"type": "real", "bounds": [-5, 500], "nullable": True},
    "city": {"type": "category", "categories": ["a", "b", "c"]},
    "sex": {"type": "category", "categories": ["m", "f"]},
    "buys": {"type": "category", "categories": ["no", "yes"]},
}
GROUPS = {
    2: ["label"],
    4: ["label", {"column": "age", "cuts": [40]}],
    6: [{"column": "city", "parts": [["a"], ["b"], ["c"]]}, "label"],
}


def tree(
    *,
    rows: int = 3,
    nightly: int = 2,
    neighbours: str = "add-or-remove-one",
    back: bool = True,
    **more: Any,
) -> dict[str, Any]:
    """Numbers, one of them with missing values, and categories; a column that a group's key says;
    with `back` rows that take others back.
    """
    content = series_tree(
        columns=COLUMNS,
        groups=GROUPS,
        releases={"every": "day", "horizon": PERIODS, "first": "2026-03-01"},
        **more,
    )
    content["source"] |= {"missing": "?"} | ({"sign": "sign"} if back else {})
    content["privacy"] |= {"neighbours": neighbours}
    content["privacy"]["person"] |= {"max_rows": nightly, "max_rows_in_horizon": rows}
    return content


def series(
    contract: Contract, shots: int = 2, *, origin: Origin = "centre", sigma: Fraction | None = None
) -> GroupSeries:
    made = GroupSeries.of(contract, shots, origin=origin, epsilon=math.inf, delta=1e-6)
    return replace(made, total=replace(made.total, sigma=sigma))


def row(
    who: str,
    day: int,
    *,
    age: int = 40,
    paid: str = "100",
    city: str = "a",
    sex: str = "m",
    buys: str = "no",
    sign: int = 1,
) -> Any:
    return {**visit(who, day, age=age, city=city, sex=sex, buys=buys), "paid": paid, "sign": sign}


def table(contract: Contract, rows: list[Any]) -> PrivateTable:
    columns = {name: pa.array([str(one[name]) for one in rows], pa.string()) for name in row("", 1)}
    return PrivateTable(typed_table(pa.table(columns), contract, "rows"))


def vectors(one: GroupSeries, rows: list[Any]) -> list[np.ndarray]:
    """By period, of those that enter."""
    counted, entered = [], Entered.nobody()
    for period in range(1, PERIODS + 1):
        day = visit("", period)["day"]
        here = table(one.vectors.contract, [each for each in rows if each["day"] == day])
        counts, new = entering_counts(one, here, one.vectors.contract, entered, key=KEY)
        entered = Entered.together([entered, new])
        counted.append(counts)
    return counted


def moved(one: GroupSeries, mine: list[np.ndarray], its: list[np.ndarray]) -> int:
    """How far all sums of all periods move: squared, exact."""
    exact = replace(one.counters, variance=None)
    deliveries = [a - b for a, b in zip(mine, its, strict=True)]
    return sum(
        int(cell) ** 2
        for period in range(1, PERIODS + 1)
        for cell in exact.release(deliveries[:period], period=period, stream=seeded())
    )


def drawn(
    one: GroupSeries, history: list[np.ndarray], seed: int = 0, name: str = ""
) -> list[Arrays]:
    """What is released of every period."""
    released = list[Arrays]()
    for period in range(1, PERIODS + 1):
        noise = stream(seed, "test", name, str(period))
        released.append(one.draw(history[:period], released, noise))
    return released


def crowd(count: int, of: Callable[[int, int], dict[str, Any]]) -> list[Any]:
    """Rows of so many persons who come every day."""
    return [
        row(f"p{who}", day, **of(who, day)) for day in range(1, PERIODS + 1) for who in range(count)
    ]


DAYS = st.integers(1, PERIODS)
PAID = st.sampled_from(["-5", "500", "247.5", "0", "?", "-100", "1e9"])
"""At the bounds and beyond them, in the middle, and missing."""
ROWS = st.lists(
    st.builds(
        row,
        st.just("me"),
        DAYS,
        age=st.sampled_from([18, 39, 40, 54, 90]),
        paid=PAID,
        city=st.sampled_from("abc"),
        sex=st.sampled_from("mf"),
        buys=st.sampled_from(["no", "yes"]),
        sign=st.sampled_from([1, 1, -1]),
    ),
    max_size=8,
)
SHOTS, ORIGINS = st.sampled_from([1, 2, 4, 6]), st.sampled_from(["centre", "lower"])
OTHERS = [
    row(
        f"p{who}",
        1 + who % PERIODS,
        age=20 + 9 * who,
        city="abc"[who % 3],
        buys=("no", "yes")[who % 2],
    )
    for who in range(6)
]


@given(ROWS, ROWS, SHOTS, ORIGINS, st.integers(1, 4), st.integers(1, 3), st.booleans())
@settings(max_examples=settings.default.max_examples // 5)
def test_no_rows_of_a_person_move_all_sums_by_more_than_is_priced(
    mine: list[Any], its: list[Any], shots: int, origin: Origin, rows: int, nightly: int, back: bool
) -> None:
    rows, nightly = max(rows, nightly), max(2, min(rows, nightly))
    most = {"rows": max(rows, nightly), "nightly": nightly}
    added = series(series_contract(tree(back=back, **most)), shots, origin=origin)
    counted = [vectors(added, [*OTHERS, *person]) for person in (mine, its, [])]
    assert moved(added, counted[0], counted[2]) <= added.counters.squared_sensitivity
    tree_of_pairs = tree(neighbours="replace-one", back=back, **most)
    replaced = series(series_contract(tree_of_pairs), shots, origin=origin)
    times = 4 if back else 2 * (1 + added.vectors.signed)
    assert replaced.counters.squared_sensitivity == times * added.counters.squared_sensitivity
    assert moved(replaced, counted[0], counted[1]) <= replaced.counters.squared_sensitivity


@pytest.mark.parametrize("neighbours", ["add-or-remove-one", "replace-one"])
@pytest.mark.parametrize("shots", [1, 2, 4, 6])
def test_a_person_at_the_bounds_reaches_all_that_is_priced(shots: int, neighbours: str) -> None:
    """In the earliest periods, with all numbers at an end; and what takes such rows back, in their
    place.
    """
    one = series(series_contract(tree(rows=3, nightly=2, neighbours=neighbours)), shots)
    mine = [row("me", day, age=90, paid="500", buys="yes") for day in (1, 1, 2)]
    its = [{**each, "sign": -1} for each in mine] if neighbours == "replace-one" else []
    reached = moved(one, vectors(one, mine), vectors(one, its))
    assert 0.99 * one.counters.squared_sensitivity < reached <= one.counters.squared_sensitivity
    assert 0.99 * 4**BITS < one.vectors.squared_norm <= 4**BITS


def test_a_replaced_person_moves_more_where_sums_are_measured_from_the_middle() -> None:
    """Rows come in both histories, at either end of the bounds: a price for counts alone, twice the
    square, would not cover it.
    """
    content = series_tree(
        groups={2: ["label"]}, releases={"every": "day", "horizon": PERIODS, "first": "2026-03-01"}
    )
    content["columns"] = {
        f"n{number}": {"type": "real", "bounds": [0, 1]} for number in range(8)
    } | {"buys": COLUMNS["buys"]}
    content["privacy"] |= {"neighbours": "replace-one"}
    priced, reached, sums = {}, {}, Fraction(0)
    for origin in ("centre", "lower"):
        one = series(series_contract(content), 2, origin=origin)  # type: ignore[arg-type]
        cells = one.vectors.cells[0]
        high, low = np.zeros((2, one.vectors.size), dtype=np.int64)
        high[cells.count] = low[cells.count] = cells.count_weight
        for part in cells.parts:
            assert part.grid is not None
            high[part.cells.start], low[part.cells.start] = (
                part.grid.total(np.array([end])) for end in (1.0, 0.0)
            )
        nothing, sums = [np.zeros_like(high)] * (PERIODS - 3), max(sums, one.vectors.signed)
        priced[origin], reached[origin] = (
            one.counters.squared_sensitivity,
            moved(one, [high] * 3 + nothing, [low] * 3 + nothing),
        )
    assert priced["centre"] == (1 + sums) * priced["lower"]
    assert priced["lower"] < reached["centre"] <= priced["centre"]
    assert sums == pytest.approx(8 / (8 + (8 / 3) ** 0.5), rel=1e-3), "eight sums and a count"
    assert reached["lower"] <= priced["lower"]


@pytest.mark.parametrize("shots", [1, 2, 4, 6])
@pytest.mark.parametrize("origin", ["centre", "lower"])
def test_windows_without_noise_are_the_averages_of_their_rows(shots: int, origin: Origin) -> None:
    """As a release of the same rows by the method's own averages, but for the steps that values are
    put on.
    """
    contract, chance = series_contract(tree(rows=PERIODS, nightly=2)), np.random.default_rng(0)
    one = series(contract, shots, origin=origin)
    rows = crowd(
        48,
        lambda who, _: {
            "age": int(chance.integers(18, 91)),
            "paid": ["?", "12.5", "490"][who % 3],
            "city": "aabc"[who % 4],
            "buys": ("no", "yes")[who % 2],
        },
    )
    released = drawn(one, vectors(one, rows))
    for first, last in ((1, PERIODS), (1, 1), (2, 4)):
        own = table(contract, [each for each in rows if first <= int(each["day"][-2:]) <= last])
        truth = averages(
            own,
            assign(own, contract, shots),
            partition(contract, shots),
            contract,
            epsilon=math.inf,
            options=aggregate.AggregateOptions("paid-columns", origin),
            stream=seeded(),
        )
        for shown, expected in zip(
            one.window(released, first, last).groups, truth.groups, strict=True
        ):
            assert (shown.key, shown.label) == (expected.key, expected.label)
            for name, value in expected.values.items():
                assert shown.values[name] == (
                    value if isinstance(value, str) else pytest.approx(value, abs=0.1)
                ), (name, first, last)
        assert one.window_rows(released, [(first, last)]).rows[0] == pytest.approx(
            own.row_count, abs=1e-3
        )


def test_the_noise_is_what_it_is_said_to_be() -> None:
    """Of the number of rows, and of means of groups with as many rows each."""
    one = series(series_contract(tree(rows=PERIODS, nightly=2)), 2, sigma=Fraction(2))
    rows = crowd(300, lambda who, _: {"age": 18 + who % 73, "buys": ("no", "yes")[who % 2]})
    history, off, means, stated = vectors(one, rows), [], [], []
    for seed in range(120):
        released = drawn(one, history, seed)
        seen = one.window_rows(released, [(2, 4)])
        off.append((seen.rows[0] - 900) / seen.deviations[0])
        stated.append(one.errors(released, [(2, 4)])[0][0])
        means.append([group.values["age"] for group in one.window(released, 2, 4).groups])
    assert abs(np.mean(off)) < 0.45 and np.std(off) == pytest.approx(1, abs=0.25)
    measured = np.abs(np.array(means) - np.mean(means, axis=0)).mean() / 72
    assert np.mean(stated) == pytest.approx(measured, rel=0.25)


@pytest.mark.parametrize("drifting", ["age", "city", "(groups)"])
def test_drift_of_a_mean_and_of_a_category_is_found_in_its_column(drifting: str) -> None:
    contract, chance = series_contract(tree(rows=PERIODS, nightly=2)), np.random.default_rng(1)
    one, names = series(contract, 2, sigma=Fraction(1)), (*contract.features, "(label)", "(groups)")

    def drifts_late(_: int, day: int) -> dict[str, Any]:
        moved = drifting if day > 3 else ""
        return {
            "age": int(chance.integers(60 if moved == "age" else 18, 91)),
            "paid": str(int(chance.integers(0, 500))),
            "city": "a" if moved == "city" else "abc"[int(chance.integers(3))],
            "sex": "mf"[int(chance.integers(2))],
            "buys": ("no", "yes")[int(chance.random() < (0.8 if moved == "(groups)" else 0.5))],
        }

    released = drawn(one, vectors(one, crowd(400, drifts_late)), 3, drifting)
    found = {each.column: each.chance for each in drifts(one, released, names, 2)}
    assert found.keys() == {*contract.features, "(groups)"}
    assert (found.pop(drifting) or 0) < 1e-4
    assert all(chance is None or chance > 1e-3 for chance in found.values())


def unit(shots: tuple[int, ...] = (2,), rates: tuple[Fraction, ...] = (), **chosen: Any) -> Unit:
    chosen = {"allocation": "shared-count", **chosen}
    return unit_for("gdp_tabicl", NAME, epsilons=(2.0,), shots=shots, rates=rates, **chosen)


def sampling(rate: str) -> Contract:
    content = tree()
    content["privacy"]["sampling_rate"] = rate
    return series_contract(content)


def test_what_no_series_has_is_refused_in_one_sentence() -> None:
    contract, sampled, every_row = series_contract(tree()), sampling("1/10"), (Fraction(1),)
    for fine in (
        (contract, unit()),
        (contract, unit(rates=every_row)),
        (sampling("1"), unit()),
        (sampled, unit(rates=every_row)),
    ):
        grid.check(METHOD, *fine)
    for declared, wrong, refused in (
        (
            contract,
            unit(allocation="paid-columns"),
            r"allocation=.?paid-columns.?: expected shared-count: visits has a horizon",
        ),
        (contract, unit(rates=(Fraction(1, 2),)), "sampling_rate=.*1/2.*: expected 1: all rows"),
        (sampled, unit(), "sampling_rate=.*1/10.*: expected 1: all rows"),
        (contract, unit(shots=(3,)), "shots=3"),
    ):
        with pytest.raises(ParameterError, match=refused):
            grid.check(METHOD, declared, wrong)


def test_every_number_of_shots_is_a_horizon_at_the_whole_price() -> None:
    contract = series_contract(tree())
    costs = grid.prices(METHOD, contract, unit(shots=(1, 2, 4)))
    assert [cell.shots for cell in costs] == [1, 2, 4]
    for cell, cost in costs.items():
        asked = point(unit(), cell)
        assert cost.charged == cost.nominal and cost.charged.delta == 1e-6
        assert cost.charged.epsilon == pytest.approx(2, rel=0.01)
        named = {"delta", "sum_origin", "horizon", "first", "last", "series"}
        assert METHOD.identity(contract, asked).keys() == named
        assert "of all rows and no subsample" in METHOD.statement(contract, asked, cost)
    with pytest.raises(PrivacyError, match="no release of the whole table is charged"):
        units.drawn(unit(), contract, table(contract, OTHERS))


def test_of_next_to_no_rows_noise_is_told_though_no_epsilon_would_be_enough() -> None:
    """Gaussian noise has a largest epsilon, which the search for a better one may not trip over."""
    method = tabular("gdp_tabicl")

    def asked(epsilon: float, population: int = 1) -> list[ReleasePoint]:
        contract = series_contract(tree() | {"population": population})
        points = grid.points(method, replace(unit(), epsilons=(epsilon,))).values()
        return [ReleasePoint(contract, method, point) for point in points]

    noisy = doubtful(asked(400.0))
    assert noisy and noisy.enough == math.inf and "expected fewer columns or bins" in noisy.warning
    assert doubtful(asked(2.0, 10**6)) is None
