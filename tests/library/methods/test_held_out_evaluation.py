"""What is told of held-out private rows: one of them more or less moves every count by one at most,
and all are charged for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.contract import Contract
from dpicl.contract.pipeline import Cell, Unit
from dpicl.data.central.exact_counts import row_bins
from dpicl.data.reading.split import split_table
from dpicl.ground.errors import PrivacyError
from dpicl.ground.types import PrivatePrompts, PrivateTable, QueryTable, ReleasedRows
from dpicl.methods import tabular
from dpicl.methods import tabular_method as evaluation
from dpicl.methods.base import draws_for
from dpicl.methods.tabular_answers import ask_cell, truth_of
from dpicl.methods.tabular_method import Released
from dpicl.models import spec
from dpicl.models.kinds.fake import HashScorer
from dpicl.models.spec import ModelSpec, check_egress
from tests.direct import release
from tests.library.examples import random_table, seeded, small_contract
from tests.library.units import unit_for

KEY = bytes(32)
MOST = 2


def contract_of(change: Callable[[dict[str, Any]], object] = lambda content: None) -> Contract:
    def changed(content: dict[str, Any]) -> None:
        content["privacy"]["budget"] = {"epsilon": 100}
        content["split"] = {"test_fraction": 0.5, "evaluation_epsilon": 2}
        change(content)

    return small_contract(changed)


def as_persons(content: dict[str, Any]) -> None:
    content["privacy"] |= {"unit": "person", "person": {"id_column": "who", "max_rows": MOST}}


UNITS = {
    "gdp_tabicl": unit_for("gdp_tabicl", shots=(2,)),
    "mst_tabicl": unit_for("mst_tabicl", shots=(2,), shot_selection=["near", "shared"]),
}
MODEL_ROWS = ReleasedRows(
    row_bins(PrivateTable(random_table(contract_of(), 300, 5)), contract_of())
)


def prompts_of(queries: QueryTable, contract: Contract, unit: Unit) -> dict[Cell, list[str]]:
    """Of demonstrations that were released before, whatever the held-out rows are."""
    if unit.method == "mst_tabicl":
        released: Any = Released({}, {Cell("counts", 1.0): MODEL_ROWS})
    else:
        released = release(PrivateTable(random_table(contract, 50, 9)), small_contract(), unit)
    return tabular(unit.method).prompts(released, queries, contract, unit, draws_for(contract, 0))


def counts_of(
    rows: pa.Table, contract: Contract, unit: Unit, most: int | None = None
) -> np.ndarray:
    split = split_table(rows, contract, key=KEY, most=most)
    prompts = prompts_of(split.queries, contract, unit)
    said = {
        cell: ask_cell(HashScorer(), texts, contract, cell)
        for cell, texts in prompts.items()
        if texts
    }
    return np.array(evaluation.right_counts(said, truth_of(split.queries, contract), unit))


@pytest.mark.quick("gdp_tabicl")
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
@given(
    seed=st.integers(0, 99),
    place=st.integers(0, 30),
    kind=st.sampled_from(["more", "less", "twice"]),
    most=st.sampled_from([None, 5]),
)
@settings(max_examples=15)
def test_one_row_moves_every_count_by_one_at_most(
    unit: Unit, seed: int, place: int, kind: str, most: int | None
) -> None:
    contract = contract_of()
    rows, one = random_table(contract, 31, seed), random_table(contract, 1, seed + 1000)
    before, after = rows.slice(0, place), rows.slice(place)
    changed = {
        "more": [before, one, after],
        "less": [before, after.slice(1)],
        "twice": [before, after.slice(0, 1), after],
    }[kind]
    there = counts_of(rows, contract, unit, most)
    then = counts_of(pa.concat_tables(changed), contract, unit, most)
    assert np.abs(there - then).max() <= 1
    assert len(there) == len(evaluation.measured_cells(unit)) + 1


@given(st.integers(0, 99), st.integers(1, 9), st.sampled_from([None, 5]))
@settings(max_examples=15)
def test_a_person_moves_every_count_by_as_many_rows_as_are_charged(
    seed: int, own: int, most: int | None
) -> None:
    contract, unit = contract_of(as_persons), UNITS["gdp_tabicl"]

    def of(rows: pa.Table, ids: list[int]) -> pa.Table:
        return rows.append_column("who", pa.array(np.array(ids, dtype=np.int64)))

    rows = of(random_table(contract, 40, seed), [number % 13 for number in range(40)])
    after = pa.concat_tables(
        [rows.slice(0, 7), of(random_table(contract, own, seed + 1000), [99] * own), rows.slice(7)]
    )
    assert (
        np.abs(counts_of(rows, contract, unit, most) - counts_of(after, contract, unit, most)).max()
        <= MOST
    )


def test_a_place_that_matters_fails_the_same_check() -> None:
    """What public queries are asked with: the demonstrations of a row are those of its place."""
    benchmark, unit = small_contract(), UNITS["mst_tabicl"]
    queries = QueryTable(random_table(benchmark, 12, 0))
    moved = QueryTable(pa.concat_tables([random_table(benchmark, 1, 7), queries.data]))
    cell = Cell("icl", 1.0, 2)
    for contract, same in ((contract_of(), True), (benchmark, False)):
        before = prompts_of(queries, contract, unit)[cell]
        after = prompts_of(moved, contract, unit)[cell]
        assert (before == after[1:]) == same


@pytest.mark.parametrize(
    "change, unit, neighbours",
    [
        (lambda content: None, "row", "add-or-remove-one"),
        (lambda content: content["privacy"].update(neighbours="replace-one"), "row", "replace-one"),
        (as_persons, "person", "add-or-remove-one"),
    ],
)
def test_all_counts_together_cost_what_the_contract_says(
    change: Callable[[dict[str, Any]], None], unit: str, neighbours: str
) -> None:
    cost = evaluation.cost(contract_of(change), UNITS["mst_tabicl"])
    assert cost.epsilon == pytest.approx(2, rel=1e-12) and (
        cost.unit,
        cost.neighbours.value,
        cost.delta,
    ) == (unit, neighbours, 0)


def test_noise_is_as_wide_as_stated_and_nothing_but_accuracy_is_told() -> None:
    contract, unit, draws = contract_of(), UNITS["gdp_tabicl"], seeded()
    drawn = np.array(
        [evaluation.released_counts([60, 30, 100], contract, unit, draws) for _ in range(4000)]
    )
    assert np.abs(drawn.std(axis=0) / evaluation.deviation(contract, unit) - 1).max() < 0.1
    assert (
        np.abs(drawn.mean(axis=0) - [60, 30, 100]).max()
        < 5 * evaluation.deviation(contract, unit) / 4000**0.5
    )
    for one in evaluation.metrics_of([60, 130, 100], unit).values():
        assert 0 <= one.accuracy <= 1
        assert one.query_count == 100
        assert one.balanced_accuracy is None
        assert one.auc is None


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_no_held_out_row_at_all_is_noise_like_any_other_number(unit: Unit) -> None:
    contract = contract_of(lambda content: content["split"].update(test_fraction=1e-9))
    assert not counts_of(random_table(contract, 20, 0), contract, unit).any()
    assert all(
        0 <= one.accuracy <= 1
        for one in evaluation.metrics_of(
            [-3] * (len(evaluation.measured_cells(unit)) + 1), unit
        ).values()
    )


def test_held_out_rows_are_shown_to_a_local_model_only() -> None:
    remote = ModelSpec(
        name="far", kind="endpoint", id="m", url="https://far.example/v1", trust="remote"
    )
    with pytest.raises(
        PrivacyError,
        match=r"shop: model 'far' has trust 'remote', and `split.evaluation_epsilon` asks it "
        r"held-out",
    ):
        check_egress(contract_of(), UNITS["gdp_tabicl"], remote)
    assert isinstance(spec.prompts_of((), contract_of(), Cell("icl", 1.0, 2)), PrivatePrompts)
    check_egress(contract_of(), UNITS["gdp_tabicl"], ModelSpec(name="fake", kind="fake"))
