"""What Gaussian noise at delta = 1e-6 adds to the AUC of rows of MST's counts and of AIM's, over Laplace noise at the same epsilon: logistic
regression on released rows, asked about rows of each table that nobody drew from. Noise is seeded; rows are in the contract's bins.
"""

from __future__ import annotations

import numpy as np

from benchmarks.answers.chosen_counts import WAYS, Codes, rows_of, scored, tables
from benchmarks.figures import Figures
from dpicl.accounting.guarantee import Neighbours
from dpicl.mechanisms.noisy_steps import GaussianTotal, PureBudget, StepBudget
from dpicl.randomness import stream
from dpicl.tabular.central.exact_counts import ExactCounts
from dpicl.tabular.central.graphical_model import graphical_model
from dpicl.types import PrivateCodes

DELTA, EPSILONS, SEEDS = 1e-6, (0.1, 0.5, 1.0, 5.0, 10.0), 3
GAIN_UP_TO = 1.0
"""The largest epsilon at which a gain is a goal."""


def budgets(epsilon: float) -> dict[str, StepBudget]:
    """By kind of noise."""
    gaussian = GaussianTotal.of(epsilon, delta=DELTA, neighbours=Neighbours.ADD_OR_REMOVE_ONE)
    return {"laplace": PureBudget.of(epsilon), "gaussian": gaussian.budget}


def measure(figures: Figures) -> None:
    """The mean gain over tables and seeds by method and epsilon, and the table that gains least."""
    print(f"{'table':12}{'eps':>6}" + "".join(f"{f'{way} laplace':>14}{'gaussian':>10}{'gain':>8}" for way in WAYS))
    gains: dict[tuple[str, float], list[float]] = {(way, epsilon): [] for way in WAYS for epsilon in EPSILONS}
    for name, found in tables(("wide",), SEEDS):
        exact = {id(codes): ExactCounts.of(PrivateCodes(codes.train), codes.sizes, triples=True) for codes in found}
        for epsilon in EPSILONS:
            shown = ""
            for way in WAYS:
                aucs = {
                    kind: float(np.mean([_auc(codes, exact[id(codes)], way, budget, seed) for seed, codes in enumerate(found)]))
                    for kind, budget in budgets(epsilon).items()
                }
                gains[way, epsilon].append(aucs["gaussian"] - aucs["laplace"])
                shown += f"{aucs['laplace']:14.3f}{aucs['gaussian']:10.3f}{gains[way, epsilon][-1]:+8.3f}"
            print(f"{name:12}{epsilon:6g}{shown}", flush=True)
    for (way, epsilon), of_tables in gains.items():
        print(f"{way} at epsilon {epsilon:g}: mean gain {np.mean(of_tables):+.4f}, least {min(of_tables):+.4f}")
        if epsilon <= GAIN_UP_TO:
            figures.at_least(f"gaussian-auc-gain-{way.lower()}-epsilon-{epsilon:g}", float(np.mean(of_tables)), 0.0)


def _auc(codes: Codes, exact: ExactCounts, way: str, budget: StepBudget, seed: int) -> float:
    counts = WAYS[way](exact, budget=budget, stream=stream(seed, "bench", way, f"{budget}"))
    return scored(rows_of(way, graphical_model(codes.sizes, counts), counts, seed), codes, "LR")[1]
