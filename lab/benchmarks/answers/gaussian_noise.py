"""What Gaussian noise at delta = 1e-6 adds to the AUC of rows of MST's counts and of AIM's, over
Laplace noise at the same epsilon: logistic regression on released rows, asked about rows of each
table that nobody drew from. Noise is seeded; rows are in the contract's bins.
"""

from __future__ import annotations

import numpy as np

from dpicl.accounting.guarantee import Neighbours
from dpicl.data.central import adaptive, spanning_tree
from dpicl.data.central.exact_counts import ExactCounts
from dpicl.data.central.graphical_model import graphical_model
from dpicl.ground.randomness import stream
from dpicl.ground.types import PrivateCodes
from dpicl.mechanisms.noisy_steps import GaussianTotal, PureBudget, StepBudget
from lab.benchmarks.answers.chosen_counts import WAYS, Codes, rows_of, scored, tables
from lab.benchmarks.figures import Figures, sized

DELTA, EPSILONS, SEEDS = 1e-6, sized((0.1, 0.5, 1.0, 5.0, 10.0), (1.0,)), sized(3, 1)
EXPECTED = {"MST": spanning_tree.expected_errors, "AIM": adaptive.expected_errors}
GAIN_UP_TO = 1.0
"""The largest epsilon at which a gain is a goal."""


def budgets(epsilon: float) -> dict[str, StepBudget]:
    """By kind of noise."""
    gaussian = GaussianTotal.of(epsilon, delta=DELTA, neighbours=Neighbours.ADD_OR_REMOVE_ONE)
    return {"laplace": PureBudget.of(epsilon), "gaussian": gaussian.budget}


def measure(figures: Figures) -> None:
    """The mean gain over tables and seeds by method and epsilon: by Gaussian noise, and by the kind
    of less noise as the forecast has it.
    """
    print(
        f"{'table':12}{'eps':>6}"
        + "".join(f"{f'{way} laplace':>14}{'gaussian':>10}{'gain':>8}{'less':>6}" for way in WAYS)
    )
    gains: dict[tuple[str, float], list[tuple[float, bool]]] = {
        (way, epsilon): [] for way in WAYS for epsilon in EPSILONS
    }
    for name, found in tables(("wide",), SEEDS):
        exact = {
            id(codes): ExactCounts.of(PrivateCodes(codes.train), codes.sizes, triples=True)
            for codes in found
        }
        for epsilon in EPSILONS:
            shown, kinds = "", budgets(epsilon)
            for way in WAYS:
                aucs = {
                    kind: float(
                        np.mean(
                            [
                                _auc(codes, exact[id(codes)], way, budget, seed)
                                for seed, codes in enumerate(found)
                            ]
                        )
                    )
                    for kind, budget in kinds.items()
                }
                gain, less = aucs["gaussian"] - aucs["laplace"], _is_less(found[0], way, kinds)
                gains[way, epsilon].append((gain, less))
                shown += f"{aucs['laplace']:14.3f}{aucs['gaussian']:10.3f}{gain:+8.3f}{less!s:>6}"
            print(f"{name:12}{epsilon:6g}{shown}", flush=True)
    for (way, epsilon), of_tables in gains.items():
        each, by_forecast = (
            [gain for gain, _ in of_tables],
            float(np.mean([gain * less for gain, less in of_tables])),
        )
        print(
            f"{way} at epsilon {epsilon:g}: mean {np.mean(each):+.4f}, least {min(each):+.4f}; by "
            f"the forecast {by_forecast:+.4f}"
        )
        if epsilon <= GAIN_UP_TO:
            figures.at_least(
                f"auc-gain-by-less-noise-{way.lower()}-epsilon-{epsilon:g}", by_forecast, 0.0
            )


def _is_less(codes: Codes, way: str, kinds: dict[str, StepBudget]) -> bool:
    """Whether Gaussian noise does less to the columns of a table of this shape, which is public."""
    errors = {
        kind: np.mean(EXPECTED[way](codes.sizes, budget, len(codes.train)))
        for kind, budget in kinds.items()
    }
    return bool(errors["gaussian"] < errors["laplace"])


def _auc(codes: Codes, exact: ExactCounts, way: str, budget: StepBudget, seed: int) -> float:
    counts = WAYS[way](exact, budget=budget, stream=stream(seed, "bench", way, str(budget)))
    return scored(rows_of(way, graphical_model(codes.sizes, counts), counts, seed), codes, "LR")[1]
