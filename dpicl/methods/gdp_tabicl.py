"""GDP-TabICL: noisy averages of public groups of a secret subsample.

Trust       Central: a curator holds the rows; only noisy averages leave.
Unit        One row; or one person, of whom at most m rows enter.
Neighbours  ADD_OR_REMOVE_ONE; a contract with REPLACE_ONE is charged twice.
            A person costs m rows: group privacy of the amplified release.
Guarantee   epsilon-DP before and ln(1 + q (e^epsilon - 1))-DP after amplification; delta = 0.
            The demonstrations answer any number of queries.
Paper       Carey, Bhaila, Edemacu and Wu 2024 (arXiv 2403.05681), algorithm 2.

    0  D <- at most m rows of every person (where persons are protected)
    1  S <- every row of D enters with probability q
    2  S_1 ... S_k <- GROUP BY public keys; every group is kept, empty or not
    3  (x^_i, y^_i) <- noisy averages of S_i
    4  E <- serialise((x^_1, y^_1) ... (x^_k, y^_k));  ask the model with (E, query)

Symbols     q public sampling rate, k shots, m the contract's most rows per person.
Not covered queries, which are sent as they are; every (epsilon, k, seed) is a release of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from dpicl.accounting.amplification import amplify, epsilon_before
from dpicl.baselines import central_baselines
from dpicl.contract.models import Contract
from dpicl.evaluation import Metrics, Result
from dpicl.lm.layout import prompt
from dpicl.lm.requests import Scorer
from dpicl.mechanisms import noisy_count
from dpicl.mechanisms.poisson_subsample import poisson_subsample
from dpicl.methods import tabular_answers as answers
from dpicl.methods.common import ZERO_SHOT, Cost, asked_epsilon, check_free, draws_for, for_unit, results, shots_of
from dpicl.methods.interface import Baselines, Data, Trust
from dpicl.methods.tabular_answers import truth_of
from dpicl.pipeline import Cell, Unit
from dpicl.randomness import Draws, Stream
from dpicl.tabular import aggregate as tabular_aggregate
from dpicl.tabular.aggregate import AggregateOptions
from dpicl.tabular.contribution import contributing_rows
from dpicl.tabular.group import assign, partition
from dpicl.tabular.serialize import central_demonstrations, central_queries
from dpicl.tabular.split import SplitTable
from dpicl.tabular.sums import GroupSums
from dpicl.types import PrivateTable, QueryTable, ReleasedGroups

CITATIONS = ("carey2024dptabicl",)
VERSION = 3
"""Raised when the same parameters would give another release."""
DATA: Data = "table"
TRUST: Trust = "central"
MODEL_READS_ROWS = False
BASELINES: Baselines = "private"
ANSWERS_QUERIES = False
LEFT_OUT = -1
"""Group number of a row that is not in the subsample."""
_ROWS_PER_BLOCK = 1 << 20
"""What is taken from so many rows at a time stays in the processor's cache."""

__all__ = [
    "ANSWERS_QUERIES",
    "BASELINES",
    "DATA",
    "MODEL_READS_ROWS",
    "TRUST",
    "VERSION",
    "aggregate",
    "answers",
    "baselines",
    "costs",
    "counted",
    "identity",
    "released",
    "releases",
    "run",
    "serialise",
    "statement",
    "truth_of",
]


def subsample_and_group(
    train: PrivateTable, contract: Contract, unit: Unit, draws: Draws, *, cells: Sequence[Cell] | None = None
) -> dict[Cell, np.ndarray]:
    """Steps 0 to 2 for every cell (or some): each row's group number or `LEFT_OUT`; private."""
    bounded = contributing_rows(train, contract, draws)
    members = {}
    for cell in unit.cells("icl") if cells is None else cells:
        rows = bounded[_drawn(len(bounded), contract, cell, draws.secret("subsample", cell.key))]
        members[cell] = np.full(train.row_count, LEFT_OUT, dtype=np.int16)
        members[cell][rows] = assign(train, contract, shots_of(cell), rows)
    return members


def _drawn(row_count: int, contract: Contract, cell: Cell, stream: Stream) -> np.ndarray:
    """Step 1: positions of the rows that are in, ascending."""
    return poisson_subsample(row_count, sampling_rate=rate_of(contract, cell), stream=stream)


def counted(batch: PrivateTable, contract: Contract, unit: Unit, draws: Draws, *, cells: Sequence[Cell]) -> dict[Cell, GroupSums]:
    """Steps 1 and 2 on one batch of a table, and the exact sums of step 3; private.

    The sums of all batches add up to what `released` takes. `draws` are the batch's own.
    """
    streams, starts = {cell: draws.secret("subsample", cell.key) for cell in cells}, range(0, max(batch.row_count, 1), _ROWS_PER_BLOCK)

    def of_block(start: int, cell: Cell) -> GroupSums:
        rows = start + _drawn(min(_ROWS_PER_BLOCK, batch.row_count - start), contract, cell, streams[cell])
        members, groups = assign(batch, contract, shots_of(cell), rows), partition(contract, shots_of(cell))
        return tabular_aggregate.exact_sums(batch, rows, members, groups, contract, options=options_of(unit))

    return {cell: GroupSums.added(of_block(start, cell) for start in starts) for cell in cells}


def released(sums: Mapping[Cell, GroupSums], contract: Contract, unit: Unit, draws: Draws) -> dict[Cell, ReleasedGroups]:
    """Step 3 from exact sums of the whole subsample: the only draw of noise."""
    return {
        cell: tabular_aggregate.noised(
            of_cell,
            partition(contract, shots_of(cell)),
            contract,
            epsilon=epsilon_of(contract, unit, cell),
            options=options_of(unit),
            stream=draws.secret("aggregate", cell.key),
        )
        for cell, of_cell in sums.items()
    }


def epsilon_of(contract: Contract, unit: Unit, cell: Cell) -> float:
    """Of the averages, before amplification; with `spent: in-all`, so that the cell's own is what is charged."""
    asked = asked_epsilon(cell)
    if unit.options.gdp_tabicl.spent == "before":
        return asked
    times = for_unit(noisy_count.guarantee(Fraction(1)), contract).epsilon
    return epsilon_before(asked / times, rate_of(contract, cell))


def rate_of(contract: Contract, cell: Cell) -> Fraction:
    """The public sampling rate of a cell: its own, or the contract's."""
    return cell.sampling_rate or contract.privacy.sampling_rate


def options_of(unit: Unit) -> AggregateOptions:
    """How this unit's averages are taken."""
    chosen = unit.options.gdp_tabicl
    return AggregateOptions(chosen.allocation, chosen.sum_origin)


def aggregate(
    train: PrivateTable, members: Mapping[Cell, np.ndarray], contract: Contract, unit: Unit, draws: Draws
) -> dict[Cell, ReleasedGroups]:
    """Step 3 for every cell that `members` has."""
    sums = {}
    for cell, numbers in members.items():
        rows, groups = np.flatnonzero(numbers != LEFT_OUT), partition(contract, shots_of(cell))
        sums[cell] = tabular_aggregate.exact_sums(train, rows, numbers[rows], groups, contract, options=options_of(unit))
    return released(sums, contract, unit, draws)


def costs(contract: Contract, unit: Unit) -> dict[Cell, Cost]:
    """What every cell costs under the contract's neighbours, known before any row is read."""
    return {cell: _cost(contract, unit, cell) for cell in unit.cells("icl")}


def _cost(contract: Contract, unit: Unit, cell: Cell) -> Cost:
    groups = partition(contract, shots_of(cell))
    nominal = tabular_aggregate.guarantee(groups, contract, epsilon=epsilon_of(contract, unit, cell), options=options_of(unit))
    amplified = amplify(nominal, rate_of(contract, cell))
    return Cost(for_unit(nominal, contract), for_unit(amplified, contract))


def serialise(released: Mapping[Cell, ReleasedGroups], queries: QueryTable, contract: Contract) -> dict[Cell, list[str]]:
    """Step 4 for every cell: one prompt per query, all with the same demonstrations."""
    asked = central_queries(queries, contract)
    prompts = {ZERO_SHOT: asked}
    for cell, groups in released.items():
        demonstrations = central_demonstrations(groups, contract)
        prompts[cell] = [prompt(demonstrations, query) for query in asked]
    return prompts


def examples(released: Mapping[Cell, ReleasedGroups], contract: Contract) -> dict[Cell, list[str]]:
    """The demonstrations of every cell, the same for all queries."""
    return {cell: central_demonstrations(groups, contract) for cell, groups in released.items()}


def baselines(split: SplitTable, contract: Contract, unit: Unit, draws: Draws) -> dict[Cell, Metrics]:
    """diffprivlib's models at every epsilon, fair and naive; scikit-learn's at infinity."""
    rate = contract.privacy.sampling_rate
    measured = {}
    for epsilon in unit.epsilons:
        stream = draws.secret("baselines", f"epsilon={epsilon}")
        kept = poisson_subsample(split.train.row_count, sampling_rate=rate, stream=stream)
        sampled = PrivateTable(split.train.data.take(kept))
        for name, metrics in central_baselines(split.train, sampled, split.test, contract, epsilon=epsilon, stream=stream).items():
            measured[Cell(name, epsilon)] = metrics
    return measured


def releases(contract: Contract, unit: Unit) -> dict[Cell, Cost]:
    """What this unit spends: every cell is a release of its own."""
    return costs(contract, unit)


def identity(contract: Contract, unit: Unit, cell: Cell) -> dict[str, object]:
    """What makes a release another one besides epsilon, shots and seed; public."""
    return {"sampling_rate": str(rate_of(contract, cell)), **unit.options.gdp_tabicl.model_dump(mode="json")}


def statement(contract: Contract, unit: Unit, cell: Cell, cost: Cost) -> str:
    """The guarantee of one cell as a sentence."""
    return (
        f"Each released set of demonstrations is {cost.nominal.epsilon:.4g}-DP, and {cost.charged.epsilon:.4g}-DP counting the secret "
        "subsample; it answers any number of queries. Every number of shots and every seed is a release of its own."
    )


def run(split: SplitTable, contract: Contract, unit: Unit, scorer: Scorer) -> list[Result]:
    """Algorithm 2 on one table, without any orchestrator: the same results as the flow."""
    check_free(contract, unit)
    draws = draws_for(contract, unit.seed)
    members = subsample_and_group(split.train, contract, unit, draws)
    groups = aggregate(split.train, members, contract, unit, draws)
    prompts = serialise(groups, split.queries, contract)
    measured = baselines(split, contract, unit, draws) if unit.baselines else {}
    said = {
        cell: answers.ask_cell(scorer, texts, contract, cell) for cell, texts in answers.with_content_free(prompts, contract, unit).items()
    }
    metrics = answers.metrics_of(said, truth_of(split.queries, contract), contract)
    return results(unit, {**metrics, **measured}, costs(contract, unit))
