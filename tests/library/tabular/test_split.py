"""The split: the paper's sizes, no row lost or on both sides, the same for every run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.contract import Contract
from dpicl.data.reading.files import rows_digest
from dpicl.data.reading.source import load_source
from dpicl.data.reading.split import fewer, split_table
from dpicl.ground.errors import DataError
from dpicl.ground.types import SplitTable
from dpicl.methods.published import read_table
from tests.library.examples import random_table, small_contract

TABLE_VI = {
    row["dataset"]: (int(row["train_row_count"]), int(row["query_count"]))
    for row in read_table("table-VI")
}


def _whole(split: SplitTable) -> pa.Table:
    return pa.concat_tables([split.train.data, split.test.data])


@pytest.mark.parametrize("name", TABLE_VI)
def test_sizes_are_those_of_table_vi_and_no_row_is_lost(
    name: str, contracts: dict[str, Contract], data_folder: Path, tmp_path: Path
) -> None:
    table = load_source(contracts[name], data_folder=data_folder, cache_folder=tmp_path)
    split = split_table(table, contracts[name])
    assert (split.train.row_count, split.queries.row_count) == TABLE_VI[name]
    assert rows_digest(_whole(split)) == rows_digest(table)


@given(st.integers(1, 300), st.integers(1, 300))
def test_fewer_queries_are_some_of_all_and_the_same_each_time(count: int, most: int) -> None:
    asked = np.flatnonzero(np.arange(3 * count) % 3 == 0)
    few = fewer(asked, most, "shop")
    assert len(few) == min(count, most) and set(few) <= set(asked) and (np.diff(few) > 0).all()
    assert (fewer(asked, most, "shop") == few).all() and fewer(asked, None, "shop") is asked


def test_the_bundled_set_is_asked_about_half_of_its_test_rows(
    contracts: dict[str, Contract], tmp_path: Path
) -> None:
    contract = contracts["breast_cancer"]
    split = split_table(load_source(contract, data_folder=None, cache_folder=tmp_path), contract)
    assert (split.train.row_count, split.test.row_count, split.queries.row_count) == (455, 114, 57)


@given(
    st.integers(5, 300),
    st.integers(0, 99),
    st.sampled_from([0.1, 0.2, 0.35, 0.5]),
    st.sampled_from([0.5, 1.0]),
)
def test_parts_are_disjoint_and_complete(
    row_count: int, seed: int, test_fraction: float, query_fraction: float
) -> None:
    fractions = {"test_fraction": test_fraction, "query_fraction": query_fraction}
    contract = small_contract(lambda content: content.update(split=fractions))
    numbers = pa.array(np.arange(row_count, dtype=float))
    table = random_table(contract, row_count, seed).set_column(1, "spent", numbers)
    try:
        split = split_table(table, contract)
    except DataError:
        assert row_count * test_fraction * query_fraction < 2
        return
    train, test, asked = (
        part.numbers("spent").tolist() for part in (split.train, split.test, split.queries)
    )
    assert sorted(train + test) == table.column("spent").to_pylist()
    assert len(train) == int(row_count * (100 - round(100 * test_fraction)) // 100)
    assert set(asked) <= set(test) and len(set(asked)) == len(asked) == int(
        len(test) * query_fraction
    )


def test_data_sets_of_one_size_are_split_differently() -> None:
    one, other = (
        small_contract(lambda content, name=name: content.update(name=name))
        for name in ("shop", "shed")
    )  # type: ignore[misc]
    table = random_table(one, 200, 0)
    assert split_table(table, one).train.data != split_table(table, other).train.data


def _published(content: dict[str, Any]) -> None:
    content["columns"]["part"] = {"type": "category", "categories": ["test", "train", "unused"]}
    content["split"] = {"column": "part", "train": "train", "test": "test", "query_fraction": 0.5}


def test_a_published_split_is_followed_and_other_rows_are_left_out() -> None:
    contract = small_contract(_published)
    table = random_table(contract, 300, 0)
    parts = table.column("part").to_pylist()
    split = split_table(table, contract)
    assert split.train.data.column("part").to_pylist() == ["train"] * parts.count("train")
    assert split.test.data.column("part").to_pylist() == ["test"] * parts.count("test")
    assert split.queries.row_count == parts.count("test") // 2
    # a file's first rows may differ from its last
    assert split.query_positions.tolist() != list(range(len(split.query_positions)))
    assert "part" not in contract.features


def test_a_published_split_without_test_rows_is_refused() -> None:
    contract = small_contract(_published)
    table = random_table(contract, 60, 0)
    train = table.filter(pc.equal(pc.cast(table.column("part"), pa.string()), "train"))
    told = r"shop: the split leaves \d+ rows to protect and 0 to ask, needs at least one of each"
    with pytest.raises(DataError, match=told):
        split_table(train, contract)
