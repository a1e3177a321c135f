"""Bins of columns: public, and every row has one of each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.contract import Contract
from dpicl.contract.load import contract_digest
from dpicl.data.central.exact_counts import row_bins, row_encoding
from dpicl.data.reading.encode import label_codes
from dpicl.ground.types import PrivateTable
from tests.library.examples import CONTRACTS, every_contract, random_table


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
    other = blood.model_copy(update={"columns": {**blood.columns, "time_months": column}})
    assert contract_digest(other) != contract_digest(blood)
