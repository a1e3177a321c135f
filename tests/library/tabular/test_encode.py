"""Encoding: every row falls into the part that the rule says, and answers decode to what was
encoded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.contract import Contract
from dpicl.contract.columns.number import bin_codes
from dpicl.contract.parts import Rule
from dpicl.data.reading.encode import (
    UNKNOWN,
    LocalEncoding,
    encode_clients,
    encode_queries,
    label_codes,
    part_codes,
)
from dpicl.ground.types import PrivateTable, QueryTable
from tests.library.examples import every_contract, random_table, small_contract

CONTRACT = small_contract()


def _part(rule: Rule, value: Any) -> int:
    """The rule read aloud: which part holds the value."""
    if rule.cuts:
        return sum(value >= cut for cut in rule.cuts)
    named = [part for part in rule.parts if part != "rest" and value in part]
    return rule.parts.index(named[0] if named else "rest")


@every_contract
def test_every_row_falls_into_the_part_that_its_rule_says(contract: Contract) -> None:
    table = PrivateTable(random_table(contract, 300, 0, beyond=0.3))
    for attribute in (*contract.local, contract.label):
        values = table.data.column(attribute.column).to_pylist()
        expected = [_part(attribute, value) for value in values]
        assert part_codes(table, attribute, contract).tolist() == expected
    assert label_codes(table, contract).tolist() == expected, "one for the second part"


@given(
    st.lists(st.floats(-9, 9) | st.integers(-9, 9), max_size=40, unique=True),
    st.booleans(),
    st.data(),
)
def test_few_edges_and_many_give_the_same_bins(
    edges: list[float], whole: bool, data: st.DataObject
) -> None:
    one = st.integers(-12, 12) if whole else st.floats(-12, 12) | st.sampled_from([*edges, np.nan])
    numbers = np.array(
        data.draw(st.lists(one, max_size=20)), dtype=np.int64 if whole else np.float64
    )
    known = ~np.isnan(numbers)
    expected = np.where(
        known,
        [sum(edge <= number for edge in edges) for number in numbers.tolist()],
        len(edges) + 1,
    )
    codes = bin_codes(numbers, np.sort(np.array(edges, dtype=np.float64)), nullable=True)
    assert codes.tolist() == expected.tolist()


@every_contract
@pytest.mark.parametrize("kind", ["k-ary", "one-hot"])
def test_answers_decode_to_the_levels_they_stand_for(contract: Contract, kind: Any) -> None:
    encoding = LocalEncoding.of(contract, kind)
    rng = np.random.default_rng(0)
    bins = np.stack([rng.integers(count, size=200) for count in encoding.bin_counts], axis=1)
    answers = encoding.encode(bins)
    assert answers.shape == (200, len(encoding.sizes)) and answers.dtype == np.uint8
    assert (answers < np.array(encoding.sizes)).all()
    assert (encoding.decode(answers) == bins).all()


def test_sizes_of_both_encodings() -> None:
    assert LocalEncoding.of(CONTRACT, "k-ary").sizes == (2, 3, 3, 2)
    assert LocalEncoding.of(CONTRACT, "one-hot").sizes == (2, 2, 2, 2, 2, 2, 2, 2)
    assert LocalEncoding.of(CONTRACT, "k-ary").names == ("band", "colour", "spending", "label")


@given(st.lists(st.integers(0, 1), min_size=8, max_size=8))
def test_one_hot_bits_read_as_first_set_or_unknown(bits: list[int]) -> None:
    def bin_of(three: list[int]) -> int:
        return three.index(1) if 1 in three else UNKNOWN

    decoded = LocalEncoding.of(CONTRACT, "one-hot").decode(np.array([bits], dtype=np.uint8))
    assert decoded.tolist() == [[bits[0], bin_of(bits[1:4]), bin_of(bits[4:7]), bits[7]]]


def test_clients_and_queries_are_encoded_alike() -> None:
    data = random_table(CONTRACT, 50, 0)
    encoding = LocalEncoding.of(CONTRACT, "k-ary")
    clients = encode_clients(PrivateTable(data), CONTRACT, encoding).codes
    assert (clients == encode_queries(QueryTable(data), CONTRACT).codes).all()
