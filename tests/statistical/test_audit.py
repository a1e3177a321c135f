"""What an attacker sees of two neighbours bounds epsilon from below: at most the stated one.

Every audit is run again on a mutant, noise times 0.8 for example, which must be caught: an
audit that catches nothing would prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpicl.contract import Contract
from dpicl.mechanisms.noisy_count import noisy_counts, noisy_mode
from dpicl.mechanisms.noisy_mean import Grid, Origin, noisy_mean
from dpicl.mechanisms.randomised_response import randomise, response
from dpicl.methods.ldp_tabicl import collect
from dpicl.pipeline import Options, Unit
from dpicl.randomness import Draws, stream
from dpicl.tabular.aggregate import AggregateOptions, aggregate
from dpicl.tabular.group import assign, partition
from dpicl.types import PrivateTable
from tests.library.examples import random_table, small_contract
from tests.statistical.sizes import CLIENTS, FEW_RUNS, RUNS, audit, epsilon_at_least

LESS_NOISE = Fraction(5, 4)
"""The epsilon whose noise is 0.8 times that of 1."""


def _response_bound(epsilon: float, categories: int) -> float:
    """Clients whose answer is 0 and whose answer is 1; the event is the report 0."""
    law, draws = response(epsilon=epsilon, categories=categories), stream(0, "audit response", f"{categories}", f"{epsilon}")
    seen = [int((randomise(np.full(CLIENTS, truth), law, draws) == 0).sum()) for truth in (0, 1)]
    return epsilon_at_least(*seen, CLIENTS)


@pytest.mark.parametrize("categories", [2, 3, 7, 200])
def test_randomised_response(categories: int) -> None:
    assert 0.9 < _response_bound(1.0, categories) <= 1
    assert _response_bound(1.0 * float(LESS_NOISE), categories) > 1


def _collection_bound(epsilon: float) -> float:
    """Whole clients who differ in every answer; the event is that all reports fit the first."""
    contract = small_contract()
    unit = Unit("ldp_tabicl", "shop", 0, (epsilon,), (1,), (), False, Options())
    rows = {"age": (10, 90), "spent": (0.0, 60.0), "colour": ("red", "blue"), "member": ("no", "no"), "bought": ("no", "yes")}
    seen = []
    for which in (0, 1):
        table = _typed(contract, {name: values[which] for name, values in rows.items()}, CLIENTS)
        codes = collect(table, contract, unit, Draws(which, "audit", simulated=True))[epsilon].reports.codes
        seen.append(int((codes == [0, 0, 0, 0]).all(axis=1).sum()))
    return epsilon_at_least(*seen, CLIENTS)


def test_all_reports_of_a_client_together() -> None:
    assert 1.7 < _collection_bound(2.0) <= 2
    assert _collection_bound(2.0 * float(LESS_NOISE)) > 2


def _count_bound(epsilon: Fraction) -> float:
    draws = stream(0, "audit count", f"{epsilon}", "")

    def run(count: int) -> Callable[[], bool]:
        return lambda: noisy_counts([count], epsilon=epsilon, stream=draws)[0] >= 1

    return audit(run(1), run(0), RUNS)


def test_noisy_count() -> None:
    assert 0.8 < _count_bound(Fraction(1)) <= 1
    assert _count_bound(LESS_NOISE) > 1


def _mode_bound(epsilon: Fraction) -> float:
    """Six empty categories against one row in the last: among so many the noisy maximum is rarely negative."""
    draws = stream(0, "audit mode", f"{epsilon}", "")

    def run(last: int) -> Callable[[], bool]:
        return lambda: noisy_mode([0, 0, 0, 0, 0, last], epsilon=epsilon, stream=draws) == 5

    return audit(run(1), run(0), RUNS)


def test_noisy_mode() -> None:
    assert 0.8 < _mode_bound(Fraction(1)) <= 1
    assert _mode_bound(LESS_NOISE) > 1


ROWS, VALUE, LARGEST = 100, 37, 100
"""Rows of one value, in bounds -100 .. 100 counted from 0: no mean is clipped, and 101 is prime,
so that a sum over one row more rarely loses a factor to its count."""


def _sum_and_count(mean: float) -> tuple[int, int]:
    """What a mean tells: the noisy sum and count, up to a common factor."""
    ratio = Fraction(mean).limit_denominator(20 * ROWS)
    return ratio.numerator, ratio.denominator


def _points_to_one_more(mean: float, shift: int) -> bool:
    total, count = _sum_and_count(mean)
    return total >= VALUE * ROWS + shift and count >= ROWS + 1


class _HalvedSensitivity(Grid):
    """Mutant: noise for half of what one row can move."""

    @property
    def sensitivity(self) -> int:
        return Grid(self.low, self.high, self.step, self.origin).sensitivity // 2

    def units(self, values: np.ndarray) -> np.ndarray:
        return Grid(self.low, self.high, self.step, self.origin).units(values)


class _NoClip(Grid):
    """Mutant: values are taken as they come."""

    def units(self, values: np.ndarray) -> np.ndarray:
        return np.rint((values - self.zero) / self.step).astype(np.int64)


def _mean_bound(epsilon: Fraction, grid: Grid, more: float = LARGEST, runs: int = RUNS) -> float:
    """Rows of one value, and one row more at the upper bound or beyond."""
    draws = stream(0, "audit mean", type(grid).__name__, f"{epsilon},{more}")
    without = np.full(ROWS, float(VALUE))

    def run(values: np.ndarray) -> Callable[[], bool]:
        return lambda: _points_to_one_more(noisy_mean(values, grid, epsilon=epsilon, stream=draws), int(more))

    return audit(run(np.append(without, more)), run(without), runs)


CENTRE: tuple[int, int, int, Origin] = (-LARGEST, LARGEST, 1, "centre")


def test_noisy_mean() -> None:
    assert 0.7 < _mean_bound(Fraction(1), Grid(*CENTRE)) <= 1
    assert _mean_bound(LESS_NOISE, Grid(*CENTRE)) > 1


def test_noisy_mean_with_halved_sensitivity_is_caught() -> None:
    assert _mean_bound(Fraction(1), _HalvedSensitivity(*CENTRE), runs=FEW_RUNS) > 1


def test_noisy_mean_of_an_outlier_is_clipped_and_a_missing_clip_is_caught() -> None:
    assert _mean_bound(Fraction(1), Grid(*CENTRE), more=3 * LARGEST, runs=FEW_RUNS) <= 1
    assert _mean_bound(Fraction(1), _NoClip(*CENTRE), more=3 * LARGEST, runs=FEW_RUNS) > 1


def _typed(contract: Contract, row: dict[str, Any], row_count: int) -> PrivateTable:
    """One row, many times."""
    schema = random_table(contract, 1, 0)
    columns = {}
    for name in contract.columns:
        declared = contract.columns[name]
        if hasattr(declared, "categories"):
            codes = np.full(row_count, declared.categories.index(row[name]), dtype=np.int16)
            columns[name] = pa.DictionaryArray.from_arrays(pa.array(codes), schema.column(name).combine_chunks().dictionary)
        else:
            columns[name] = pa.array(np.full(row_count, row[name]))
    return PrivateTable(pa.table(columns))


def _numbers_contract(names: tuple[str, ...]) -> Contract:
    """Whole numbers in -100 .. 100 and the label."""

    def change(content: dict[str, Any]) -> None:
        label = content["columns"]["bought"]
        content["columns"] = {name: {"type": "integer", "bounds": [-LARGEST, LARGEST]} for name in names} | {"bought": label}
        content["groups"] = {2: ["label"]}
        content["local"] = [{"name": "x", "column": names[0], "cuts": [0], "texts": ["a", "b"]}]
        content["prompts"] = {"local": {"text": "{x}"}, "central": {"text": "".join(f"{{{name}}}" for name in names)}}
        content["checks"] = []

    return small_contract(change)


def _release_bound(names: tuple[str, ...], epsilon: float, runs: int) -> float:
    """Both groups of a whole release; the row more is positive and at every upper bound."""
    contract = _numbers_contract(names)
    groups, draws = partition(contract, 2), stream(0, "audit release", f"{len(names)}", f"{epsilon}")
    few = _typed(contract, dict.fromkeys(names, VALUE) | {"bought": "yes"}, ROWS)
    one = _typed(contract, dict.fromkeys(names, LARGEST) | {"bought": "yes"}, 1)
    more = PrivateTable(pa.concat_tables([few.data, one.data]).combine_chunks())

    def run(table: PrivateTable) -> Callable[[], bool]:
        members = assign(table, contract, 2)

        def once() -> bool:
            released = aggregate(table, members, groups, contract, epsilon=epsilon, options=AggregateOptions(), stream=draws)
            return all(_points_to_one_more(float(released.groups[0].values[name]), LARGEST) for name in names)

        return once

    return audit(run(more), run(few), runs)


def test_whole_central_release() -> None:
    assert 0.7 < _release_bound(("a",), 1.0, RUNS) <= 1
    assert _release_bound(("a",), float(LESS_NOISE), RUNS) > 1


def test_whole_central_release_of_two_columns_and_a_mutant_that_gives_each_the_whole_budget() -> None:
    assert _release_bound(("a", "b"), 2.0, FEW_RUNS) <= 2
    assert _release_bound(("a", "b"), 4.0, FEW_RUNS) > 2
