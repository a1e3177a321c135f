"""LDP-TabICL: randomised at the client, reconstructed, sampled afresh for every query.

Trust       Local: nobody but the client sees a true answer.
Unit        One client, who reports every attribute and the label once; where the contract
            protects persons, a client is a person and reports m rows of their own.
Neighbours  REPLACE_ONE of what that client holds.
Guarantee   epsilon-LDP per client and epsilon asked for; delta = 0. Reconstruction, sampling
            and prompting are post-processing.
Paper       Carey, Bhaila, Edemacu and Wu 2024 (arXiv 2403.05681), algorithm 1.

    1  D^ <- every client reports attribute i under epsilon_i = epsilon / d
    2  D~ <- reconstruct(D^) through the inverse of the distortion matrices
    3  z  <- k rows of D~, drawn afresh for each query
    4  E  <- serialise(z);  ask the model with (E, query)

Symbols     d reported answers, k shots, m the contract's most rows per person.
Not covered queries, which are sent as they are; collecting twice from one client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpicl.accounting.guarantee import Guarantee, compose_sequential
from dpicl.baselines import local_baselines
from dpicl.contract.models import Contract
from dpicl.evaluation import Metrics, Result
from dpicl.lm.layout import prompt
from dpicl.lm.requests import Scorer
from dpicl.mechanisms.randomised_response import Response, randomise, response
from dpicl.methods import tabular_answers as answers
from dpicl.methods.common import ZERO_SHOT, Cost, check_supported, draws_for, results
from dpicl.pipeline import Cell, Unit
from dpicl.randomness import Draws
from dpicl.tabular import reconstruct as tabular_reconstruct
from dpicl.tabular.contribution import reporting_rows
from dpicl.tabular.encode import LocalEncoding, encode_clients, encode_queries
from dpicl.tabular.serialize import local_demonstrations, local_queries
from dpicl.tabular.shots import picked_rows
from dpicl.tabular.split import SplitTable
from dpicl.types import LocalReports, PrivateTable, QueryTable, ReleasedRows

CITATIONS = ("carey2024dptabicl",)
VERSION = 1
"""Raised when the same parameters would give another release."""


@dataclass(frozen=True)
class Collection:
    """What the clients sent at one epsilon, and the public laws they drew from."""

    reports: LocalReports
    laws: tuple[Response, ...]


def laws_for(encoding: LocalEncoding, epsilon: float) -> tuple[Response, ...]:
    """Step 1's distortion matrices: epsilon split equally over the answers of one client."""
    return tuple(response(epsilon=epsilon / len(encoding.sizes), categories=size) for size in encoding.sizes)


def collect(
    train: PrivateTable, contract: Contract, unit: Unit, draws: Draws, *, epsilons: Sequence[float] | None = None
) -> dict[float, Collection]:
    """Step 1 at every epsilon (or some) of the unit; the only step that sees true answers."""
    encoding = encoding_of(contract, unit)
    truth = encode_clients(train, contract, encoding)
    reported = truth.codes[reporting_rows(train, contract, draws)]
    collections = {}
    for epsilon in unit.epsilons if epsilons is None else epsilons:
        laws = laws_for(encoding, epsilon)
        stream = draws.secret("randomise", f"epsilon={epsilon}")
        reports = [randomise(reported[:, i], law, stream) for i, law in enumerate(laws)]
        collections[epsilon] = Collection(LocalReports(np.stack(reports, axis=1)), laws)
    return collections


def reconstruct(collections: Mapping[float, Collection], unit: Unit) -> dict[float, ReleasedRows]:
    """Step 2 at every epsilon."""
    estimator = unit.options.ldp_tabicl.estimator
    return {epsilon: tabular_reconstruct.reconstruct(c.reports, c.laws, estimator=estimator) for epsilon, c in collections.items()}


def encoding_of(contract: Contract, unit: Unit) -> LocalEncoding:
    """The answers that this unit's clients give."""
    return LocalEncoding.of(contract, unit.options.ldp_tabicl.encoding)


def serialise(
    reconstructed: Mapping[float, ReleasedRows],
    collections: Mapping[float, Collection],
    queries: QueryTable,
    contract: Contract,
    unit: Unit,
    draws: Draws,
) -> dict[Cell, list[str]]:
    """Steps 3 and 4 for every cell: one prompt per query.

    Beside the method's own cells stand zero-shot prompts and, at every finite epsilon,
    prompts of raw randomised rows, which show what reconstruction is worth.
    """
    asked = local_queries(encode_queries(queries, contract), contract)
    prompts: dict[Cell, list[str]] = {ZERO_SHOT: asked}
    raw = {epsilon: ReleasedRows(collection.reports.codes) for epsilon, collection in collections.items()}
    for system in (system for system in unit.systems if system != "content-free"):
        rows_at = raw if system == "raw-rows" else reconstructed
        for cell in unit.cells(system):
            assert cell.epsilon is not None and cell.shots is not None
            if system == "raw-rows" and np.isinf(cell.epsilon):
                continue
            codes = rows_at[cell.epsilon].codes
            sampled = codes[picked_rows(len(codes), len(asked), cell, draws).ravel()]
            texts = local_demonstrations(ReleasedRows(sampled), encoding_of(contract, unit).decode, contract)
            prompts[cell] = [prompt(texts[i * cell.shots : (i + 1) * cell.shots], query) for i, query in enumerate(asked)]
    return prompts


def baselines(reconstructed: Mapping[float, ReleasedRows], test: QueryTable, contract: Contract, unit: Unit) -> dict[Cell, Metrics]:
    """LR* and GNB*: fitted on the reconstructed rows, at no further cost."""
    encoding, encoded = encoding_of(contract, unit), encode_queries(test, contract)
    return {
        Cell(name, epsilon): metrics
        for epsilon, rows in reconstructed.items()
        for name, metrics in local_baselines(rows, encoding, encoded).items()
    }


def costs(contract: Contract, unit: Unit) -> dict[Cell, Cost]:
    """What every cell costs each client, known before any answer is given."""
    paid = {cell.epsilon: cost for cell, cost in releases(contract, unit).items()}
    cells = [*unit.asked_cells(), *(Cell(name, e) for e in unit.epsilons for name in ("lr", "gnb"))]
    return {cell: paid[cell.epsilon] for cell in cells if cell.epsilon is not None}


def releases(contract: Contract, unit: Unit) -> dict[Cell, Cost]:
    """What this unit spends: every client reports once per epsilon, whatever the shots."""
    laws = {epsilon: laws_for(encoding_of(contract, unit), epsilon) for epsilon in unit.epsilons}
    return {Cell("reports", epsilon): Cost(client_guarantee(laws[epsilon], contract)) for epsilon in laws}


def client_guarantee(laws: Sequence[Response], contract: Contract) -> Guarantee:
    """Cost to one client: every answer on every row they report, in sequence."""
    person = contract.privacy.person
    return compose_sequential([law.guarantee() for law in laws] * (person.max_rows if person else 1))


def statement(contract: Contract, unit: Unit, cell: Cell, cost: Cost) -> str:
    """The guarantee of one cell as a sentence."""
    return f"Every client's reports are {cost.nominal.epsilon:.4g}-LDP before they leave the client; everything after is post-processing."


def truth_of(queries: QueryTable, contract: Contract) -> np.ndarray:
    """Labels of the queries, shape (queries,)."""
    return np.asarray(encode_queries(queries, contract).codes[:, -1])


def run(split: SplitTable, contract: Contract, unit: Unit, scorer: Scorer) -> list[Result]:
    """Algorithm 1 on one table, without any orchestrator: the same results as the flow."""
    check_supported(contract, unit)
    draws = draws_for(contract, unit.seed)
    collections = collect(split.train, contract, unit, draws)
    reconstructed = reconstruct(collections, unit)
    prompts = serialise(reconstructed, collections, split.queries, contract, unit, draws)
    measured = baselines(reconstructed, split.test, contract, unit) if unit.baselines else {}
    said = {
        cell: answers.ask_cell(scorer, texts, contract, cell) for cell, texts in answers.with_content_free(prompts, contract, unit).items()
    }
    metrics = answers.metrics_of(said, truth_of(split.queries, contract), contract)
    return results(unit, {**metrics, **measured}, costs(contract, unit))
