"""The shipped contracts are complete, say what their rules do, and fit the published files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from dpicl.contract import Contract, load_contract
from dpicl.contract.columns import CategoryColumn, IntegerColumn
from dpicl.data.prompts import central_demonstrations, local_queries
from dpicl.data.reading.encode import LocalEncoding
from dpicl.ground.types import EncodedQueries, ReleasedGroup, ReleasedGroups

ROOT = Path(__file__).resolve().parents[3]
DATA = Path(os.environ.get("DPICL_DATA", ROOT.parent / "shared" / "data"))

# Bits of the paper's encoding, label included; a column of more than two levels has a bit per
# level.
BITS = {
    "adult": 13,
    "bank": 10,
    "blood": 5,
    "calhousing": 9,
    "car": 12,
    "diabetes": 9,
    "heart": 12,
    "jungle": 7,
    "breast_cancer": 9,
}
# Table V: rows of the subsample and of the training part.
TABLE_V = {
    "adult": (3016, 30162),
    "bank": (3617, 36168),
    "blood": (300, 598),
    "calhousing": (3300, 16512),
    "car": (691, 1382),
    "diabetes": (307, 614),
    "heart": (367, 734),
    "jungle": (3586, 35855),
}
CONTRACTS = {
    path.stem: load_contract(path) for path in sorted((ROOT / "data_contracts").glob("*.yaml"))
}
every_contract = pytest.mark.parametrize("contract", CONTRACTS.values(), ids=CONTRACTS)


def _central(contract: Contract, changes: dict[str, float | str]) -> str:
    """The central text of the largest numbers and first categories, with `changes`."""
    values: dict[str, float | str] = {}
    for name in contract.features:
        column = contract.columns[name]
        values[name] = (
            column.categories[0] if isinstance(column, CategoryColumn) else column.bounds[1]
        )
    group = ReleasedGroup(("all",), values | changes, 0)
    return central_demonstrations(ReleasedGroups((group,)), contract)[0]


def _local(contract: Contract, changes: dict[str, int]) -> str:
    """The local text of every attribute's last level, with `changes`."""
    levels = [changes.get(attribute.name, attribute.part_count - 1) for attribute in contract.local]
    return local_queries(EncodedQueries(np.array([[*levels, 0]])), contract)[0]


def test_the_nine_sets_are_there() -> None:
    assert set(CONTRACTS) == set(BITS)


BEYOND = {"adult", "diabetes"}
"""Sets with groups for more shots than the paper has, which `real-tables` asks for."""


@every_contract
def test_groups_cover_the_papers_numbers_of_shots(contract: Contract) -> None:
    assert contract.shots == (1, 2, 4, 8, *((16,) if contract.name in BEYOND else ()))
    assert all(keys[0] == "label" for keys in contract.groups.values())


@every_contract
def test_one_hot_encoding_has_the_papers_bits(contract: Contract) -> None:
    assert len(LocalEncoding.of(contract, "one-hot").sizes) == BITS[contract.name]


@pytest.mark.parametrize("name", TABLE_V)
def test_sampling_rate_is_that_of_table_v(name: str) -> None:
    assert CONTRACTS[name].privacy.sampling_rate == Fraction(*TABLE_V[name])


@every_contract
def test_every_category_is_shown_in_its_own_words(contract: Contract) -> None:
    for name in contract.features:
        column = contract.columns[name]
        if not isinstance(column, CategoryColumn):
            continue
        shown = {category: _central(contract, {name: category}) for category in column.categories}
        assert len(set(shown.values())) == len(column.categories), name
        assert all(
            column.texts.get(category, category) in text for category, text in shown.items()
        ), name


@every_contract
def test_every_number_that_is_paid_for_is_shown(contract: Contract) -> None:
    for name in contract.features:
        column = contract.columns[name]
        if not isinstance(column, CategoryColumn):
            middle = column.bounds[0] + (column.bounds[1] - column.bounds[0]) // 2
            assert _central(contract, {name: middle}) != _central(contract, {}), name


@every_contract
def test_every_level_of_every_local_attribute_is_shown(contract: Contract) -> None:
    for attribute in contract.local:
        shown = {_local(contract, {attribute.name: level}) for level in range(attribute.part_count)}
        assert len(shown) == attribute.part_count, attribute.name


def _worded_cuts(contract: Contract) -> Iterator[tuple[str, float, str]]:
    for attribute in contract.local:
        for cut in attribute.cuts:
            yield from ((attribute.name, cut, text) for text in attribute.texts)


@every_contract
def test_local_texts_say_what_the_rule_does(contract: Contract) -> None:
    wordings = {
        "less than N": 0,
        "N or more": 0,
        "N or less": 1,
        "more than N": 1,
        "before the Nth": 0,
        "on or after the Nth": 0,
    }
    scale = {("calhousing", "income"): 10_000}
    for name, cut, text in _worded_cuts(contract):
        number = re.search(r"-?[\d,.]*\d", text)
        assert number is not None, text
        wording = text.replace(number[0], "N").replace("$", "")
        stated = float(number[0].replace(",", "")) + wordings[wording]
        assert stated == cut * scale.get((contract.name, name), 1), (name, text)


@pytest.mark.parametrize(
    ("name", "column", "female"), [("adult", "sex", "Female"), ("heart", "Sex", "F")]
)
def test_pronouns_agree_with_sex(name: str, column: str, female: str) -> None:
    contract = CONTRACTS[name]
    male = "Male" if female == "Female" else "M"
    women = _central(contract, {column: female}) + _local(contract, {"sex": 0})
    men = _central(contract, {column: male}) + _local(contract, {"sex": 1})
    assert not re.search(r"\b(he|his|male)\b", women, re.IGNORECASE)
    assert not re.search(r"\b(she|her|female)\b", men, re.IGNORECASE)


@every_contract
def test_templates_leave_the_question_to_the_code(contract: Contract) -> None:
    for template in (contract.prompts.local, contract.prompts.central):
        assert contract.label.question not in template.text and "Answer" not in template.text
        assert template.text.endswith(".")


@every_contract
def test_remote_forms_lead_to_declared_columns_and_categories(contract: Contract) -> None:
    for remote in filter(None, (contract.source.openml, contract.source.uci)):
        assert set(remote.rename.values()) <= set(contract.columns)
        for name, values in remote.values.items():
            column = contract.columns[name]
            assert isinstance(column, CategoryColumn) and set(values.values()) <= set(
                column.categories
            )
        assert (remote.published_split is not None) == (contract.split.column is not None)


def _rows(contract: Contract) -> pd.DataFrame:
    """The published rows as text, without ignored columns and rows with a missing value."""
    if contract.source.bundled:
        bunch = load_breast_cancer(as_frame=True)
        table = bunch.data.astype(str).rename(columns=lambda name: name.replace(" ", "_"))
        table["diagnosis"] = bunch.target_names[bunch.target]
    else:
        file = DATA / str(contract.source.file)
        if not file.exists():
            pytest.skip(f"{contract.source.file} is not in the data folder; set DPICL_DATA")
        table = pd.read_csv(file, dtype=str, keep_default_na=False)
    table = table.drop(columns=list(contract.source.ignore))
    return table[~(table == contract.source.missing).any(axis=1)]


@every_contract
def test_contract_fits_the_published_rows(contract: Contract) -> None:
    table = _rows(contract)
    assert set(table.columns) == set(contract.columns)
    for name, column in contract.columns.items():
        if isinstance(column, CategoryColumn):
            assert set(table[name]) <= set(column.categories), name
            continue
        numbers = table[name].astype(float)
        assert numbers.between(*column.bounds).all(), name
        assert not isinstance(column, IntegerColumn) or (numbers % 1 == 0).all(), name


@pytest.mark.parametrize("name", TABLE_V)
def test_training_part_has_the_size_of_table_v(name: str) -> None:
    contract = CONTRACTS[name]
    table = _rows(contract)
    published = contract.split.column
    rows = (
        (table[published] == contract.split.train).sum()
        if published
        else int(len(table) * Fraction(4, 5))
    )
    assert rows == TABLE_V[name][1]
