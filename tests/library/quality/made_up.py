"""Made-up tables of six columns and a label that some of them say something about, and releases of
these.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.contract import Contract, parse_contract
from dpicl.contract.pipeline import Cell, Unit
from dpicl.ground.randomness import Draws
from dpicl.ground.types import PrivateTable, QueryTable, SplitTable
from dpicl.methods import Options, grid, tabular, unit_of
from dpicl.methods.tabular_method import TabularMethod
from dpicl.quality import Quality, ReleasePoint
from dpicl.quality.replicates import quality_of
from tests.direct import point

SIZES = (2, 3, 4, 5, 3, 2)
SUBSET = {"design": "subset", "estimator": "log-linear"}


@cache
def contract(*, benchmark: bool = True) -> Contract:
    """Categories, two of them as numbers of few values."""
    names = [f"c{i}" for i in range(len(SIZES))]
    columns: dict[str, Any] = {}
    for i, (name, size) in enumerate(zip(names, SIZES, strict=True)):
        columns[name] = (
            {"type": "integer", "bounds": [0, size - 1]}
            if i in (2, 3)
            else {"type": "category", "categories": [*map(str, range(size))]}
        )
    columns["y"] = {"type": "category", "categories": ["no", "yes"]}
    return parse_contract(
        {
            "version": 1,
            "name": "made_up",
            "description": "Made-up rows.",
            "source": {"title": "t", "licence": "l", "citation": "c", "file": "made-up.csv"},
            "privacy": {
                "sampling_rate": "1",
                "budget": {"benchmark": True} if benchmark else {"epsilon": 10},
            },
            **({"split": {"test_fraction": 0.5}} if benchmark else {}),
            "columns": columns,
            "label": {"column": "y", "parts": [["no"], ["yes"]], "question": "Yes?"},
            "groups": {2: ["label"]},
            "local": [
                {
                    "name": name,
                    "column": name,
                    **(
                        {"cuts": [*range(1, size)]}
                        if i in (2, 3)
                        else {"parts": [[str(code)] for code in range(size)]}
                    ),
                    "texts": [*map(str, range(size))],
                }
                for i, (name, size) in enumerate(zip(names, SIZES, strict=True))
            ],
            "prompts": {
                "local": {"text": "".join(f"{{{name}}}" for name in names)},
                "central": {"text": " ".join(f"{{{n}}}" for n in names)},
            },
            "checks": [],
        },
        "made-up.yaml",
    )  # type: ignore[return-value]


def rows(count: int, seed: int, strength: float) -> pa.Table:
    """Cut normal numbers that depend on each other; the label follows their weighted sum, and a
    product of two.
    """
    rng = np.random.default_rng(seed)
    mixing = np.eye(len(SIZES)) + 0.5 * rng.normal(size=(len(SIZES),) * 2)
    hidden = rng.normal(size=(count, len(SIZES))) @ mixing
    hidden /= hidden.std(axis=0)
    logit = strength * (hidden @ rng.normal(size=len(SIZES)) + 0.5 * hidden[:, 0] * hidden[:, 1])
    label = (rng.random(count) < 1 / (1 + np.exp(-logit + rng.normal()))).astype(np.int16)
    declared, columns = contract().columns, {}
    for i, size in enumerate(SIZES):
        codes = np.searchsorted(np.sort(rng.normal(size=size - 1)), hidden[:, i])
        columns[f"c{i}"] = (
            pa.array(codes) if i in (2, 3) else _coded(codes, declared[f"c{i}"].categories)
        )  # type: ignore[union-attr]
    return pa.table({**columns, "y": _coded(label, ("no", "yes"))})


def _coded(codes: np.ndarray, categories: tuple[str, ...]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int16)), pa.array(categories))


def split(count: int, seed: int, strength: float = 1.0, held_out: int = 4000) -> SplitTable:
    """So many rows to release, and others of the same population."""
    table = rows(count + held_out, seed, strength)
    return SplitTable(
        PrivateTable(table.slice(0, count)), QueryTable(table.slice(count)), np.arange(held_out)
    )


def release(
    train: PrivateTable,
    method: str,
    epsilon: float,
    seed: int,
    options: dict[str, Any] | None = None,
) -> tuple[Any, ...]:
    """The method, its unit and cell, and what it drew."""
    chosen = tabular(method)
    unit = unit_of(
        method,
        "made_up",
        seed,
        (epsilon,),
        (2,),
        (),
        False,
        Options.model_validate({method: options} if options else {}),
    )
    draws = Draws(seed, "made_up", simulated=True)
    asked = grid.points(chosen, unit)
    marks = grid.prepare(chosen, train, contract(), asked, draws)
    ((cell, drawn),) = grid.draw(chosen, train, contract(), asked, draws, marks).items()
    return chosen, unit, cell, drawn


def quality(
    table: SplitTable,
    method: str,
    epsilon: float,
    *,
    seed: int = 0,
    count: int = 30,
    options: Any = None,
) -> Quality:
    """Of one release, with what is true beside it."""
    chosen: TabularMethod[Any]
    unit: Unit
    cell: Cell
    chosen, unit, cell, drawn = release(table.train, method, epsilon, seed, options)
    place = ReleasePoint(contract(), chosen, point(unit, cell))
    return quality_of(place, drawn, test=table, count=count)
