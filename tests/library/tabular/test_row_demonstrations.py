"""Released rows as demonstrations: what they say is of their bins, and reads as a query of the same
values would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.contract import Contract
from dpicl.contract.columns import CategoryColumn, IntegerColumn
from dpicl.contract.columns.base import MISSING
from dpicl.contract.columns.number import placed
from dpicl.contract.parts import Prompts, Template
from dpicl.data.central.exact_counts import column_bins, row_encoding
from dpicl.data.prompts import central_queries, longest_demonstration, row_demonstrations
from dpicl.data.values import central_form
from dpicl.ground.types import QueryTable
from tests.library.contract.test_derived import customers
from tests.library.examples import CONTRACTS, every_contract

seeds = given(seed=st.integers(0, 2**32))
EDGES = (0.0, 0.5, np.nextafter(1.0, 0.0))


def table_of(contract: Contract, values: Mapping[str, Sequence[Any]]) -> QueryTable:
    """Columns of the contract's types with these values."""
    columns: dict[str, pa.Array] = {}
    for name, shown in values.items():
        column = contract.columns[name]
        if isinstance(column, CategoryColumn):
            codes = pa.array([column.categories.index(str(one)) for one in shown], pa.int16())
            columns[name] = pa.DictionaryArray.from_arrays(codes, pa.array(column.categories))
        else:
            columns[name] = pa.array(shown)
    return QueryTable(pa.table(columns))


def rows_of(contract: Contract, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Bins and shares of made-up rows; many shares are at an end or in the middle."""
    rng = np.random.default_rng(seed)
    sizes = row_encoding(contract).sizes
    bins = rng.integers(sizes, size=(count, len(sizes)))
    shares = rng.random((count, bins.shape[1] - 1))
    return bins, np.where(rng.random(shares.shape) < 0.5, rng.choice(EDGES, shares.shape), shares)


def shown(bins: np.ndarray, shares: np.ndarray, contract: Contract) -> list[str]:
    """Demonstrations of rows in the contract's bins, whose numbers are as likely anywhere in
    them.
    """
    return row_demonstrations(bins, shares, central_form(contract), contract)


def listing(contract: Contract) -> Contract:
    """The same, whose central prompts are a list of values: words, which bins may come from, stay
    where they are.
    """
    prompts, text = contract.prompts, "|".join(f"{{{name}}}" for name in contract.features)
    central = Template(text=text, words=prompts.central.words)
    return contract.model_copy(update={"prompts": Prompts(local=prompts.local, central=central)})


def said(contract: Contract, texts: Sequence[str]) -> dict[str, list[Any]]:
    """What the texts of `listing` say, by column: categories, numbers, None where a value is
    missing.
    """
    columns: dict[str, list[Any]] = {name: [] for name in contract.features}
    for text in texts:
        body = text.split(f" {contract.target.question}")[0].split("|")
        for name, word in zip(contract.features, body, strict=True):
            column = contract.columns[name]
            if isinstance(column, CategoryColumn):
                texts = [column.texts.get(one, one) for one in column.categories]
                value = column.categories[texts.index(word)]
            else:
                value = int(word) if isinstance(column, IntegerColumn) else float(word)
            columns[name].append(value)
    return columns


@pytest.mark.quick("blood")
@every_contract
@seeds
def test_what_a_row_says_is_of_its_bins_and_within_bounds(contract: Contract, seed: int) -> None:
    bins, shares = rows_of(contract, 20, seed)
    listed = listing(contract)
    values = said(contract, shown(bins, shares, listed))
    table = table_of(contract, values)
    for place, name in enumerate(contract.features):
        assert column_bins(table, listed, name).tolist() == bins[:, place].tolist(), name
        column = contract.columns[name]
        if not isinstance(column, CategoryColumn):
            assert column.bounds[0] <= min(values[name]) and max(values[name]) <= column.bounds[1]


@pytest.mark.quick("jungle")
@every_contract
@seeds
def test_a_demonstration_reads_as_a_query_of_the_same_values(contract: Contract, seed: int) -> None:
    bins, shares = rows_of(contract, 3, seed)
    values = said(contract, shown(bins, shares, listing(contract)))
    queries = central_queries(table_of(contract, values), contract)
    answers = [contract.target.answers[label] for label in bins[:, -1]]
    assert shown(bins, shares, contract) == [
        f"{query} {answer}" for query, answer in zip(queries, answers, strict=True)
    ]


@pytest.mark.quick("heart")
@every_contract
@seeds
def test_no_demonstration_is_longer_than_the_longest(contract: Contract, seed: int) -> None:
    texts = shown(*rows_of(contract, 20, seed), contract)
    assert max(map(len, texts)) <= len(longest_demonstration(contract))


def test_days_are_dates_and_missing_values_are_unknown() -> None:
    contract = customers()
    bins = np.array([[0, 8, 3, 0, 1], [7, 0, 0, 7, 0]])
    first, second = shown(bins, np.array([[0.0] * 4, [EDGES[-1]] * 4]), contract)
    assert (
        "The age is 18. The Größe (cm) is unknown. The plan is unknown. The since is 2015-01-01."
        in first
    )
    assert "The since is 2025-12-31." in second and "The age is 100." in second
    assert MISSING not in first + second


def test_numbers_have_no_more_decimal_places_than_prompts_show() -> None:
    contract = customers()
    column = contract.columns["Größe (cm)"].model_copy(update={"decimals": 1, "step": 0.001})
    fine = contract.model_copy(update={"columns": {**contract.columns, "Größe (cm)": column}})
    bins = np.tile(np.array([[0, 3, 0, 0, 0]]), (50, 1))
    texts = shown(bins, np.random.default_rng(0).random((50, 4)), fine)
    low, high = column.edges(fine.cuts_of("Größe (cm)"))[2:4]
    sizes = [text.split("The Größe (cm) is ")[1].split(". The")[0] for text in texts]
    assert len({*sizes}) > 20
    for size in sizes:
        assert low <= float(size) < high and len(size.partition(".")[2]) <= 1


@seeds
def test_rows_of_a_table_and_demonstrations_place_numbers_alike(seed: int) -> None:
    """Where prompts show all decimal places, both hold any of the same numbers."""
    contract = listing(CONTRACTS["blood"])
    bins, shares = rows_of(contract, 30, seed)
    values = said(contract, shown(bins, shares, contract))
    for place, meaning in enumerate(central_form(contract).features):
        numbers = placed(meaning.edges, meaning.digits, bins[:, place], shares[:, place])
        assert numbers.tolist() == values[meaning.column]
