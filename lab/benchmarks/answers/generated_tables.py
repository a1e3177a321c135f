"""Made-up tables as people have them: gaps, many classes, dates, names of any script, 1 to 40
columns, 10 to 100,000 rows.

Every table comes with the schema that somebody would write who knows the field: types, bounds,
categories and what to predict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

NAMES = (
    "age",
    "Größe (cm)",
    "доход",
    "購入額",
    "hours per week",
    "1st visit",
    "x_1",
    "Émission CO₂",
    "is_active",
    "amount €",
    "label",
    "年齢",
    "ID type",
)
_CELLS = 1_500_000
_LETTERS = ("a", "b", "c d", "É", "东", "n/a?", "0", "1", "yes", "no")


@dataclass(frozen=True)
class MadeTable:
    """Rows, and what is publicly known of them."""

    number: int
    frame: pd.DataFrame
    schema: dict[str, Any]


def made_table(number: int) -> MadeTable:
    """One of these tables; the same for the same number."""
    rng = np.random.default_rng(number)
    columns = int(rng.choice([1, 2, 3, 5, 8, 15, 25, 40]))
    rows = min(int(rng.choice([10, 50, 300, 2_000, 20_000, 100_000])), _CELLS // columns)
    hidden = rng.normal(size=rows)
    names = [str(name) for name in rng.permutation(NAMES)[:columns]] + [
        f"column {place}" for place in range(columns - len(NAMES))
    ]
    made = {name: _column(rng, hidden) for name in names}
    frame = pd.DataFrame({name: values for name, (values, _) in made.items()})
    stated = {name: declared for name, (_, declared) in made.items()}
    label = str(rng.choice(names)) if columns > 1 and rng.random() < 0.8 else None
    return MadeTable(number, frame, {"columns": stated, **({"label": label} if label else {})})


def _column(rng: np.random.Generator, hidden: np.ndarray) -> tuple[Any, dict[str, Any]]:
    """Values that lean on what is hidden, and their declaration."""
    rows = len(hidden)
    signal = rng.choice([0, 0.5, 2]) * hidden + rng.normal(size=rows)
    gaps = rng.random(rows) < rng.choice([0, 0, 0.02, 0.4])
    nullable = {"nullable": True} if gaps.any() or rng.random() < 0.1 else {}
    kind = rng.choice(["integer", "real", "category", "date", "datetime", "boolean"])
    if kind == "integer":
        most = int(rng.choice([1, 10, 100, 10**6]))
        values = np.clip(np.rint(most / 2 + signal * most / 6), 0, most)
        return pd.Series(values).mask(gaps) if nullable else values.astype(np.int64), {
            "type": "integer",
            "bounds": [0, most],
            **nullable,
        }
    if kind == "real":
        width = float(rng.choice([0.01, 1, 1000, 1e7]))
        step: dict[str, float] = {} if width > 0.01 else {"step": 1e-6, "decimals": 5}
        return pd.Series(signal * width / 6).mask(gaps), {
            "type": "real",
            "bounds": [-width / 2, width / 2],
            **step,
            **nullable,
        }
    if kind in ("date", "datetime"):
        day = np.datetime64("2010-01-01") + np.clip(2000 + signal * 600, 0, 4000).astype(
            "timedelta64[D]"
        )
        values = pd.Series(
            day.astype("datetime64[s]")
            + (rng.integers(0, 86_400, rows) if kind == "datetime" else 0)
        )
        return values.mask(gaps), {
            "type": str(kind),
            "bounds": ["2010-01-01", "2021-12-31"],
            **nullable,
        }
    if kind == "boolean":
        flags = pd.Series(signal > 0).astype(object).mask(gaps)
        return flags, {"type": "category", "categories": ["false", "true"], **nullable}
    count = int(rng.choice([2, 3, 7, 30, 200]))
    categories = [f"{_LETTERS[place % 10]}{place // 10 or ''}" for place in range(count)]
    chosen = np.clip(((signal + 3) / 6 * count).astype(int), 0, count - 1)
    return pd.Series([categories[one] for one in chosen], dtype=object).mask(gaps), {
        "type": "category",
        "categories": categories,
        **nullable,
    }
