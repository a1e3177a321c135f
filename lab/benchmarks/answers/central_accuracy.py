"""Logistic regression trained on rows of a central model, beside diffprivlib's at the same epsilon,
on eight real sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np

from dpicl.contract import Contract
from dpicl.contract.pipeline import Cell, Unit
from dpicl.data.central.exact_counts import row_bins, row_encoding
from dpicl.ground.types import EncodedQueries, ReleasedRows, SplitTable
from dpicl.methods import Options, tabular, tabular_answers, unit_of
from dpicl.methods.base import draws_for
from dpicl.methods.baselines import local_baselines
from dpicl.methods.evaluation import Metrics, majority
from dpicl.methods.tabular_method import Released
from lab import in_memory
from lab.benchmarks.answers.local_accuracy import SEEDS
from lab.benchmarks.figures import Figures
from lab.benchmarks.real_tables import EIGHT, at_hand, real_table

EPSILON = 1.0
SHOWN = {"rows": "rows", "lr": "dp lr", "gnb": "dp gnb", "bins": "lr bins", "table": "lr table"}
"""LR on released rows; diffprivlib's; LR on true rows at the contract's bins, and as they are."""
LARGE, GOAL = ("adult", "bank", "calhousing", "jungle"), 3
"""Sets with more than ten thousand rows, and how many points released rows may be under the table
itself.
"""


def _unit(method: str, contract: Contract, seed: int, *epsilons: float) -> Unit:
    return unit_of(method, contract.name, seed, epsilons, (1,), (), True, Options())


def _measured(contract: Contract, split: SplitTable, seed: int) -> Mapping[str, Metrics]:
    draws, unit = draws_for(contract, seed), _unit("mst_tabicl", contract, seed, EPSILON)
    released = in_memory.of_table(tabular("mst_tabicl"), split.train, contract, unit, draws)
    central_unit = _unit("gdp_tabicl", contract, seed, EPSILON, inf)
    central = tabular("gdp_tabicl").baselines(
        Released({}), split.train, split.test, contract, central_unit, draws
    )
    encoding, truth = row_encoding(contract), ReleasedRows(row_bins(split.train, contract))
    return {
        "rows": tabular("mst_tabicl").baselines(released, None, split.test, contract, unit, draws)[
            Cell("lr", EPSILON)
        ],
        "lr": central[Cell("lr", EPSILON)],
        "gnb": central[Cell("gnb", EPSILON)],
        "bins": local_baselines(truth, encoding, EncodedQueries(row_bins(split.test, contract)))[
            "lr"
        ],
        "table": central[Cell("lr", inf)],
    }


def measure(figures: Figures) -> None:
    """Points between rows at epsilon = 1 and non-private training, by large set."""
    if not at_hand():
        return
    print(f"{'accuracy':12}{'majority':>10}" + "".join(f"{told:>10}" for told in SHOWN.values()))
    shown = []
    for name in EIGHT:
        contract, split = real_table(name)
        runs = [_measured(contract, split, seed) for seed in SEEDS]
        means = {key: float(np.mean([run[key].accuracy for run in runs])) for key in runs[0]}
        most = majority(tabular_answers.truth_of(split.test, contract)).accuracy
        print(
            f"{name:12}{most:10.3f}" + "".join(f"{means[key]:10.3f}" for key in SHOWN), flush=True
        )
        shown.append([most, *(means[key] for key in SHOWN)])
        if name in LARGE:
            figures.at_most(
                f"central-rows-points-under-non-private-{name}",
                100 * (means["table"] - means["rows"]),
                GOAL,
            )
    print(f"{'mean':12}" + "".join(f"{mean:10.3f}" for mean in np.mean(shown, axis=0)))
