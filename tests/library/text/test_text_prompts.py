"""Prompts over texts are those of the paper's tables 5 to 8, letter by letter; UPDATE_GOLDEN=1
writes them anew.

The texts are made up, so no data set is needed.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpicl.contract import TextContract
from dpicl.data.prompts import (
    CONTENT_FREE,
    asking_demonstration,
    asking_prompt,
    asking_query,
    continuations,
    example_piece,
    header_piece,
    instruction_piece,
    keywords_query,
)
from dpicl.data.text_records import plain_text
from dpicl.ground.errors import ParameterError

from ..examples import ROOT
from ..text_contracts import TEXT_CONTRACTS, text_contract

FOLDER = ROOT / "tests" / "golden" / "prompts" / "texts"
every_text_contract = pytest.mark.parametrize(
    "contract", TEXT_CONTRACTS.values(), ids=TEXT_CONTRACTS
)


def _writing(contract: TextContract) -> str:
    first = contract.label_text(contract.demonstrated[0])
    last = contract.label_text(contract.demonstrated[-1])
    examples = [
        example_piece(contract, f"a made-up text number {number}", first) for number in (1, 2)
    ]
    return instruction_piece(contract) + "".join(examples) + header_piece(contract, last)


def _asking(contract: TextContract) -> str:
    labels = [contract.label_text(label) for label in contract.demonstrated[:2]] or [
        "a made-up answer",
        "another",
    ]
    shown = [
        asking_demonstration(contract, f"a made-up text number {number}", label)
        for number, label in enumerate(labels, 1)
    ]
    return asking_prompt(contract, shown, asking_query(contract, "a text to ask about"))


@every_text_contract
def test_prompts_are_the_golden_ones_letter_by_letter(contract: TextContract) -> None:
    parts = {"writing": _writing(contract)} if contract.generation else {}
    parts |= {
        "asking": _asking(contract),
        "zero-shot": asking_prompt(contract, (), asking_query(contract, "")),
    }
    if contract.prompts.answering.keywords:
        parts["keywords"] = asking_prompt(
            contract, (), keywords_query(contract, "a text to ask about", ("two", "words"))
        )
    if contract.is_classification:
        parts["continuations"] = "\n".join(continuations(contract))
    actual = "".join(f"# {name}\n{text}\n\n" for name, text in parts.items())
    path = FOLDER / f"{contract.name}.txt"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(actual, encoding="utf-8")
        pytest.skip("written anew")
    assert actual == path.read_text(encoding="utf-8")


def test_there_is_one_golden_file_per_contract() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(TEXT_CONTRACTS)


def test_the_papers_example_of_table_5() -> None:
    contract = TEXT_CONTRACTS["trec"]
    example = example_piece(contract, "How many people in the world speak French ?", "Number")
    assert instruction_piece(contract) + example + header_piece(contract, "Number") == (
        "Given a label of answer type, generate a question based on the given answer type "
        "accordingly.\n\n"
        "Answer Type: Number\nText: How many people in the world speak French ?\n\nAnswer Type: "
        "Number\nText:"
    )


def test_the_papers_examples_of_tables_7_and_8() -> None:
    trec, genre = TEXT_CONTRACTS["trec"], TEXT_CONTRACTS["mit_genre"]
    shown = asking_demonstration(
        trec, "How did serfdom develop in and then leave Russia?", "Description"
    )
    assert asking_prompt(trec, [shown], asking_query(trec, "When was Ozzy Osbourne born?")) == (
        "Classify the questions based on whether their answer type is a Number, Location, Person, "
        "Description, Entity, or Abbreviation."
        "\n\nQuestion: How did serfdom develop in and then leave Russia?\nAnswer Type: Description"
        "\n\nQuestion: When was Ozzy Osbourne born?\nAnswer Type:"
    )
    assert asking_prompt(
        genre,
        [asking_demonstration(genre, "a green ogre", "animated")],
        asking_query(genre, "a comedy"),
    ) == ("Sentence: a green ogre\nGenre: animated\n\nSentence: a comedy\nGenre:")


def test_content_free_texts_are_asked_as_any_other() -> None:
    contract = TEXT_CONTRACTS["agnews"]
    assert [asking_query(contract, text) for text in CONTENT_FREE] == [
        "Article: N/A\nAnswer:",
        "Article: \nAnswer:",
        "Article: [MASK]\nAnswer:",
    ]
    assert continuations(contract) == (" World", " Sports", " Business", " Technology")


def test_open_answers_have_no_continuations() -> None:
    with pytest.raises(ParameterError, match="expected classification"):
        continuations(TEXT_CONTRACTS["mit_genre"])


@example("a\n\nLetter: b\x00", [])
@given(
    st.text(st.characters(exclude_categories=())),
    st.lists(st.text(st.characters(codec="utf-8")), max_size=3),
)
def test_released_texts_cannot_break_the_layout(raw: str, others: list[str]) -> None:
    contract = text_contract()
    shown = [asking_demonstration(contract, plain_text(text), "Wanted") for text in (raw, *others)]
    blocks = asking_prompt(contract, shown, asking_query(contract, "x")).split("\n\n")
    assert len(blocks) == len(shown) + 2 and all(
        len(block.split("\n")) == 2 for block in blocks[1:]
    )
