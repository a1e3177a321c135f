"""LDP-TabICL: randomised at the client, reconstructed, sampled afresh for every query.

Trust       Local: nobody but the client sees a true answer.
Unit        One client, who reports every attribute and the label once; where the contract
            protects persons, a client is a person and reports m rows of their own.
Neighbours  REPLACE_ONE of what that client holds.
Guarantee   epsilon-LDP per client and epsilon asked for; delta = 0. Reconstruction, sampling
            and prompting are post-processing.
Paper       Carey, Bhaila, Edemacu and Wu 2024 (arXiv 2403.05681), algorithm 1.

    1  D^ <- every client reports attribute i under epsilon_i = epsilon / d, or by another design
    2  D~ <- reconstruct(D^) through the inverse of the distortion matrices, or by another estimator
    3  z  <- k rows of D~, drawn afresh for each query
    4  E  <- serialise(z);  ask the model with (E, query)

Symbols     d reported answers, k shots, m the contract's most rows per person.
Not covered queries, which are sent as they are; collecting twice from one client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from dpicl.baselines import local_baselines
from dpicl.contract.models import Contract
from dpicl.evaluation import Metrics, Result
from dpicl.lm.requests import Scorer
from dpicl.methods import tabular_answers as answers
from dpicl.methods.common import Cost, asked_epsilon, check_free, draws_for, results
from dpicl.methods.interface import Baselines, Data, Trust
from dpicl.methods.ldp_collection import Collected, collect, encoding_of, release_cells, released_by, releases
from dpicl.methods.row_prompts import Pool, row_examples, row_prompts
from dpicl.methods.tabular_answers import truth_of
from dpicl.pipeline import Cell, Unit
from dpicl.randomness import Draws
from dpicl.tabular.encode import encode_queries
from dpicl.tabular.estimate import estimated_rows
from dpicl.tabular.serialize import local_demonstrations, local_queries
from dpicl.tabular.split import SplitTable
from dpicl.types import QueryTable, ReleasedRows

CITATIONS = ("carey2024dptabicl",)
VERSION = 1
"""Raised when the same parameters would give another release."""
DATA: Data = "table"
TRUST: Trust = "local"
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
    "collect",
    "costs",
    "examples",
    "identity",
    "reconstruct",
    "releases",
    "run",
    "serialise",
    "statement",
    "truth_of",
]


def reconstruct(collections: Mapping[Cell, Collected], unit: Unit, draws: Draws) -> dict[Cell, ReleasedRows]:
    """Step 2 for every collection."""
    chosen, found = release_cells(unit), {}
    for cell, collected in collections.items():
        way = chosen[cell]
        chance = draws.public("rows", f"{way.design},{way.columns},{way.estimator},epsilon={cell.epsilon}")
        found[cell] = estimated_rows(collected, way.estimator, chance)
    return found


def serialise(
    reconstructed: Mapping[Cell, ReleasedRows],
    collections: Mapping[Cell, Collected],
    queries: QueryTable,
    contract: Contract,
    unit: Unit,
    draws: Draws,
) -> dict[Cell, list[str]]:
    """Steps 3 and 4 for every cell: one prompt per query.

    Beside the method's own cells stand zero-shot prompts and, at every finite epsilon,
    prompts of raw randomised rows, which show what reconstruction is worth.
    """
    encoded = encode_queries(queries, contract)
    pools = _pools(reconstructed, collections, contract, unit)
    return row_prompts(
        pools, encoded.codes, local_queries(encoded, contract), _told(contract), draws, alone=contract.evaluation == "charged"
    )


def examples(
    reconstructed: Mapping[Cell, ReleasedRows], collections: Mapping[Cell, Collected], contract: Contract, unit: Unit, draws: Draws
) -> dict[Cell, list[str]]:
    """Step 3 for every in-context cell and one query, whatever it is."""
    return row_examples(_pools(reconstructed, collections, contract, unit), _told(contract), draws)


def _pools(
    reconstructed: Mapping[Cell, ReleasedRows], collections: Mapping[Cell, Collected], contract: Contract, unit: Unit
) -> dict[Cell, Pool]:
    pools = {}
    for cell in unit.asked_cells():
        source = released_by(cell.system, asked_epsilon(cell), collections)
        raw = cell.system == "raw-rows"
        if cell.system != "content-free" and not (raw and np.isinf(asked_epsilon(cell))):
            codes = collections[source].stored if raw else reconstructed[source].codes
            pools[cell] = Pool(codes, encoding_of(contract, unit.options.ldp_tabicl.variant(cell.system)))
    return pools


def _told(contract: Contract) -> Callable[[Pool], list[str]]:
    return lambda pool: local_demonstrations(ReleasedRows(pool.codes), pool.encoding.decode, contract)


def baselines(reconstructed: Mapping[Cell, ReleasedRows], test: QueryTable, contract: Contract, unit: Unit) -> dict[Cell, Metrics]:
    """LR* and GNB* of every collection: fitted on the reconstructed rows, at no further cost."""
    chosen, encoded = release_cells(unit), encode_queries(test, contract)
    return {
        Cell(name + cell.system.removeprefix("reports"), cell.epsilon): metrics
        for cell, rows in reconstructed.items()
        for name, metrics in local_baselines(rows, encoding_of(contract, chosen[cell]), encoded).items()
    }


def costs(contract: Contract, unit: Unit) -> dict[Cell, Cost]:
    """What every cell costs each client, known before any answer is given."""
    paid = releases(contract, unit)
    asked = {cell: paid[released_by(cell.system, cell.epsilon, paid)] for cell in unit.asked_cells() if cell.epsilon is not None}
    fitted = {Cell(name + cell.system.removeprefix("reports"), cell.epsilon): cost for cell, cost in paid.items() for name in ("lr", "gnb")}
    return {**asked, **fitted}


def identity(contract: Contract, unit: Unit, cell: Cell) -> dict[str, object]:
    """What makes a release another one besides epsilon, shots and seed; public."""
    return {
        "sampling_rate": str(cell.sampling_rate or contract.privacy.sampling_rate),
        **release_cells(unit)[cell].model_dump(mode="json"),
    }  # of a collection it changes nothing; releases of before are named so


def statement(contract: Contract, unit: Unit, cell: Cell, cost: Cost) -> str:
    """The guarantee of one cell as a sentence."""
    return f"Every client's reports are {cost.nominal.epsilon:.4g}-LDP before they leave the client; everything after is post-processing."


def run(split: SplitTable, contract: Contract, unit: Unit, scorer: Scorer) -> list[Result]:
    """Algorithm 1 on one table, without any orchestrator: the same results as the flow."""
    check_free(contract, unit)
    draws = draws_for(contract, unit.seed)
    collections = collect(split.train, contract, unit, draws)
    reconstructed = reconstruct(collections, unit, draws)
    prompts = serialise(reconstructed, collections, split.queries, contract, unit, draws)
    measured = baselines(reconstructed, split.test, contract, unit) if unit.baselines else {}
    said = {
        cell: answers.ask_cell(scorer, texts, contract, cell) for cell, texts in answers.with_content_free(prompts, contract, unit).items()
    }
    metrics = answers.metrics_of(said, truth_of(split.queries, contract), contract)
    return results(unit, {**metrics, **measured}, costs(contract, unit))
