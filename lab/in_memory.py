"""All releases of a unit in this process, charged to no ledger: for benchmarks alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpicl.contract.declared import Declared
from dpicl.contract.models import Contract
from dpicl.contract.pipeline import Unit
from dpicl.contract.text import TextContract
from dpicl.data.central.aggregate import AggregateOptions, Group, exact_sums, noised
from dpicl.ground.errors import PrivacyError
from dpicl.ground.randomness import Draws, Stream
from dpicl.ground.types import PrivateTable, QueryTable, ReleasedGroups
from dpicl.methods import dp_icl, few_shot_generation, grid
from dpicl.methods.base import Method, draws_for
from dpicl.methods.ensemble_plan import plan_release
from dpicl.methods.ensemble_voting import Public, write_candidates
from dpicl.methods.tabular_method import Released, TabularMethod
from dpicl.methods.text_method import Memory, Releases, TextMethod
from dpicl.models.embedding import Embedder


def check_free(method: Method, contract: Declared, unit: Unit) -> None:
    """Refuse what would have to be charged. Raises PrivacyError: the method refuses the contract,
    or it is not a benchmark's.
    """
    grid.check(method, contract, unit)
    if not contract.privacy.budget.benchmark:
        raise PrivacyError(
            f"{contract.name}: `run` charges no ledger, and these rows have a budget; "
            f"expected a contract with `benchmark: true`, or "
            "`dpicl protect` or `dpicl run`, which charge"
        )


def averages(
    table: PrivateTable,
    members: np.ndarray,
    groups: tuple[Group, ...],
    contract: Contract,
    *,
    epsilon: float,
    options: AggregateOptions,
    stream: Stream,
) -> ReleasedGroups:
    """One released group per public key, empty ones included; `members` is each row's position in
    `groups`, or -1.
    """
    rows = np.flatnonzero(members >= 0)
    sums = exact_sums(table, rows, members[rows], groups, contract, options=options)
    return noised(sums, groups, contract, epsilon=epsilon, options=options, stream=stream)


def of_table(
    method: TabularMethod[Any], train: PrivateTable, contract: Contract, unit: Unit, draws: Draws
) -> Released[Any]:
    """All releases of a unit, and the rows derived from them. Raises PrivacyError: as
    `check_free`.
    """
    check_free(method, contract, unit)
    asked = grid.points(method, unit)
    marks = grid.prepare(method, train, contract, asked, draws)
    drawn = grid.draw(method, train, contract, asked, draws, marks)
    rows = {
        cell: method.rows(drawn[cell], contract, point, draws)
        for cell, point in (asked if method.derive_stage else {}).items()
    }
    return Released(drawn, rows)


def of_texts(
    method: TextMethod,
    train: PrivateTable,
    queries: QueryTable,
    contract: TextContract,
    unit: Unit,
    model: Any,
    embedder: Embedder | None = None,
) -> tuple[Releases, Releases]:
    """All releases of a unit, and the same written without private rows. Raises PrivacyError: as
    `check_free`.
    """
    check_free(method, contract, unit)
    draws, asked = draws_for(contract, unit.seed), grid.points(method, unit)
    memory, public = Memory(draws), {}
    if method.votes_on_tokens:
        job = few_shot_generation.job_of(contract, asked.values(), memory)
        (drawn,) = few_shot_generation.write(train, contract, model, [job])
        public = few_shot_generation.write_public(contract, unit, model)
        return {cell: drawn[point.key] for cell, point in asked.items()}, public
    plans = {point.key: plan_release(contract, point) for point in asked.values()}
    answering = dp_icl.AnsweringJob(contract, plans, draws, memory, memory, embedder)
    texts = queries.data.column("text").to_pylist()
    numbered = list(enumerate(texts))
    votes = dp_icl.consult(train, numbered, model, answering)
    candidates = Public(write_candidates(texts, contract, unit.seed, model), embedder)
    answers = dp_icl.answer(answering, votes, numbered, candidates)
    return {cell: answers[point.key] for cell, point in asked.items()}, public
