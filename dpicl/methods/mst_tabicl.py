"""MST-TabICL: rows drawn from a private graphical model demonstrate.

Trust       Central: a curator holds the rows; only noisy counts leave, and rows are drawn from these.
Unit        One row; or one person, of whom at most m rows enter.
Neighbours  ADD_OR_REMOVE_ONE; a contract with REPLACE_ONE is charged twice. A person costs m rows.
Guarantee   epsilon-DP, delta = 0. The model, rows drawn from it, and which of them demonstrate
            are post-processing: any number of shots and queries for the price of one release.
Paper       MST (arXiv 2108.04978) in the place of the group averages of Carey, Bhaila, Edemacu and
            Wu 2024 (arXiv 2403.05681).

    0  D  <- at most m rows of every person (where persons are protected)
    1  c  <- noisy counts of columns with the label, and of chosen pairs with it     `spanning_tree`
    2  P  <- the graphical model of these counts                                     `graphical_model`
    3  z  <- k rows of P for each query
    4  E  <- serialise(z);  ask the model with (E, query)

Rows are told apart by the contract's public levels of every column (`levels`).

Symbols     k shots, m the contract's most rows per person.
Not covered queries, which are sent as they are; every (epsilon, seed) is a release of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec

from dpicl.baselines import local_baselines
from dpicl.contract.models import Contract
from dpicl.errors import ParameterError
from dpicl.evaluation import Metrics, Result
from dpicl.lm.requests import Scorer
from dpicl.methods import tabular_answers as answers
from dpicl.methods.common import Cost, asked_epsilon, check_free, draws_for, for_unit, results
from dpicl.methods.interface import Baselines, Data, Trust
from dpicl.methods.row_prompts import Pool, row_examples, row_prompts
from dpicl.methods.tabular_answers import truth_of
from dpicl.pipeline import Cell, Unit
from dpicl.randomness import Draws
from dpicl.tabular.contribution import contributing_rows
from dpicl.tabular.estimate import LEAST_ROWS
from dpicl.tabular.graphical_model import graphical_model
from dpicl.tabular.levels import row_demonstrations, row_encoding, row_levels
from dpicl.tabular.serialize import central_queries
from dpicl.tabular.spanning_tree import ExactCounts, NoisyMarginal, check_counts, guarantee, measure
from dpicl.tabular.split import SplitTable
from dpicl.types import EncodedQueries, PrivateCodes, PrivateTable, QueryTable, ReleasedRows

CITATIONS = ("mckenna2021winning", "carey2024dptabicl")
VERSION = 2
"""Raised when the same parameters would give another release."""
DATA: Data = "table"
TRUST: Trust = "central"
MODEL_READS_ROWS = False
BASELINES: Baselines = "released"
ANSWERS_QUERIES = False

__all__ = [
    "ANSWERS_QUERIES",
    "BASELINES",
    "DATA",
    "MODEL_READS_ROWS",
    "TRUST",
    "VERSION",
    "answers",
    "baselines",
    "costs",
    "count",
    "exact_counts",
    "examples",
    "identity",
    "measured",
    "model_rows",
    "releases",
    "run",
    "serialise",
    "statement",
    "truth_of",
]


def release_cells(unit: Unit) -> list[Cell]:
    """One release per epsilon, whatever the shots."""
    return [Cell("counts", epsilon) for epsilon in unit.epsilons]


def count(
    train: PrivateTable, contract: Contract, unit: Unit, draws: Draws, *, cells: Sequence[Cell] | None = None
) -> dict[Cell, list[NoisyMarginal]]:
    """Steps 0 and 1 for every epsilon (or some): the only ones that see rows."""
    exact = exact_counts(train, contract, draws)
    return measured(dict.fromkeys(release_cells(unit) if cells is None else cells, exact), draws)


def exact_counts(train: PrivateTable, contract: Contract, draws: Draws) -> ExactCounts:
    """What step 1 needs to know of the rows; private. Those of all batches of a table add up."""
    truth = row_levels(train, contract)[contributing_rows(train, contract, draws)]
    return ExactCounts.of(PrivateCodes(truth), row_encoding(contract).sizes)


def measured(exact: Mapping[Cell, ExactCounts], draws: Draws) -> dict[Cell, list[NoisyMarginal]]:
    """Step 1 from exact counts of the whole table: the only draw of noise."""
    return {cell: measure(counts, epsilon=asked_epsilon(cell), stream=draws.secret("counts", cell.key)) for cell, counts in exact.items()}


def model_rows(counted: Mapping[Cell, Sequence[NoisyMarginal]], contract: Contract, draws: Draws) -> dict[Cell, ReleasedRows]:
    """Step 2 for every epsilon, and rows to draw from."""
    sizes = row_encoding(contract).sizes
    return {
        cell: ReleasedRows(
            graphical_model(sizes, marginals).rows(LEAST_ROWS, draws.public("rows", cell.key).generator()).astype("uint8"),
        )
        for cell, marginals in counted.items()
    }


def serialise(
    drawn: Mapping[Cell, ReleasedRows], queries: QueryTable, contract: Contract, unit: Unit, draws: Draws
) -> dict[Cell, list[str]]:
    """Steps 3 and 4 for every cell: one prompt per query."""
    levels, asked = row_levels(queries, contract), central_queries(queries, contract)
    return row_prompts(_pools(drawn, contract, unit), levels, asked, _told(contract), draws, alone=contract.evaluation == "charged")


def examples(drawn: Mapping[Cell, ReleasedRows], contract: Contract, unit: Unit, draws: Draws) -> dict[Cell, list[str]]:
    """Step 3 for every in-context cell and one query, whatever it is."""
    return row_examples(_pools(drawn, contract, unit), _told(contract), draws)


def _pools(drawn: Mapping[Cell, ReleasedRows], contract: Contract, unit: Unit) -> dict[Cell, Pool]:
    encoding, cells = row_encoding(contract), (cell for cell in unit.asked_cells() if cell.system != "content-free")
    return {cell: Pool(drawn[Cell("counts", cell.epsilon)].codes, encoding) for cell in cells}


def _told(contract: Contract) -> Callable[[Pool], list[str]]:
    return lambda pool: row_demonstrations(pool.codes, contract)


def baselines(drawn: Mapping[Cell, ReleasedRows], test: QueryTable, contract: Contract, unit: Unit) -> dict[Cell, Metrics]:
    """Logistic regression and naive Bayes fitted on rows of the model, at no further cost."""
    encoded, encoding = EncodedQueries(row_levels(test, contract)), row_encoding(contract)
    return {
        Cell(name, cell.epsilon): metrics
        for cell, rows in drawn.items()
        for name, metrics in local_baselines(rows, encoding, encoded).items()
    }


def releases(contract: Contract, unit: Unit) -> dict[Cell, Cost]:
    """What this unit spends: one release per epsilon.

    Raises:
        ParameterError: what fits the model is not installed, or there is more to count than fits into memory.
    """
    check_counts(row_encoding(contract).sizes, contract.name)
    if find_spec("mbi") is None:
        raise ParameterError("methods", "mst_tabicl", "package mbi for it: pip install 'dpicl[models]'")
    return {cell: Cost(for_unit(guarantee(asked_epsilon(cell)), contract)) for cell in release_cells(unit)}


def costs(contract: Contract, unit: Unit) -> dict[Cell, Cost]:
    """What every cell costs, known before any row is read."""
    paid = releases(contract, unit)
    asked = {cell: paid[Cell("counts", cell.epsilon)] for cell in unit.asked_cells() if cell.epsilon is not None}
    return {**asked, **{Cell(name, cell.epsilon): cost for cell, cost in paid.items() for name in ("lr", "gnb")}}


def identity(contract: Contract, unit: Unit, cell: Cell) -> dict[str, object]:
    """What makes a release another one besides epsilon, shots and seed; public."""
    return unit.options.mst_tabicl.model_dump(mode="json")


def statement(contract: Contract, unit: Unit, cell: Cell, cost: Cost) -> str:
    """The guarantee of one cell as a sentence."""
    return (
        f"The released counts are {cost.nominal.epsilon:.4g}-DP; rows drawn from their model demonstrate for any number of queries and "
        "shots. Every seed is a release of its own."
    )


def run(split: SplitTable, contract: Contract, unit: Unit, scorer: Scorer) -> list[Result]:
    """Steps 0 to 4 on one table, without any orchestrator: the same results as the flow."""
    check_free(contract, unit)
    draws = draws_for(contract, unit.seed)
    drawn = model_rows(count(split.train, contract, unit, draws), contract, draws)
    prompts = serialise(drawn, split.queries, contract, unit, draws)
    measured = baselines(drawn, split.test, contract, unit) if unit.baselines else {}
    said = {
        cell: answers.ask_cell(scorer, texts, contract, cell) for cell, texts in answers.with_content_free(prompts, contract, unit).items()
    }
    metrics = answers.metrics_of(said, truth_of(split.queries, contract), contract)
    return results(unit, {**metrics, **measured}, costs(contract, unit))
