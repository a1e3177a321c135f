"""Contracts over texts that are answered by ensembles: public sizes, small rates, and answers that
are texts.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpicl.contract import TextContract

from ..examples import put
from ..text_contracts import TEXT_CONTRACTS, as_ensemble, as_extraction, as_free_text, text_contract

every_text_contract = pytest.mark.parametrize(
    "contract", TEXT_CONTRACTS.values(), ids=TEXT_CONTRACTS
)


def test_answers_that_are_texts_have_no_labels() -> None:
    free, extraction = text_contract(as_free_text), text_contract(as_extraction)
    assert (free.demonstrated, free.row_bounds, free.is_classification) == ((), {"": 4}, False)
    assert free.label_text("whatever is said") == "whatever is said"
    assert (free.ensemble.delta, free.ensemble.candidates, free.ensemble.keywords) == (
        Fraction(1, 100),
        4,
        3,
    )
    assert (free.generation, extraction.ensemble) == (None, None)
    usual = text_contract(
        lambda content: (
            as_free_text(content),
            put("ensemble")({"subsets": 2, "delta": "1/100"})(content),
        )
    ).ensemble
    assert (usual.candidates, usual.keywords) == (100, 10)


def test_one_contract_may_serve_both_methods() -> None:
    contract = text_contract(as_ensemble)
    assert contract.generation is not None and contract.ensemble is not None


RATES = {
    "agnews": (10, "1/3000"),
    "amazon": (10, "1/95"),
    "dbpedia": (10, "1/14000"),
    "docstrings": (10, "1/50"),
    "docvqa": (100, "2/195"),
    "mit_director": (20, "4/75"),
    "mit_genre": (20, "4/145"),
    "samsum": (100, "4/147"),
    "sroie": (20, "8/49"),
    "sst2": (10, "1/1650"),
    "trec": (10, "2/259"),
}
"""Prompts of an ensemble, and the rate of its samples with four rows in a prompt."""


@every_text_contract
def test_an_ensemble_draws_few_of_the_rows(contract: TextContract) -> None:
    rate = Fraction(4 * contract.ensemble.subsets, sum(contract.row_bounds.values()))
    assert (contract.ensemble.subsets, rate) == (
        RATES[contract.name][0],
        Fraction(RATES[contract.name][1]),
    )
    assert rate < Fraction(1, 5)


@every_text_contract
def test_answers_that_are_texts_can_be_written_from_keywords(contract: TextContract) -> None:
    assert (contract.prompts.answering.keywords is not None) == (contract.task.kind == "generation")
