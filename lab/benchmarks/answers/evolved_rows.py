"""Classifiers trained on Tab-PE's rows, beside those of MST's counts and of AIM's: where four
columns say what no three say, where they do so in a space too large for all its rows to be
candidates, and on real tables; and how long each takes. Noise is seeded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dpicl.data.central.evolution import DistinctRows, Space, evolve, voted_rows
from dpicl.data.central.exact_counts import ExactCounts, row_bins
from dpicl.data.central.graphical_model import graphical_model
from dpicl.ground.randomness import stream
from dpicl.ground.types import PrivateCodes
from dpicl.mechanisms.noisy_steps import PureBudget
from lab.benchmarks.answers import chosen_counts
from lab.benchmarks.answers.chosen_counts import ROWS, WAYS, Codes
from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.real_tables import EIGHT, at_hand, real_table

SEEDS, EPSILONS = range(sized(3, 1)), sized((0.1, 1.0, 5.0, 10.0), (1.0,))
NAME = "Tab-PE"
KINDS = ("LR", "GB")


@dataclass(frozen=True)
class Table:
    """Rows to be protected and asked about, for each seed, and the space that they are of."""

    name: str
    codes: list[Codes]
    space: Space


def measure(figures: Figures) -> None:
    """AUC, the mean over seeds, by logistic regression and by gradient boosting; seconds of
    releases and their rows.
    """
    ways = (*WAYS, NAME)
    print(
        "AUC of LR/GB on rows of    "
        + "".join(f"{way:>13}" for way in ways)
        + "   seconds"
        + "".join(f"{way:>8}" for way in ways)
    )
    real, seconds = dict[float, list[np.ndarray]](), dict[str, float].fromkeys(ways, 0.0)
    for table in _tables():
        for epsilon in EPSILONS:
            aucs, took = _compared(table, epsilon)
            line = "".join(f"{f'{lr:.3f}/{gb:.3f}':>13}" for lr, gb in aucs)
            print(
                f"{table.name:20}{epsilon:7g}{line}          "
                + "".join(f"{each:8.2f}" for each in took),
                flush=True,
            )
            if table.name in EIGHT:
                real.setdefault(epsilon, []).append(aucs)
                seconds = {way: seconds[way] + each for way, each in zip(ways, took, strict=True)}
            elif epsilon == 1 and table.name == "xor of 4":
                figures.at_least("tab-pe-xor-of-four-auc", float(aucs[-1, 1]), 0.95)
    for epsilon, found in real.items():
        means = np.mean(found, axis=0)
        print(
            f"{'mean of eight':20}{epsilon:7g}"
            + "".join(f"{f'{lr:.3f}/{gb:.3f}':>13}" for lr, gb in means),
            flush=True,
        )
        figures.at_least(
            f"tab-pe-points-of-auc-over-aim-at-{epsilon:g}",
            float(100 * (means[-1, 0] - means[1, 0])),
            0,
        )
    if real:
        figures.at_least("aim-seconds-per-second-of-tab-pe", seconds["AIM"] / seconds[NAME], 28)


def _compared(table: Table, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """AUC by way and classifier, and seconds by way."""
    aucs, took = [], []
    for release in (*map(_counted, WAYS), _evolved):
        of_seeds, started = [], time.process_time()
        rows = [
            release(codes, table.space, epsilon, seed)
            for seed, codes in zip(SEEDS, table.codes, strict=True)
        ]
        took.append((time.process_time() - started) / len(SEEDS))
        for codes, released in zip(table.codes, rows, strict=True):
            of_seeds.append([chosen_counts.scored(released, codes, kind)[1] for kind in KINDS])
        aucs.append(np.mean(of_seeds, axis=0))
    return np.array(aucs), np.array(took)


def _counted(way: str) -> Callable[[Codes, Space, float, int], np.ndarray]:
    def release(codes: Codes, space: Space, epsilon: float, seed: int) -> np.ndarray:
        exact = ExactCounts.of(PrivateCodes(codes.train), codes.sizes, triples=way == "AIM")
        counts = WAYS[way](
            exact, budget=PureBudget.of(epsilon), stream=stream(seed, "bench", way, str(epsilon))
        )
        return chosen_counts.rows_of(way, graphical_model(codes.sizes, counts), counts, seed)

    return release


def _evolved(codes: Codes, space: Space, epsilon: float, seed: int) -> np.ndarray:
    noise, chance = stream(seed, "bench", NAME, str(epsilon)), np.random.default_rng(seed)
    return voted_rows(
        evolve(
            DistinctRows.of(PrivateCodes(codes.train)),
            space,
            epsilon=epsilon,
            stream=noise,
            chance=chance,
        ),
        ROWS,
        chance,
    )


def _tables() -> Iterator[Table]:
    for order in (3, 4):
        yield Table(
            f"xor of {order}", [_xor(order, 2, seed) for seed in SEEDS], Space((2,) * 11, (0,) * 10)
        )
    yield Table(
        "xor of 4, large", [_xor(4, 4, seed) for seed in SEEDS], Space((*(4,) * 10, 2), (4,) * 10)
    )
    if not at_hand():
        return
    for name in EIGHT:
        contract, split = real_table(name)
        space = Space.of(contract)
        yield Table(
            name,
            [Codes(row_bins(split.train, contract), row_bins(split.test, contract), space.sizes)]
            * len(SEEDS),
            space,
        )


def _xor(order: int, bins: int, seed: int) -> Codes:
    """20,000 rows of 10 columns; the label is the exclusive or of the upper halves of so many."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, bins, size=(30_000, 11), dtype=np.uint8)
    codes[:, -1] = (codes[:, [1, 4, 7, 8][:order]] >= bins // 2).sum(axis=1) % 2
    return Codes(codes[:20_000], codes[20_000:], (*(bins,) * 10, 2))
