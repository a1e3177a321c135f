"""Sentences: every field is filled in, numbers read well, and the paper's slips are mended."""

from __future__ import annotations

import math
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.contract import Contract
from dpicl.contract.columns import CategoryColumn, IntegerColumn
from dpicl.contract.columns.number import format_number
from dpicl.data.prompts import (
    central_demonstrations,
    central_queries,
    local_demonstrations,
    local_queries,
)
from dpicl.data.reading.encode import UNKNOWN, LocalEncoding, encode_queries
from dpicl.ground.types import (
    EncodedQueries,
    QueryTable,
    ReleasedGroup,
    ReleasedGroups,
    ReleasedRows,
)
from tests.library.examples import CONTRACTS, every_contract, random_table, small_contract


def local_text(contract: Contract, **bins: int) -> str:
    """A demonstration with the first bin of every attribute but those given."""
    row = [bins.get(attribute.name, 0) for attribute in contract.local]
    return local_demonstrations(ReleasedRows(np.array([[*row, 1]])), lambda rows: rows, contract)[0]


def central_text(contract: Contract, **changes: float | str) -> str:
    """A demonstration with upper bounds and first categories but those given."""
    columns = {name: contract.columns[name] for name in contract.features}
    values = {
        name: one.categories[0] if isinstance(one, CategoryColumn) else one.bounds[1]
        for name, one in columns.items()
    }
    group = ReleasedGroup(("all",), values | changes, 1)
    return central_demonstrations(ReleasedGroups((group,)), contract)[0]


def query_texts(table: pa.Table, contract: Contract) -> list[list[str]]:
    """Of central prompts, and of local ones."""
    rows = QueryTable(table)
    return [
        central_queries(rows, contract),
        local_queries(encode_queries(rows, contract), contract),
    ]


def _check_text(text: str, contract: Contract, answer: str = "") -> None:
    assert not re.search(r"[{}]|  |\n|\bnan\b|\bNone\b", text), text
    assert text.endswith(f"{contract.label.question} Yes or No? Answer:{answer}")


@every_contract
@given(seed=st.integers(0, 2**32))
def test_any_levels_become_sentences_without_open_places(contract: Contract, seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = LocalEncoding.of(contract, "k-ary").bin_counts
    bins = np.array([[rng.integers(UNKNOWN if size > 2 else 0, size) for size in counts]])
    (demonstration,) = local_demonstrations(ReleasedRows(bins), lambda rows: rows, contract)
    _check_text(demonstration, contract, " Yes" if bins[0, -1] else " No")
    (query,) = local_queries(EncodedQueries(bins), contract)
    _check_text(query, contract)
    assert demonstration.startswith(query)


@every_contract
@given(seed=st.integers(0, 2**32))
def test_any_group_average_becomes_sentences_without_open_places(
    contract: Contract, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    columns = {name: contract.columns[name] for name in contract.features}
    values = {
        name: str(rng.choice(one.categories))
        if isinstance(one, CategoryColumn)
        else float(rng.uniform(*one.bounds))
        for name, one in columns.items()
    }
    _check_text(central_text(contract, **values), contract, " Yes")


@every_contract
def test_one_text_per_row_in_order(contract: Contract) -> None:
    table = random_table(contract, 30, 0)
    texts = query_texts(table, contract)
    assert [len(one) for one in texts] == [30, 30]
    backwards = query_texts(table[::-1], contract)
    assert [one[::-1] for one in backwards] == texts


@every_contract
def test_a_query_reads_like_the_demonstration_of_the_same_values(contract: Contract) -> None:
    table = random_table(contract, 5, 0)
    groups = ReleasedGroups(
        tuple(
            ReleasedGroup(("row",), {name: row[name] for name in contract.features}, 0)
            for row in table.to_pylist()
        )
    )
    queries = central_queries(QueryTable(table), contract)
    assert [f"{query} No" for query in queries] == central_demonstrations(groups, contract)


@every_contract
def test_queries_do_not_show_their_label_or_split(contract: Contract) -> None:
    table = random_table(contract, 20, 0)
    for hidden in filter(None, (contract.label.column, contract.split.column)):
        place, backwards = table.column_names.index(hidden), table.column(hidden)[::-1]
        other = table.set_column(place, hidden, backwards)
        assert query_texts(other, contract) == query_texts(table, contract)


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (3.10, 2, "3.1"),
        (-0.0, 2, "0"),
        (-0.004, 2, "0"),
        (100.0, 2, "100"),
        (1234567.0, 2, "1234567"),
        (-12.5, 1, "-12.5"),
        (0.00001, 6, "0.00001"),
        (1e15, 0, "1000000000000000"),
        (7, 0, "7"),
    ],
)
def test_numbers_are_rounded_and_plain(value: float, decimals: int, text: str) -> None:
    assert format_number(value, decimals) == text


@given(st.floats(-1e15, 1e15), st.integers(0, 6))
def test_a_printed_number_is_within_half_a_unit_and_without_padding(
    value: float, decimals: int
) -> None:
    text = format_number(value, decimals)
    assert abs(Decimal(text) - Decimal(value)) <= Decimal(5) / Decimal(10) ** (decimals + 1)
    assert re.fullmatch(r"-?(0|[1-9]\d*)(\.\d*[1-9])?", text) and text != "-0"


@every_contract
def test_numbers_are_printed_with_the_contract_s_decimals(contract: Contract) -> None:
    for name in contract.features:
        column = contract.columns[name]
        if isinstance(column, CategoryColumn):
            continue
        third = column.bounds[0] + (column.bounds[1] - column.bounds[0]) / 3
        expected = format_number(third, column.decimals)
        assert re.search(
            rf"(?<![\d.]){re.escape(expected)}(?!\d|\.\d)", central_text(contract, **{name: third})
        ), name
        assert isinstance(column, IntegerColumn) <= ("." not in expected)


def test_a_level_that_no_bit_names_reads_as_unknown() -> None:
    assert "maintenance cost for this car is unknown" in local_text(CONTRACTS["car"], maint=UNKNOWN)
    assert "Her education is unknown." in local_text(CONTRACTS["adult"], education=UNKNOWN)


def test_a_column_may_have_a_dot_in_its_name() -> None:
    def rename(content: dict) -> None:  # type: ignore[type-arg]
        content["columns"]["spent.total"] = content["columns"].pop("spent")
        content["local"][2]["column"] = "spent.total"
        content["prompts"]["central"]["text"] = "{age} {colour} {spent.total} {Note} {member}"

    assert central_text(small_contract(rename), **{"spent.total": 7.5}).startswith(
        "120 crimson 7.5 An adult of 120. no Did they buy?"
    )


def test_double_braces_print_one() -> None:
    contract = small_contract(lambda content: content["prompts"]["local"].update(text="{{{band}}}"))
    assert local_text(contract).startswith("{less than 40} Did they buy?")


def test_values_with_braces_are_not_filled_in_again() -> None:
    contract = small_contract(
        lambda content: content["columns"]["colour"].update(texts={"red": "{age}"})
    )
    assert "likes {age}," in central_text(contract, colour="red")


def test_the_word_of_a_noisy_average_follows_its_cut() -> None:
    contract = CONTRACTS["bank"]
    assert "not contacted in previous" in central_text(contract, pdays=math.nextafter(0, -1))
    assert "not contacted in previous" not in central_text(contract, pdays=0.0)
