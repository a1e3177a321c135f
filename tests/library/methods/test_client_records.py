"""The exact law of a client's report, over every record that it may hold, missing and disallowed
values among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from dpicl.client.records import Records, stand_in
from dpicl.contract import Contract, parse_contract
from dpicl.data.local.questions import Question, questionnaire
from dpicl.data.reading.encode import LocalEncoding, encode_clients
from dpicl.ground.errors import DataError
from dpicl.ground.types import Design
from dpicl.mechanisms.randomised_response import Response

from ..examples import tree

MARKER = "?"
_LARGE = "9" * 30
WRONG = ("", MARKER, "nonsense", _LARGE, "1e999", "x" * 70_000)
"""Missing, by two ways of saying so, and what no contract allows."""


def _contract(**privacy: Any) -> Contract:
    content = tree()
    content["source"]["missing"] = MARKER
    content["privacy"] = {**content["privacy"], **privacy}
    made = parse_contract(content, f"{content['name']}.yaml")
    assert isinstance(made, Contract)
    return made


def _values(contract: Contract, name: str) -> list[str]:
    """One value of every part of every rule, and what is wrong."""
    column = contract.columns[name]
    if column.type == "category":
        return [*column.categories, *WRONG]
    low, high = column.bounds
    cuts = [
        cut for attribute in contract.local if attribute.column == name for cut in attribute.cuts
    ]
    right = [low, high, *(math.ceil(cut) for cut in cuts), low - 1, high + 1]
    return [*(str(value) for value in right), *WRONG]


def _read(contract: Contract, record: dict[str, str]) -> np.ndarray:
    content = f"{','.join(record)}\n{','.join(record.values())}\n".encode()
    found = Records.read(content, contract, None)
    assert found.table.row_count == 1
    return encode_clients(found.table, contract, LocalEncoding.of(contract, "k-ary")).codes[0]


def _records(contract: Contract) -> Iterator[dict[str, str]]:
    """All values of any two columns beside the wrong and the right of the others."""
    right = {name: stand_in(column) for name, column in contract.columns.items()}
    for base in (right, dict.fromkeys(right, "")):
        for one, other in product(right, right):
            if one < other:
                for pair in product(_values(contract, one), _values(contract, other)):
                    yield {**base, one: pair[0], other: pair[1]}


@lru_cache
def _codes() -> np.ndarray:
    """The distinct codes of a few hundred records."""
    contract = _contract()
    everything = list(_records(contract))
    few = everything[:: max(1, len(everything) // 150)]
    return np.unique([_read(contract, record) for record in few], axis=0)


def _law(question: Question, cell: int) -> list[Fraction]:
    """Probabilities of all answers; of bits, those of each being set, whose ratios of both kinds
    multiply over the two cells that differ.
    """
    law = question.law
    if isinstance(law, Response):
        whole = 1 << law.bits
        return [
            Fraction(law.keep if answer == cell else law.lie, whole)
            for answer in range(question.cells)
        ]
    return [
        Fraction(1, 2) if bit == cell else Fraction(law.weight, 1 << 32)
        for bit in range(question.cells)
    ]


def _loss(question: Question, one: int, other: int) -> float:
    first, second = _law(question, one), _law(question, other)
    if isinstance(question.law, Response):
        return max(math.log(a / b) for a, b in zip(first, second, strict=True))
    return sum(
        max(math.log(a / b), math.log((1 - a) / (1 - b)))
        for a, b in zip(first, second, strict=True)
    )


@pytest.mark.quick(
    "3.0-agreement",
    "3.0-pairs",
    "0.5-subset",
    "0.5-agreement",
    "0.5-pairs",
    "3.0-one-column",
    "3.0-subset",
)
@pytest.mark.parametrize("design", ["one-column", "pairs", "subset", "agreement"])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_law_of_a_report_differs_by_no_more_than_epsilon_between_any_two_records(
    design: Design, epsilon: float
) -> None:
    contract = _contract()
    asked = questionnaire(LocalEncoding.of(contract, "k-ary").sizes, design, epsilon)
    codes = _codes()
    assert len(codes) > 4
    worst = 0.0
    for question in asked.questions:  # which is asked has the same law for every record
        cells = set(question.cells_of(codes).tolist())
        worst = max(worst, *(_loss(question, one, other) for one, other in product(cells, cells)))
    assert 0.9 * epsilon < worst <= epsilon


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_value_answers_as_its_stand_in_does(wrong: str) -> None:
    contract = _contract()
    right = {name: _values(contract, name)[1] for name in contract.columns}
    for name, column in contract.columns.items():
        if column.type == "real" and wrong == _LARGE:
            continue  # is a number, and clipped
        assert np.array_equal(
            _read(contract, {**right, name: wrong}),
            _read(contract, {**right, name: stand_in(column)}),
        )


def test_one_record_s_wrong_values_change_nobody_else_s_codes() -> None:
    contract = _contract()
    lines = [
        ",".join(_values(contract, name)[turn % 2] for name in contract.columns)
        for turn in range(9)
    ]
    codes = []
    for middle in (lines[4], "," * (len(contract.columns) - 1)):
        rows = [*lines[:4], middle, *lines[5:]]
        content = [",".join([*contract.columns, "who"])]
        content += [f"{line},{number}" for number, line in enumerate(rows)]
        found = Records.read("\n".join([*content, ""]).encode(), contract, "who")
        encoded = encode_clients(found.table, contract, LocalEncoding.of(contract, "k-ary")).codes
        assert found.table.row_count == 9
        codes.append(np.delete(encoded, 4, axis=0))
    assert np.array_equal(*codes)


def test_a_record_without_an_id_is_nobody_s() -> None:
    contract = _contract(unit="person", person={"id_column": "who", "max_rows": 2})
    line = ",".join(stand_in(column) for column in contract.columns.values())
    content = f"{','.join(contract.columns)},who\n{line},{MARKER}\n"
    with pytest.raises(DataError, match=r"has records without an id; expected one in each$"):
        Records.read(content.encode(), contract, None)
