"""Subsample, group and aggregate a large table in memory, against what a user would do with pandas
and Dask.

Both neighbours do less: they sample and aggregate, without clipping, exact sums or cryptographic
draws. All three answer from the same thirteen columns: rows, histograms and sums per group.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.contract import Contract, parse_contract
from dpicl.data.reading.batches import compact
from dpicl.ground.randomness import Draws
from dpicl.ground.types import PrivateTable
from dpicl.methods import Options, tabular, unit_of
from dpicl.methods.grid import points
from lab.benchmarks.figures import Figures, best_of, sized

ROWS, RATE = sized(10_000_000, 20_000), 0.1
SIZES = (2, 7, 16, 7, 14, 6, 5, 2)
NUMBERS = {"age": (17, 90), "hours": (1, 99), "gain": (0, 99_999), "loss": (0, 4_500)}
KEYS = ["c0", "c7", "y"]


def large_content(**source: Any) -> dict[str, Any]:
    """A contract as YAML has it, thirteen columns: eight of categories, four of whole numbers, and
    the label; eight groups by three keys.
    """
    categories = {
        f"c{i}": {"type": "category", "categories": [f"v{j}" for j in range(size)]}
        for i, size in enumerate(SIZES)
    }
    numbers = {
        column: {"type": "integer", "bounds": list(bounds)} for column, bounds in NUMBERS.items()
    }
    label = {"y": {"type": "category", "categories": ["no", "yes"]}}
    halves = [["v0"], ["v1"]]
    local = [
        {
            "name": column,
            "column": column,
            "parts": [[v] for v in made["categories"]],
            "texts": made["categories"],
        }
        for column, made in categories.items()
    ]
    cut = [
        {"name": column, "column": column, "cuts": [(low + high) // 2], "texts": ["low", "high"]}
        for column, (low, high) in NUMBERS.items()
    ]
    return {
        "version": 1,
        "name": "large",
        "description": "Made-up rows.",
        "source": {
            "title": "t",
            "licence": "l",
            "citation": "c",
            **(source or {"file": "large.csv"}),
        },
        "privacy": {"budget": {"benchmark": True}, "sampling_rate": str(RATE)},
        "split": {"test_fraction": 0.001, "query_fraction": 0.01},
        "columns": {**categories, **numbers, **label},
        "label": {"column": "y", "parts": [["no"], ["yes"]], "question": "Yes?"},
        "groups": {
            2: ["label"],
            8: ["label", *({"column": column, "parts": halves} for column in KEYS[:2])],
        },
        "local": [*local, *cut],
        "prompts": {"local": {"text": "{c0}"}, "central": {"text": "{c0} {age} {hours}"}},
    }


def large_contract(**source: Any) -> Contract:
    """That contract, checked."""
    contract = parse_contract(large_content(**source), "large.yaml")
    assert isinstance(contract, Contract)
    return contract


def large_table(rows: int, seed: int = 0) -> pa.Table:
    """Rows of that contract, made up."""
    rng = np.random.default_rng(seed)
    columns: dict[str, pa.Array] = {}
    for i, size in enumerate(SIZES):
        words = pa.array([f"v{j}" for j in range(size)])
        columns[f"c{i}"] = pa.DictionaryArray.from_arrays(
            pa.array(rng.integers(size, size=rows, dtype=np.int8)), words
        )
    for name, (low, high) in NUMBERS.items():
        columns[name] = pa.array(rng.integers(low, high + 1, size=rows, dtype=np.int32))
    columns["y"] = pa.DictionaryArray.from_arrays(
        pa.array(rng.integers(2, size=rows, dtype=np.int8)), pa.array(["no", "yes"])
    )
    return pa.table(columns)


def _aggregates(frame: Any) -> list[Any]:
    """What the same user writes for a pandas or a Dask frame."""
    sampled = frame.sample(frac=RATE)
    grouped = sampled.groupby(KEYS, observed=True)
    rest = [f"c{i}" for i in range(len(SIZES)) if f"c{i}" not in KEYS]
    return [
        grouped.size(),
        grouped[list(NUMBERS)].sum(),
        *(grouped[name].value_counts() for name in rest),
    ]


def measure(figures: Figures) -> None:
    """All three in turn, in one process and on one thread."""
    import dask
    import dask.dataframe as dd

    contract = large_contract()
    table = PrivateTable(compact(large_table(ROWS), contract))
    frame = table.data.to_pandas()
    parted = dd.from_pandas(frame, npartitions=4)
    method = tabular("gdp_tabicl")
    unit = unit_of(method.name, "large", 0, (1.0,), (8,), (), False, Options())
    (point,) = points(method, unit).values()
    draws = Draws(0, "large", simulated=False)

    def ours() -> object:
        return method.count(table, contract, point, draws)

    own, pandas, dask_ = best_of(
        (
            ours,
            lambda: _aggregates(frame),
            lambda: dask.compute(*_aggregates(parted), scheduler="synchronous"),
        ),
        5,
    )
    print(
        f"subsample, group and aggregate {ROWS:,} x 13: {own:.3f} s, pandas {pandas:.3f} s, Dask "
        f"DataFrame {dask_:.3f} s"
    )
    figures.at_least("aggregate-10M-x-13-over-pandas", pandas / own, 4, "x")
    figures.at_least("aggregate-10M-x-13-over-dask", dask_ / own, 20, "x")
    tracemalloc.start()
    ours()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    figures.at_most(
        "aggregate-10M-x-13-memory-share-of-the-table", 100 * peak / table.data.nbytes, 25, " %"
    )
