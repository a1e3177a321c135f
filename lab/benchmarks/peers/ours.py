"""dpicl's own systems, on the bins of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpicl.contract.pipeline import Cell
from dpicl.data.central import adaptive, spanning_tree
from dpicl.data.central.exact_counts import ExactCounts
from dpicl.data.central.graphical_model import GraphicalModel, NoisyMarginal, graphical_model
from dpicl.data.central.spanning_tree import cautious_rows
from dpicl.ground.randomness import stream
from dpicl.ground.types import PrivateCodes
from dpicl.mechanisms.noisy_steps import PureBudget
from dpicl.methods import Options, tabular, unit_of
from dpicl.methods.base import draws_for
from dpicl.methods.options import LdpOptions
from lab import in_memory
from lab.benchmarks.answers.local_accuracy import WAYS
from lab.benchmarks.peers.list_of_systems import ROWS
from lab.benchmarks.peers.list_of_tables import contract_split
from lab.benchmarks.peers.scores import Arrays, of_rows

Job = dict[str, Any]
_LOCAL = "subset"


def run_mst_tabicl(table: Arrays, job: Job) -> dict[str, float]:
    """As MST-TabICL draws its rows."""
    model, _ = _model(spanning_tree.measure, table, job)
    return of_rows(model.rows(ROWS, np.random.default_rng(job["seed"])), table)


def run_aim_tabicl(table: Arrays, job: Job) -> dict[str, float]:
    """As AIM-TabICL draws its rows."""
    model, counts = _model(adaptive.measure, table, job)
    chance = np.random.default_rng(job["seed"])
    return of_rows(cautious_rows(model, counts, ROWS, chance), table)


def run_ldp_tabicl(table: Arrays, job: Job) -> dict[str, float] | None:
    """Logistic regression on rows of the recommended collection; of tables with a contract."""
    if not job["contract"]:
        return None
    contract, split = contract_split(job["table"], job["seed"])
    options = Options.model_validate({"ldp_tabicl": LdpOptions(variants={_LOCAL: WAYS[_LOCAL]})})
    unit = unit_of(
        "ldp_tabicl", contract.name, job["seed"], (job["epsilon"],), (1,), (), True, options
    )
    method, draws = tabular("ldp_tabicl"), draws_for(contract, job["seed"])
    found = method.baselines(
        in_memory.of_table(method, split.train, contract, unit, draws),
        None,
        split.test,
        contract,
        unit,
        draws,
    )
    score = found[Cell(f"lr-{_LOCAL}", job["epsilon"])].auc
    assert score is not None
    return {"gb": score, "lr": score}


def _model(
    measure: Callable[..., list[NoisyMarginal]], table: Arrays, job: Job
) -> tuple[GraphicalModel, list[NoisyMarginal]]:
    sizes = tuple(int(size) for size in table["sizes"])
    exact = ExactCounts.of(PrivateCodes(table["train_codes"].astype(np.uint8)), sizes, triples=True)
    counts = measure(
        exact,
        budget=PureBudget.of(job["epsilon"]),
        stream=stream(job["seed"], "bench", job["system"], str(job["epsilon"])),
    )
    return graphical_model(sizes, counts), counts
