"""Bins of columns: public, in bounds, and each reads as a value that is of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dpicl.contract import Contract, parse_contract
from dpicl.contract.columns import CategoryColumn, IntegerColumn
from dpicl.contract.load import contract_digest
from dpicl.errors import DeclarationError
from dpicl.tabular.central.bins import bin_values, column_bins, row_bins, row_demonstrations, row_encoding
from dpicl.tabular.prompts.serialize import central_queries
from dpicl.tabular.reading.encode import label_codes
from dpicl.types import PrivateTable, QueryTable
from tests.library.examples import CONTRACTS, ROOT, every_contract, random_table


def table_of(contract: Contract, values: Mapping[str, Sequence[float | str]]) -> pa.Table:
    """Columns of the contract's types with these values."""
    columns: dict[str, pa.Array] = {}
    for name, shown in values.items():
        column = contract.columns[name]
        if isinstance(column, CategoryColumn):
            codes = pa.array([column.categories.index(str(one)) for one in shown], pa.int16())
            columns[name] = pa.DictionaryArray.from_arrays(codes, pa.array(column.categories))
        else:
            columns[name] = pa.array(shown, pa.int64() if isinstance(column, IntegerColumn) else pa.float64())
    return pa.table(columns)


@pytest.mark.quick("blood")
@every_contract
@given(seed=st.integers(0, 2**32))
def test_every_row_has_a_bin_of_each_column_and_its_label_last(contract: Contract, seed: int) -> None:
    table = PrivateTable(random_table(contract, 40, seed))
    bins, encoding = row_bins(table, contract), row_encoding(contract)
    assert encoding.names[:-1] == contract.features and bins.shape == (40, len(encoding.sizes))
    assert (bins < np.array(encoding.sizes)).all()
    assert (bins[:, -1] == label_codes(table, contract)).all()


@every_contract
def test_what_a_bin_reads_as_is_of_that_bin_and_within_bounds(contract: Contract) -> None:
    for name in contract.features:
        values, column = bin_values(contract, name), contract.columns[name]
        table = QueryTable(table_of(contract, {name: values}))
        assert column_bins(table, contract, name).tolist() == list(range(len(values))), name
        if not isinstance(column, CategoryColumn):
            assert column.bounds[0] <= min(values) and max(values) <= column.bounds[1]


@pytest.mark.quick("jungle")
@every_contract
@given(seed=st.integers(0, 2**32))
def test_a_demonstration_reads_like_the_query_of_itsbin_values(contract: Contract, seed: int) -> None:
    rng = np.random.default_rng(seed)
    bins = np.array([[rng.integers(size) for size in row_encoding(contract).sizes]])
    values = {name: [bin_values(contract, name)[code]] for name, code in zip(contract.features, bins[0], strict=False)}
    (query,) = central_queries(QueryTable(table_of(contract, values)), contract)
    assert row_demonstrations(bins, contract) == [f"{query} {'Yes' if bins[0, -1] else 'No'}"]


def test_a_wide_outer_bin_reads_as_if_it_were_no_wider_than_its_neighbour() -> None:
    rooms, gain = (bin_values(CONTRACTS[name], column) for name, column in (("calhousing", "totalRooms"), ("adult", "capital-gain")))
    assert rooms[0] == 249 and rooms[-1] == 12_000  # of 10,000 to 40,000, as wide as 6,000 to 10,000
    assert gain == [545, 1638]
    assert bin_values(CONTRACTS["jungle"], "white_piece0_file") == [0, 1, 2, 3, 4, 5, 6]


def test_contracts_without_bins_keep_their_digest() -> None:
    blood = CONTRACTS["blood"]
    assert "levels" not in blood.model_dump_json()
    column = blood.columns["time_months"].model_copy(update={"bins": (12.0,)})
    assert contract_digest(blood.model_copy(update={"columns": {**blood.columns, "time_months": column}})) != contract_digest(blood)


@pytest.mark.parametrize(("bins", "phrase"), [([0], "rising cuts above 0 and up to 120"), ([9, 9], "rising cuts"), ([], "at least 1 item")])
def test_bins_outside_the_bounds_are_refused(bins: list[int], phrase: str) -> None:
    content = yaml.safe_load(Path(ROOT / "data_contracts" / "blood.yaml").read_text())
    content["columns"]["time_months"]["bins"] = bins
    with pytest.raises(DeclarationError, match=phrase) as refused:
        parse_contract(content, "blood.yaml")
    assert "columns.time_months" in str(refused.value)
