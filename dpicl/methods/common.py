"""What the methods share: prompts by cell, their scores, and the results they give.

Guarantee   none spent: works on released values, queries and model scores only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from dpicl.accounting.guarantee import Guarantee
from dpicl.contract.models import Contract
from dpicl.errors import PrivacyError
from dpicl.evaluation import Metrics, Result, majority, measure_scores
from dpicl.lm.egress import ask, prompts_of
from dpicl.lm.layout import CONTINUATIONS
from dpicl.lm.requests import Scorer
from dpicl.pipeline import Cell, Unit
from dpicl.randomness import Draws
from dpicl.tabular.serialize import CUE

Prompts = Mapping[Cell, list[str]]
Scores = Mapping[Cell, np.ndarray]
CONTENT_FREE = "N/A."
ZERO_SHOT = Cell("zero-shot", shots=0)
MAJORITY = Cell("majority")


@dataclass(frozen=True)
class Cost:
    """What one cell's release costs: as drawn, and after amplification by subsampling."""

    nominal: Guarantee
    amplified: Guarantee | None = None

    @property
    def charged(self) -> Guarantee:
        """What an account is charged: the cost of everything that was done, subsampling included."""
        return self.amplified or self.nominal


def draws_for(contract: Contract, seed: int) -> Draws:
    """Seeded streams on benchmarks, the operating system's randomness otherwise."""
    return Draws(seed, contract.name, simulated=contract.privacy.budget.benchmark)


def check_supported(contract: Contract, unit: Unit) -> None:
    """Refuse what this version cannot guarantee, before any private row is read.

    Raises:
        PrivacyError: no noise or central baselines on a table that is not a benchmark, or
            central baselines where persons are protected.
    """
    if contract.privacy.person and unit.baselines and unit.method == "gdp_tabicl":
        raise PrivacyError(f"{contract.name}: central baselines protect rows, not persons; run with baselines off")
    if contract.privacy.budget.benchmark:
        return
    if any(np.isinf(epsilon) for epsilon in unit.epsilons):
        raise PrivacyError(f"{contract.name}: epsilon=inf releases rows without noise; only a contract with `benchmark: true` allows it")
    if unit.baselines and unit.method == "gdp_tabicl":
        raise PrivacyError(f"{contract.name}: central baselines read the rows again and are charged to no budget; run with baselines off")


def score_cells(
    prompts: Prompts, contract: Contract, scorer: Scorer, *, progress: Callable[[int], None] | None = None
) -> dict[Cell, np.ndarray]:
    """Summed log-probabilities of No and Yes for every prompt, cell by cell.

    Returns:
        For each cell shape (queries, 2).
    """
    return {cell: ask(scorer, prompts_of(texts, contract, cell), CONTINUATIONS, progress=progress) for cell, texts in prompts.items()}


def with_content_free(prompts: Prompts, contract: Contract, unit: Unit) -> dict[Cell, list[str]]:
    """The prompts, and where the unit calibrates each in-context one again with a query that says nothing.

    Zhao et al. 2021 (arXiv 2102.09690): what the model answers then is its bias.
    """
    nothing = f"{CONTENT_FREE} {contract.label.question} {CUE}"
    free = {
        replace(cell, system="content-free"): texts for cell, texts in prompts.items() if cell.system == "icl" and unit.options.calibrate
    }
    return {**prompts, **{cell: ["\n".join([*text.split("\n")[:-1], nothing]) for text in texts] for cell, texts in free.items()}}


def _calibrated(scores: Scores) -> dict[Cell, np.ndarray]:
    """What is measured: the scores, with every content-free one taken off the one that it belongs to."""
    free = {cell: table for cell, table in scores.items() if cell.system == "content-free"}
    asked = {cell: table for cell, table in scores.items() if cell not in free}
    return asked | {replace(cell, system="icl-calibrated"): scores[replace(cell, system="icl")] - table for cell, table in free.items()}


def results(unit: Unit, scores: Scores, truth: np.ndarray, baselines: Mapping[Cell, Metrics], costs: Mapping[Cell, Cost]) -> list[Result]:
    """One row per cell: the model's, the majority's and the baselines'.

    Args:
        truth: labels of the queries that the model was asked, shape (queries,).
    """
    measured = {cell: measure_scores(truth, table) for cell, table in _calibrated(scores).items()}
    everything = {**measured, MAJORITY: majority(truth), **baselines}
    return [_result(unit, cell, metrics, costs.get(cell) or costs.get(replace(cell, system="icl"))) for cell, metrics in everything.items()]


def _result(unit: Unit, cell: Cell, metrics: Metrics, cost: Cost | None) -> Result:
    return Result(
        method=unit.method,
        system=cell.system,
        dataset=unit.dataset,
        seed=unit.seed,
        epsilon=cell.epsilon,
        shots=cell.shots,
        sampling_rate=None if cell.sampling_rate is None else float(cell.sampling_rate),
        amplified_epsilon=cost.amplified.epsilon if cost and cost.amplified else None,
        query_count=metrics.query_count,
        accuracy=metrics.accuracy,
        balanced_accuracy=metrics.balanced_accuracy,
        auc=metrics.auc,
    )
