"""Bins of columns: public, and every row has one of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dpicl.contract import Contract, parse_contract
from dpicl.contract.load import contract_digest
from dpicl.data.central.exact_counts import row_bins, row_encoding
from dpicl.data.reading.encode import label_codes
from dpicl.ground.errors import DeclarationError
from dpicl.ground.types import PrivateTable
from tests.library.examples import CONTRACTS, ROOT, every_contract, random_table


@pytest.mark.quick("blood")
@every_contract
@given(seed=st.integers(0, 2**32))
def test_every_row_has_a_bin_of_each_column_and_its_label_last(
    contract: Contract, seed: int
) -> None:
    table = PrivateTable(random_table(contract, 40, seed))
    bins, encoding = row_bins(table, contract), row_encoding(contract)
    assert encoding.names[:-1] == contract.features and bins.shape == (40, len(encoding.sizes))
    assert (bins < np.array(encoding.sizes)).all()
    assert (bins[:, -1] == label_codes(table, contract)).all()


def test_contracts_without_bins_keep_their_digest() -> None:
    blood = CONTRACTS["blood"]
    assert "bins" not in blood.model_dump_json()
    column = blood.columns["time_months"].model_copy(update={"bins": (12.0,)})
    assert contract_digest(
        blood.model_copy(update={"columns": {**blood.columns, "time_months": column}})
    ) != contract_digest(blood)


@pytest.mark.parametrize(
    ("bins", "phrase"),
    [([0], "rising cuts above 0 and up to 120"), ([9, 9], "rising cuts"), ([], "at least 1 item")],
)
def test_bins_outside_the_bounds_are_refused(bins: list[int], phrase: str) -> None:
    content = yaml.safe_load(Path(ROOT / "data_contracts" / "blood.yaml").read_text())
    content["columns"]["time_months"]["bins"] = bins
    with pytest.raises(DeclarationError, match=phrase) as refused:
        parse_contract(content, "blood.yaml")
    assert "columns.time_months" in str(refused.value)
