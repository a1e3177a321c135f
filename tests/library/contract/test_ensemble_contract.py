"""Contracts over texts that are answered by ensembles: public sizes, small rates, and answers that
are texts.
"""

from __future__ import annotations

from fractions import Fraction

from dpicl.contract import TextContract

from ..text_contracts import (
    as_ensemble,
    as_extraction,
    as_free_text,
    every_text_contract,
    text_contract,
)


def test_answers_that_are_texts_have_no_labels() -> None:
    free, extraction = text_contract(as_free_text), text_contract(as_extraction)
    assert (free.demonstrated, free.row_bounds, free.is_classification) == ((), {"": 4}, False)
    assert free.label_text("whatever is said") == "whatever is said"
    sizes = free.ensemble
    assert (sizes.delta, sizes.candidates, sizes.keywords) == (Fraction(1, 100), 4, 3)
    assert (free.generation, extraction.ensemble) == (None, None)
    usual = text_contract(
        lambda content: (
            as_free_text(content),
            content.update(ensemble={"subsets": 2, "delta": "1/100"}),
        )
    ).ensemble
    assert (usual.candidates, usual.keywords) == (100, 10)


def test_one_contract_may_serve_both_methods() -> None:
    contract = text_contract(as_ensemble)
    assert contract.generation and contract.ensemble


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
    subsets, stated = RATES[contract.name]
    rate = Fraction(4 * subsets, sum(contract.row_bounds.values()))
    assert contract.ensemble.subsets == subsets and rate == Fraction(stated) < Fraction(1, 5)


@every_text_contract
def test_answers_that_are_texts_can_be_written_from_keywords(contract: TextContract) -> None:
    assert (contract.prompts.answering.keywords is not None) == (contract.task.kind == "generation")
