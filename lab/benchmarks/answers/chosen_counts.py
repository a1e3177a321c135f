"""Classifiers trained on rows of MST's counts and of AIM's: where few rows have many columns, where
three columns say what no two say, and where epsilon is large. Noise is seeded; rows are in the
contract's bins; `true` are the rows themselves in these bins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from dpicl.data.central import adaptive, spanning_tree
from dpicl.data.central.exact_counts import ExactCounts, row_bins, row_encoding
from dpicl.data.central.graphical_model import GraphicalModel, NoisyMarginal, graphical_model
from dpicl.data.central.spanning_tree import cautious_rows
from dpicl.ground.randomness import stream
from dpicl.ground.types import PrivateCodes
from dpicl.mechanisms.noisy_steps import PureBudget
from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.real_tables import EIGHT, at_hand, real_table

SEEDS, FLOOR_SEEDS, ROWS = range(sized(5, 1)), sized(20, 2), sized(16_384, 2_000)
WAYS: dict[str, Callable[..., list[NoisyMarginal]]] = {
    "MST": spanning_tree.measure,
    "AIM": adaptive.measure,
}
LARGE = ("adult", "bank", "calhousing", "jungle")
MADE = {"wide": (1.0,), "xor": (5.0,)}


@dataclass(frozen=True)
class Codes:
    """Bins of rows, the label last, to be protected and to be asked about."""

    train: np.ndarray
    test: np.ndarray
    sizes: tuple[int, ...]


def measure(figures: Figures) -> None:
    """Means over seeds of accuracy and AUC, by logistic regression and by gradient boosting."""
    print(
        f"{'table':12}{'eps':>5}{'majority':>10}"
        + "".join(f"{f'{way} {kind}':>16}" for way in ("true", *WAYS) for kind in ("LR", "GB"))
    )
    for name, of_seeds in tables(sized(("wide", "xor"), ()), len(SEEDS)):
        for epsilon in MADE.get(name, sized((1.0, 10.0), (10.0,))):
            found = [_compared(codes, epsilon, seed) for seed, codes in enumerate(of_seeds)]
            means = {key: np.mean([one[key] for one in found], axis=0) for key in found[0]}
            most = float(
                np.mean(
                    [np.bincount(codes.test[:, -1]).max() / len(codes.test) for codes in of_seeds]
                )
            )
            print(
                f"{name:12}{epsilon:5g}{most:10.3f}"
                + "".join(f"{mean[0]:10.3f}/{mean[1]:.3f}" for mean in means.values()),
                flush=True,
            )
            _figures(figures, name, epsilon, means, most)


def _figures(
    figures: Figures, name: str, epsilon: float, means: Mapping[str, Any], most: float
) -> None:
    if name == "wide":
        figures.at_least("wide-points-over-majority", 100 * (means["AIM LR"][0] - most), 0)
        figures.at_least("wide-auc", means["AIM LR"][1], 0.70)
    elif name == "xor":
        figures.at_least("xor-of-three-accuracy", means["AIM GB"][0], 0.95)
    elif name in LARGE and epsilon == 10:
        figures.at_most(
            f"aim-points-under-true-rows-{name}",
            100 * (means["true LR"][0] - means["AIM LR"][0]),
            0.5,
        )


def tables(made: Sequence[str], seeds: int) -> Iterator[tuple[str, list[Codes]]]:
    """Those that are made up, anew for every seed, then eight real ones."""
    makers = {"wide": _wide, "xor": xor}
    yield from ((name, [makers[name](seed) for seed in range(seeds)]) for name in made)
    if not at_hand():
        return
    for name in EIGHT:
        contract, split = real_table(name)
        codes = Codes(
            row_bins(split.train, contract),
            row_bins(split.test, contract),
            tuple(row_encoding(contract).sizes),
        )
        yield name, [codes] * seeds


def _wide(seed: int) -> Codes:
    """20 columns of 8 bins, 800 rows; four columns say something of the label."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(10_800, 20))
    odds = -1.35 + numbers[:, [0, 2, 4, 6]] @ np.array([1.2, 0.9, -0.9, 0.6])
    label = rng.random(len(numbers)) < 1 / (1 + np.exp(-odds))
    bins = np.clip((numbers + 3) / 6 * 8, 0, 7).astype(np.uint8)
    codes = np.column_stack([bins, label])
    return Codes(codes[:800], codes[800:], (8,) * 20 + (2,))


def xor(seed: int) -> Codes:
    """20,000 rows of 10 bits; the label is the exclusive or of three."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, size=(30_000, 10), dtype=np.uint8)
    codes = np.column_stack([bits, bits[:, 1] ^ bits[:, 4] ^ bits[:, 7]])
    return Codes(codes[:20_000], codes[20_000:], (2,) * 11)


def _compared(codes: Codes, epsilon: float, seed: int) -> dict[str, tuple[float, float]]:
    """Accuracy and AUC by way and classifier."""
    exact = ExactCounts.of(PrivateCodes(codes.train), codes.sizes, triples=True)
    rows = {"true": codes.train.astype(np.int64)}
    for way, measured in WAYS.items():
        counts = measured(
            exact, budget=PureBudget.of(epsilon), stream=stream(seed, "bench", way, str(epsilon))
        )
        rows[way] = rows_of(way, graphical_model(codes.sizes, counts), counts, seed)
    return {
        f"{way} {kind}": scored(of_way, codes, kind)
        for way, of_way in rows.items()
        for kind in ("LR", "GB")
    }


def rows_of(way: str, model: GraphicalModel, counts: list[NoisyMarginal], seed: int) -> np.ndarray:
    """As MST-TabICL and AIM-TabICL draw them."""
    chance = np.random.default_rng(seed)
    return cautious_rows(model, counts, ROWS, chance) if way == "AIM" else model.rows(ROWS, chance)


def measure_floor(figures: Figures) -> None:
    """Points under the most frequent label, on 10,000 rows of made-up tables: the largest upper
    bound, one-sided 95 %, of a mean over seeds.
    """
    print(
        f"{'table':12}{'eps':>5}{'points under the most frequent label: mean, upper bound, worst':>64}{'AUC':>7}"  # noqa: E501
    )
    largest = -100.0
    for name, made in sized((("wide", _wide), ("flat", _flat)), (("flat", _flat),)):
        for epsilon in sized((0.1, 0.5, 1.0), (1.0,)):
            found = []
            for seed in range(FLOOR_SEEDS):
                codes = made(seed)
                exact = ExactCounts.of(PrivateCodes(codes.train), codes.sizes, triples=True)
                counts = adaptive.measure(
                    exact,
                    budget=PureBudget.of(epsilon),
                    stream=stream(seed, "bench", "floor", str(epsilon)),
                )
                accuracy, auc = scored(
                    rows_of("AIM", graphical_model(codes.sizes, counts), counts, seed), codes, "LR"
                )
                found.append(
                    (100 * (np.bincount(codes.test[:, -1]).max() / len(codes.test) - accuracy), auc)
                )
            under, aucs = np.array(found).T
            # Student's t, 19 degrees of freedom
            bound = under.mean() + 1.729 * under.std(ddof=1) / np.sqrt(len(under))
            print(
                f"{name:12}{epsilon:5g}{under.mean():40.2f}{bound:12.2f}{under.max():12.2f}{aucs.mean():7.3f}",
                flush=True,
            )
            largest = max(largest, bound)
    figures.at_most("aim-points-under-majority", largest, 1)


def _flat(seed: int) -> Codes:
    """8 columns of 4 bins, 1,000 rows; nothing says anything of the label, which is 1 in 3 of
    10.
    """
    rng = np.random.default_rng(seed)
    codes = np.column_stack(
        [rng.integers(0, 4, size=(11_000, 8), dtype=np.uint8), rng.random(11_000) < 0.3]
    )
    return Codes(codes[:1000], codes[1000:], (4,) * 8 + (2,))


def scored(rows: np.ndarray, codes: Codes, kind: str) -> tuple[float, float]:
    """Accuracy and AUC of logistic regression (`LR`) or gradient boosting (`GB`) trained on these
    rows.
    """
    truth, chances = codes.test[:, -1], np.zeros((len(codes.test), codes.sizes[-1]))
    if len(np.unique(rows[:, -1])) == 1:
        chances[:, rows[0, -1]] = 1
    else:
        model = (
            LogisticRegression(max_iter=300)
            if kind == "LR"
            else HistGradientBoostingClassifier(random_state=0)
        )
        model.fit(_asked(rows, codes, kind), rows[:, -1])
        chances[:, model.classes_] = model.predict_proba(_asked(codes.test, codes, kind))
    accuracy = float((chances.argmax(axis=1) == truth).mean())
    if codes.sizes[-1] == 2:
        return accuracy, float(roc_auc_score(truth, chances[:, 1]))
    present = [label for label in range(codes.sizes[-1]) if 0 < (truth == label).sum() < len(truth)]
    return accuracy, float(
        np.mean([roc_auc_score(truth == label, chances[:, label]) for label in present])
    )


def _asked(rows: np.ndarray, codes: Codes, kind: str) -> np.ndarray:
    """Bins one by one for a linear model."""
    if kind == "GB":
        return rows[:, :-1]
    return np.concatenate(
        [np.eye(size)[rows[:, column]] for column, size in enumerate(codes.sizes[:-1])], axis=1
    )


def measure_time(figures: Figures) -> None:
    """CPU seconds of one fit of MST's counts of the largest set, and of AIM's choice with its
    fits.
    """
    if not at_hand():
        return
    contract, split = real_table("adult")
    sizes = tuple(row_encoding(contract).sizes)
    exact = ExactCounts.of(PrivateCodes(row_bins(split.train, contract)), sizes, triples=True)
    counts = spanning_tree.measure(
        exact, budget=PureBudget.of(1.0), stream=stream(0, "bench", "time", "")
    )
    graphical_model(sizes, counts)
    started = time.process_time()
    graphical_model(sizes, counts)
    figures.at_most("mst-fit-adult-seconds", time.process_time() - started, 0.5, " s")
    started = time.process_time()
    graphical_model(
        sizes,
        adaptive.measure(exact, budget=PureBudget.of(1.0), stream=stream(0, "bench", "time", "")),
    )
    figures.at_most("aim-choice-and-fits-adult-seconds", time.process_time() - started, 10, " s")
