"""A whole method without a ledger or a run, on benchmarks only: what runs are compared with."""

from __future__ import annotations

from typing import Any

from dpicl.contract.models import Contract
from dpicl.contract.pipeline import Unit
from dpicl.contract.text import TextContract
from dpicl.data.reading.split import SplitTable
from dpicl.ground.types import PrivateTable
from dpicl.ground.types import SplitTable as SplitTexts
from dpicl.methods import on_texts, tabular
from dpicl.methods.base import draws_for, results
from dpicl.methods.evaluation import Result
from dpicl.methods.tabular_method import Released
from dpicl.models.embedding import Embedder
from dpicl.models.requests import Scorer


def run(split: SplitTable, contract: Contract, unit: Unit, scorer: Scorer) -> list[Result]:
    """One unit on a table, from rows to results.

    Raises:
        PrivacyError: the method refuses the contract, or it is not a benchmark's.
    """
    method = tabular(unit.method)
    released = release(split.train, contract, unit)
    draws = draws_for(contract, unit.seed)
    prompts = method.prompts(released, split.queries, contract, unit, draws)
    said = {
        cell: method.answers.ask_cell(scorer, texts, contract, cell)
        for cell, texts in prompts.items()
    }
    metrics = method.answers.metrics_of(said, split.queries, contract)
    if method.fits_baselines(contract, unit):
        metrics |= method.fitted(released, lambda: split.train, split.test, contract, unit, draws)
    return results(unit, metrics, method.costs(contract, unit))


def release(train: PrivateTable, contract: Contract, unit: Unit) -> Released[Any]:
    """All releases of one unit, and the rows derived from them.

    Raises:
        PrivacyError: the method refuses the contract, or it is not a benchmark's.
    """
    return tabular(unit.method).in_memory(train, contract, unit, draws_for(contract, unit.seed))


def run_texts(
    split: SplitTexts,
    contract: TextContract,
    unit: Unit,
    scorer: Scorer,
    model: Any,
    embedder: Embedder | None = None,
) -> list[Result]:
    """One unit on texts.

    Args:
        model: reads the private texts: a generator model where rows vote on tokens, else a scorer.
        embedder: of open answers that are aggregated as points.

    Raises:
        PrivacyError: the method refuses the contract, or it is not a benchmark's.
    """
    method = on_texts(unit.method)
    released, public = method.in_memory(split.train, split.queries, contract, unit, model, embedder)
    prompts = method.prompts(released, public, split.train, split.queries, contract, unit)
    said = {
        cell: method.answers.ask_cell(scorer, texts, contract, cell)
        for cell, texts in prompts.items()
    }
    said |= method.final_answers(released, contract)
    metrics = method.answers.metrics_of(said, split.queries, contract)
    return results(unit, metrics, method.costs(contract, unit))
