"""Classifiers trained on rows whose labels teachers voted, beside rows of MST's counts and of
AIM's, at the same epsilon: the eight sets, and an exclusive or of three columns. Noise is seeded;
rows are in the contract's bins; the number of rows is known, as it is of these sets.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpicl.data.central.exact_counts import ExactCounts
from dpicl.data.central.graphical_model import graphical_model
from dpicl.ground.randomness import Draws, stream
from dpicl.ground.types import PrivateCodes
from dpicl.mechanisms.noisy_steps import PureBudget
from dpicl.methods.options import PateOptions
from dpicl.methods.tab_pate import Sizes, labelled, labelled_rows, vote_shares
from lab.benchmarks.answers.chosen_counts import ROWS, WAYS, Codes, rows_of, scored, tables
from lab.benchmarks.figures import Figures, sized

SEEDS, EPSILONS = range(sized(3, 1)), sized((0.1, 1.0, 5.0, 10.0), (1.0,))
KINDS = ("LR", "GB")
VOTED = ("public", "released")
"""TabPATE by its queries."""


def measure(figures: Figures) -> None:
    """Means over seeds of accuracy and AUC, and how far TabPATE is under the better of MST and
    AIM.
    """
    print(
        f"{'table':12}{'eps':>5}"
        + "".join(f"{f'{way} {kind}':>16}" for way in (*VOTED, *WAYS) for kind in KINDS)
    )
    under: dict[float, list[float]] = {epsilon: [] for epsilon in EPSILONS}
    for name, (codes,) in tables(("xor",), 1):
        exact = ExactCounts.of(PrivateCodes(codes.train), codes.sizes, triples=True)
        for epsilon in EPSILONS:
            found = [_compared(codes, exact, epsilon, seed) for seed in SEEDS]
            means: dict[str, Any] = {
                key: np.mean([one[key] for one in found], axis=0) for key in found[0]
            }
            print(
                f"{name:12}{epsilon:5g}"
                + "".join(f"{mean[0]:10.3f}/{mean[1]:.3f}" for mean in means.values()),
                flush=True,
            )
            best = {
                way: max(means[f"{way} {kind}"][1] for kind in KINDS) for way in (*VOTED, *WAYS)
            }
            if name == "xor":
                continue
            under[epsilon].append(max(best[way] for way in WAYS) - max(best[way] for way in VOTED))
    for epsilon, apart in under.items():
        print(
            f"epsilon {epsilon:g}: AUC under the better of MST and AIM by {np.mean(apart):.3f}, "
            f"above it on {sum(one < 0 for one in apart)} tables"
        )
    figures.at_most("tab-pate-auc-under-mst-and-aim", float(np.mean(under[EPSILONS[-1]])), 0.05)


def voted_rows(codes: Codes, epsilon: float, seed: int, queries: str) -> np.ndarray:
    """As TabPATE makes them."""
    sizes = Sizes.of(PateOptions.model_validate({"queries": queries}), epsilon, len(codes.train))
    drawn = labelled(
        codes.train,
        None,
        codes.sizes,
        sizes,
        Draws(seed, f"bench {epsilon} {queries}", simulated=True),
        "",
    )
    shares = vote_shares(drawn.votes, drawn.label_counts)
    return labelled_rows(drawn.queries, shares, ROWS, np.random.default_rng(seed))


def _compared(
    codes: Codes, exact: ExactCounts, epsilon: float, seed: int
) -> dict[str, tuple[float, float]]:
    rows = {queries: voted_rows(codes, epsilon, seed, queries) for queries in VOTED}
    for way, measured in WAYS.items():
        counts = measured(
            exact, budget=PureBudget.of(epsilon), stream=stream(seed, "bench", way, str(epsilon))
        )
        rows[way] = rows_of(way, graphical_model(codes.sizes, counts), counts, seed)
    return {
        f"{way} {kind}": scored(of_way, codes, kind)
        for way, of_way in rows.items()
        for kind in KINDS
    }
