"""Codes that are too many to list come as the groups of a public map: each cell by itself."""

from __future__ import annotations

import warnings
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.contract import Contract, parse_contract
from dpicl.contract.load import contract_digest
from dpicl.data.conditions import warn_of_whole_groups
from dpicl.data.reading.parse import typed_table
from dpicl.data.values import central_form
from dpicl.ground.errors import DataError, DeclarationError

ICD = {"I21": "heart", "I2*": "vessels", "I*": "vessels", "C*": "tumour", "D0*": "tumour"}
CODES = ("I21", "I21.9", "I25", "I6", "C50.1", "D05", "heart")
MEANT = ["heart", "vessels", "vessels", "vessels", "tumour", "tumour", "heart"]


def grouped(groups: dict[Any, Any] = ICD, **more: object) -> Contract:
    """The column `code` holds codes."""
    columns = {
        "code": {"type": "category", "groups": groups, **more},
        "died": {"type": "boolean"},
    }
    content = {"version": 2, "name": "stays", "source": {"file": "stays.csv"}, "columns": columns}
    contract = parse_contract(content | {"privacy": {"budget": {"epsilon": 1}}}, "stays.yaml")
    assert isinstance(contract, Contract)
    return contract


def read(contract: Contract, codes: object) -> list[str | None]:
    cells = pa.array(codes) if isinstance(codes, list | tuple) else codes
    table = pa.table({"code": cells, "died": pa.array(["true"] * len(cells))})
    return typed_table(table, contract, "rows").column("code").to_pylist()


def test_a_code_is_in_its_own_group_or_in_that_of_its_longest_beginning() -> None:
    contract = grouped()
    assert contract.listed["code"].categories == ("heart", "vessels", "tumour")
    assert read(contract, CODES) == MEANT
    assert read(contract, pa.array(CODES).dictionary_encode()) == MEANT


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("I25", ["where code='I25': is met by all rows of the group 'vessels'"]),
        (["I21", "C5"], ["'heart'", "'tumour'"]),
        ("heart", []),
        (None, []),
        ("J45", []),
    ],
)
def test_of_a_code_in_a_condition_it_is_said_that_its_whole_group_meets_it(
    asked: Any, said: list[str]
) -> None:
    contract = grouped()
    with warnings.catch_warnings(record=True) as warned:
        warn_of_whole_groups(central_form(contract), {"code": asked})
    sentences = [str(warning.message) for warning in warned]
    assert len(sentences) == len(said)
    assert all(part in sentence for part, sentence in zip(said, sentences, strict=True))


@pytest.mark.parametrize("where", [{"died": "true"}, {}, {"code": None}, {"code": [None]}], ids=str)
def test_of_codes_that_no_condition_names_nothing_is_said(where: dict[str, Any]) -> None:
    """Also where one group has all other codes."""
    contract = grouped(ICD | {"*": "other"}, nullable=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_whole_groups(central_form(contract), where)


@pytest.mark.parametrize("spelled", [pa.array([15, 80331]), pa.array([15.0, 80331.0])])
def test_codes_that_are_stored_as_numbers(spelled: pa.Array) -> None:
    assert read(grouped({15: 1, "80*": 2}), spelled) == ["1", "2"]
    assert read(grouped({15: 1, "80*": 2}), ["15.0", "80331"]) == ["1", "2"]


def test_what_the_map_does_not_say_is_that_rows_affair() -> None:
    with pytest.raises(DataError, match="is not one of the 3 groups, and no code of one"):
        read(grouped(), [*CODES, "J45"])
    assert read(grouped(ICD | {"*": "other"}), ["J45", "", "I21"][::2]) == ["other", "heart"]
    assert read(grouped(nullable=True, invalid="missing"), ["J45", "I21", ""]) == [
        "(missing)",
        "heart",
        "(missing)",
    ]
    contract = grouped(ICD | {"*": "other"}, nullable=True, missing=["NA"])
    assert read(contract, ["NA", "J45"]) == ["(missing)", "other"]


@given(st.lists(st.sampled_from([*CODES, "J45", ""]), min_size=2, max_size=9), st.data())
def test_one_row_changes_one_cell(codes: list[str], data: st.DataObject) -> None:
    contract = grouped(ICD | {"*": "other"}, nullable=True)
    place = data.draw(st.integers(0, len(codes) - 1))
    changed = [*codes[:place], data.draw(st.text(max_size=12)), *codes[place + 1 :]]
    before, after = read(contract, codes), read(contract, changed)
    assert before[:place] + before[place + 1 :] == after[:place] + after[place + 1 :]
    assert after[place] == read(contract, [changed[place]])[0]


@pytest.mark.parametrize(
    ("groups", "more", "phrase"),
    [
        ({"I2*1": "a", "b": "c"}, {}, "groups has 'I2*1'; expected a code, or its beginning"),
        ({"a": "b", "b": "c"}, {}, "groups has the category 'b' among codes of another one"),
        ({"a": "b", "c": "d"}, {"categories": ["b"]}, "groups names 'd'; expected only listed"),
        ({str(one): f"g{one}" for one in range(300)}, {}, "has 300 values; expected at most 256"),
        ({"I*": ["heart"]}, {}, "columns.code"),
        ({"a": "b", "c": "(missing)"}, {"nullable": True}, "groups names '(missing)'"),
        (ICD, {"missing": ["I99"]}, "has 'I99' among its values"),
    ],
)
def test_a_map_that_is_none_is_refused(
    groups: dict[str, Any], more: dict[str, Any], phrase: str
) -> None:
    with pytest.raises(DeclarationError) as refused:
        grouped(groups, **more)
    assert phrase in str(refused.value)


def test_the_map_is_part_of_what_names_a_release() -> None:
    assert contract_digest(grouped()) != contract_digest(grouped(ICD | {"C*": "vessels"}))


def test_a_program_may_ask_about_codes() -> None:
    meanings = central_form(grouped()).features
    meaning = meanings[[meaning.column for meaning in meanings].index("code")]
    assert meaning.codes(pa.chunked_array([["I21.9", "I21", "J45"]])).tolist() == [1, 0, -1]


@pytest.mark.parametrize("nullable", [False, True])
def test_a_gap_is_no_other_code(nullable: bool) -> None:
    """Of rows that a predictor takes, as of rows that are released."""
    contract = grouped(ICD | {"*": "other"}, nullable=nullable)
    form = central_form(contract)
    (meaning,) = [one for one in form.features if one.column == "code"]
    places = meaning.codes(pa.chunked_array([["J45", "", None]]))
    names = [None if place < 0 else meaning.names[place] for place in places]
    assert names == ["other", *["none" if nullable else None] * 2]
