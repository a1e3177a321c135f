"""The shipped contracts are complete, say what their rules do, and fit the published files."""

from __future__ import annotations

import re
from itertools import product

import pytest

from dpicl.contract import Contract
from dpicl.contract.columns import CategoryColumn
from dpicl.data.reading.encode import LocalEncoding
from dpicl.methods.published import table_v
from tests.library.examples import CONTRACTS, every_contract
from tests.library.tabular.test_serialize import central_text, local_text

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


@every_contract
def test_groups_cover_the_papers_numbers_of_shots(contract: Contract) -> None:
    """And of two sets more, which `real-tables` asks for."""
    more = (16,) if contract.name in ("adult", "diabetes") else ()
    assert contract.shots == (1, 2, 4, 8, *more)
    assert all(keys[0] == "label" for keys in contract.groups.values())


def test_one_hot_encoding_has_the_papers_bits() -> None:
    """Of nine sets, and there are no others."""
    encoded = {name: LocalEncoding.of(one, "one-hot") for name, one in CONTRACTS.items()}
    assert {name: len(one.sizes) for name, one in encoded.items()} == BITS


def test_sampling_rate_is_that_of_table_v() -> None:
    rates = {cell.dataset: cell.rate for cell in table_v()}
    assert rates == {name: CONTRACTS[name].privacy.sampling_rate for name in rates}


@every_contract
def test_every_category_is_shown_in_its_own_words(contract: Contract) -> None:
    for name in contract.features:
        column = contract.columns[name]
        if isinstance(column, CategoryColumn):
            shown = [central_text(contract, **{name: one}) for one in column.categories]
            assert len(set(shown)) == len(shown), name
            for category, text in zip(column.categories, shown, strict=True):
                assert column.texts.get(category, category) in text, name


@every_contract
def test_every_number_that_is_paid_for_is_shown(contract: Contract) -> None:
    for name in contract.features:
        column = contract.columns[name]
        if not isinstance(column, CategoryColumn):
            middle = column.bounds[0] + (column.bounds[1] - column.bounds[0]) // 2
            assert central_text(contract, **{name: middle}) != central_text(contract), name


@every_contract
def test_every_level_of_every_local_attribute_is_shown(contract: Contract) -> None:
    last = {attribute.name: attribute.part_count - 1 for attribute in contract.local}
    for attribute in contract.local:
        levels = range(attribute.part_count)
        shown = {local_text(contract, **{**last, attribute.name: level}) for level in levels}
        assert len(shown) == len(levels), attribute.name


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
    for attribute in contract.local:
        for cut, text in product(attribute.cuts, attribute.texts):
            (number,) = re.findall(r"-?[\d,.]*\d", text)
            wording = text.replace(number, "N").replace("$", "")
            stated = float(number.replace(",", "")) + wordings[wording]
            assert stated == cut * scale.get((contract.name, attribute.name), 1), text


@pytest.mark.parametrize(
    ("name", "column", "female"), [("adult", "sex", "Female"), ("heart", "Sex", "F")]
)
def test_pronouns_agree_with_sex(name: str, column: str, female: str) -> None:
    contract = CONTRACTS[name]
    male = "Male" if female == "Female" else "M"
    women = central_text(contract, **{column: female}) + local_text(contract, sex=0)
    men = central_text(contract, **{column: male}) + local_text(contract, sex=1)
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
