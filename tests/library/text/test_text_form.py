"""The form of texts is told of those that are released, and moves neither a digest nor a name."""

from __future__ import annotations

import pytest

from dpicl.contract.load import contract_digest
from dpicl.contract.text import Form
from dpicl.data.text_files import Formed, has_form
from dpicl.report.load import Forms
from dpicl.report.sentences import formed
from tests.library.text_contracts import TEXT_CONTRACTS, text_contract

QUESTIONS = [
    "Who wrote it ?",
    "What is `` it '' ?",
    'Did he say "why?"',
    "How (and when?)",
    "Où est-il?",
]
SENTENCES = ["It is so.", "Stop!", 'He said "no."', "And then…"]
NEITHER = [
    "",
    "?",
    "...",
    "On average, there are 17.2 GMO eight hours every",
    "In the context of the upcoming awards ceremony",
]


@pytest.mark.parametrize("form", ["question", "sentence"])
def test_a_text_has_a_form_by_how_it_ends(form: Form) -> None:
    texts = {"question": QUESTIONS, "sentence": [*QUESTIONS, *SENTENCES]}[form]
    assert [text for text in [*QUESTIONS, *SENTENCES, *NEITHER] if has_form(text, form)] == texts


def test_counts_are_told_in_words() -> None:
    assert str(Formed.of([*QUESTIONS[:1], *NEITHER], "question")) == "1 of 6 texts is a question"
    assert (
        str(Formed.of([*QUESTIONS, *SENTENCES], "sentence")) == "9 of 9 texts are a whole sentence"
    )


def test_a_form_is_no_part_of_what_names_a_release() -> None:
    plain, formed = (
        text_contract(lambda content, form=form: content.update(form=form) if form else None)
        for form in (None, "question")
    )
    assert contract_digest(plain) == contract_digest(formed) and plain != formed
    assert "form" not in plain.model_dump(mode="json")
    assert TEXT_CONTRACTS["trec"].form == "question"


def test_shares_are_over_seeds_by_epsilon_and_of_what_is_released_alone() -> None:
    half, none = Formed("question", 1, 2), Formed("question", 0, 2)
    units = [
        Forms(
            "few_shot_generation",
            "trec",
            seed,
            {
                "icl,epsilon=1.0,shots=2": none,
                "icl-ink,epsilon=8.0,shots=2": half,
                "icl,epsilon=inf,shots=2": half,
            },
        )
        for seed in "01"
    ]
    (sentence,) = formed(units)
    told = (
        "DP few-shot generation on trec: released texts that are a question, as all texts of the "
        "contract are: "
    )
    assert sentence == f"{told}0 of 4 at ε = 1; 2 of 4 at in-context, ink, ε = 8"
    assert (
        list(formed([Forms("few_shot_generation", "trec", "0", {"icl,epsilon=inf,shots=2": half})]))
        == []
    )
