"""Wide tables and few clients at epsilon = 1: what the usual local collection learns, against one
that asks for cells only, and against majority.

Made-up tables of 20 columns, of which one to eight say something of the label; binary or of up to
five categories, on their own or leaning on each other, the label balanced or not. Tested on 5,000
fresh rows.
"""

from __future__ import annotations

import numpy as np

from dpicl.data.local.estimate import estimated_rows
from dpicl.data.local.questions import questionnaire, tally
from dpicl.data.reading.encode import LocalEncoding
from dpicl.ground.randomness import stream
from dpicl.ground.types import EncodedQueries, PrivateCodes
from dpicl.methods.baselines import local_baselines
from lab.benchmarks.figures import Figures

COLUMNS, TEST_ROWS, EPSILON = 20, 5_000, 1.0
TABLES = {800: 32, 5_000: 32}
"""How many tables of so many clients."""
WAYS = ("subset", "agreement", "about")
"""Cells of some columns; agreement too; and that where it is public which columns matter."""
GOALS = {800: (0.56, 0.02), 5_000: (0.62, 0.02)}
"""AUC, and what `agreement` adds to it."""


def table(number: int, clients: int) -> tuple[tuple[int, ...], np.ndarray, tuple[int, ...]]:
    """Sizes, codes of the clients and the test rows, and the columns that matter."""
    rng, rows = np.random.default_rng(number), clients + TEST_ROWS
    leaning, binary, informative = (
        number % 2 == 0,
        number // 4 % 2 == 0,
        (1, 3, 5, 8)[number // 8 % 4],
    )
    hidden = rng.normal(size=(rows, 3)) @ (0.4 * leaning * rng.normal(size=(3, COLUMNS)))
    values = hidden + rng.normal(size=(rows, COLUMNS)) - 0.5 * rng.normal(size=COLUMNS)
    values /= values.std(axis=0)
    sizes = [2] * COLUMNS if binary else rng.integers(2, 6, size=COLUMNS).tolist()
    codes = [
        np.digitize(values[:, i], np.linspace(-1.2, 1.2, size + 1)[1:-1])
        for i, size in enumerate(sizes)
    ]
    weights = (
        rng.choice([-1, 1], informative) * rng.uniform(1.1, 2.1, informative) / np.sqrt(informative)
    )
    matter = rng.permutation(COLUMNS)[:informative]
    height = values[:, matter] @ weights
    height -= np.quantile(height, 0.5 if _is_balanced(number) else 0.7)
    label = rng.random(rows) < 1 / (1 + np.exp(-1.5 * height))
    return (
        (*sizes, 2),
        np.stack([*codes, label], axis=1).astype(np.uint8),
        tuple(sorted(matter.tolist())),
    )


def _is_balanced(number: int) -> bool:
    return number // 2 % 2 == 0


def _measured(number: int, clients: int, way: str) -> tuple[float, float, float]:
    """Accuracy, AUC, and accuracy above majority."""
    sizes, codes, matter = table(number, clients)
    encoding = LocalEncoding("k-ary", (*(f"column {i}" for i in range(COLUMNS)), "label"), sizes)
    name = (way, f"{clients} clients, table {number}")
    asked = tally(
        PrivateCodes(codes[:clients]),
        questionnaire(
            sizes,
            "subset" if way == "subset" else "agreement",
            EPSILON,
            about=matter if way == "about" else (),
        ),
        chance=stream(0, "questions", *name),
        secret=stream(0, "secret", *name),
    )
    rows = estimated_rows(asked, "tree", stream(0, "rows", *name))
    found = local_baselines(rows, encoding, EncodedQueries(codes[clients:]))["lr"]
    share = codes[clients:, -1].mean()
    assert found.auc is not None
    return found.accuracy, found.auc, found.accuracy - max(share, 1 - share)


def measure(figures: Figures) -> None:
    """Means over the tables."""
    for clients, tables in TABLES.items():
        found = {
            way: np.array([_measured(number, clients, way) for number in range(tables)])
            for way in WAYS
        }
        for way, values in found.items():
            accuracy, auc, above = values.mean(axis=0)
            print(
                f"  {clients:6,} clients, {way:10} {accuracy:.3f}/{auc:.3f}, above majority "
                f"{above:+.3f}",
                flush=True,
            )
        least, gain = GOALS[clients]
        usual = found["agreement"]
        figures.at_least(f"wide-local-auc-{clients}-clients", float(usual[:, 1].mean()), least)
        figures.at_least(
            f"wide-local-auc-{clients}-clients-over-subset",
            float((usual - found["subset"])[:, 1].mean()),
            gain,
        )
        figures.at_least(
            f"wide-local-auc-{clients}-clients-about-what-matters",
            float(found["about"][:, 1].mean()),
            least + 0.05,
        )
        skewed = [number for number in range(tables) if not _is_balanced(number)]
        figures.at_most(
            f"wide-local-points-under-majority-{clients}-clients-skewed-label",
            -100 * float(usual[skewed, 2].mean()),
            1,
        )
