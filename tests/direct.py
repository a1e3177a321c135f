"""A whole method without a ledger or a run, on benchmarks only: what runs are compared with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpicl.contract.models import Contract
from dpicl.contract.pipeline import Cell, Point, Unit
from dpicl.contract.text import TextContract
from dpicl.ground.types import PrivateTable, SplitTable
from dpicl.ground.types import SplitTable as SplitTexts
from dpicl.methods import METHODS, grid, on_texts, tabular
from dpicl.methods.base import draws_for
from dpicl.methods.evaluation import Result
from dpicl.methods.tabular_method import Released
from dpicl.models.embedding import Embedder
from dpicl.models.requests import Scorer
from lab import in_memory


def points_of(unit: Unit) -> dict[Cell, Point[Any]]:
    """What each release of a unit is asked for."""
    return grid.points(METHODS[unit.method], unit)


def point(unit: Unit, cell: Cell) -> Point[Any]:
    """What the release of a cell is asked for, whether or not it is one of the unit's."""
    some = next(iter(points_of(unit).values()))
    variants = METHODS[unit.method].variants(unit.chosen(METHODS[unit.method].options))
    assert cell.epsilon is not None
    return replace(
        some,
        key=cell.key,
        epsilon=cell.epsilon,
        options=variants.get(cell.system, some.options),
        shots=cell.shots,
        sampling_rate=cell.sampling_rate,
    )


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
    if unit.baselines and method.fits_baselines(contract):
        metrics |= method.fitted(released, lambda: split.train, split.test, contract, unit, draws)
    return grid.results(unit, metrics, grid.costs(method, contract, unit))


def release(train: PrivateTable, contract: Contract, unit: Unit) -> Released[Any]:
    """All releases of one unit, and the rows derived from them.

    Raises:
        PrivacyError: the method refuses the contract, or it is not a benchmark's.
    """
    return in_memory.of_table(
        tabular(unit.method), train, contract, unit, draws_for(contract, unit.seed)
    )


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
    released, public = in_memory.of_texts(
        method, split.train, split.queries, contract, unit, model, embedder
    )
    prompts = method.prompts(released, public, split.train, split.queries, contract, unit)
    said = {
        cell: method.answers.ask_cell(scorer, texts, contract, cell)
        for cell, texts in prompts.items()
    }
    said |= method.final_answers(released, contract)
    metrics = method.answers.metrics_of(said, split.queries, contract)
    return grid.results(unit, metrics, grid.costs(method, contract, unit))
