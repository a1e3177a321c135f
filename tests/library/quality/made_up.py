"""Made-up tables of six columns and a label that some of them say something about, and releases of
these.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.contract import Contract, parse_contract
from dpicl.ground.randomness import Draws
from dpicl.ground.types import PrivateTable, QueryTable, SplitTable
from dpicl.methods import Options, grid, tabular, unit_of
from dpicl.quality import Quality, ReleasePoint
from dpicl.quality.replicates import quality_of
from tests.direct import point

SIZES = (2, 3, 4, 5, 3, 2)
NAMES = [f"c{i}" for i in range(len(SIZES))]
SUBSET = {"design": "subset", "estimator": "log-linear"}


@cache
def contract(*, benchmark: bool = True) -> Contract:
    """Categories, two of them as numbers of few values."""
    columns: dict[str, Any] = {}
    local: list[dict[str, Any]] = []
    for i, (name, size) in enumerate(zip(NAMES, SIZES, strict=True)):
        texts = [*map(str, range(size))]
        attribute = {"name": name, "column": name, "texts": texts}
        if i in (2, 3):
            columns[name] = {"type": "integer", "bounds": [0, size - 1]}
            local.append({**attribute, "cuts": [*range(1, size)]})
        else:
            columns[name] = {"type": "category", "categories": texts}
            local.append({**attribute, "parts": [[text] for text in texts]})
    columns["y"] = {"type": "category", "categories": ["no", "yes"]}
    places = " ".join(f"{{{name}}}" for name in NAMES)
    budget = {"benchmark": True} if benchmark else {"epsilon": 10}
    content = {
        "version": 1,
        "name": "made_up",
        "description": "Made-up rows.",
        "source": {"title": "t", "licence": "l", "citation": "c", "file": "made-up.csv"},
        "privacy": {"sampling_rate": "1", "budget": budget},
        "columns": columns,
        "label": {"column": "y", "parts": [["no"], ["yes"]], "question": "Yes?"},
        "groups": {2: ["label"]},
        "local": local,
        "prompts": {"local": {"text": places}, "central": {"text": places}},
        "checks": [],
    }
    if benchmark:
        content["split"] = {"test_fraction": 0.5}
    return parse_contract(content, "made-up.yaml")


def rows(count: int, seed: int, strength: float) -> pa.Table:
    """Cut normal numbers that depend on each other; the label follows their weighted sum, and a
    product of two.
    """
    rng = np.random.default_rng(seed)
    mixing = np.eye(len(SIZES)) + 0.5 * rng.normal(size=(len(SIZES),) * 2)
    hidden = rng.normal(size=(count, len(SIZES))) @ mixing
    hidden /= hidden.std(axis=0)
    logit = strength * (hidden @ rng.normal(size=len(SIZES)) + 0.5 * hidden[:, 0] * hidden[:, 1])
    label = rng.random(count) < 1 / (1 + np.exp(-logit + rng.normal()))
    codes = [
        np.searchsorted(np.sort(rng.normal(size=size - 1)), hidden[:, i])
        for i, size in enumerate(SIZES)
    ]
    return coded(contract(), dict(zip([*NAMES, "y"], [*codes, label], strict=True)))


def coded(declared: Contract, values: Mapping[str, np.ndarray]) -> pa.Table:
    """Columns of these values: codes where there are categories."""
    columns = {}
    for name, found in values.items():
        categories = getattr(declared.columns[name], "categories", None)
        columns[name] = (
            pa.DictionaryArray.from_arrays(found.astype(np.int16), pa.array(categories))
            if categories
            else pa.array(found)
        )
    return pa.table(columns)


def split(count: int, seed: int, strength: float = 1.0, held_out: int = 4000) -> SplitTable:
    """So many rows to release, and others of the same population."""
    return parted(rows(count + held_out, seed, strength), count)


def parted(table: pa.Table, count: int) -> SplitTable:
    """So many first rows to release, the others held out, and all of these asked."""
    test = table.slice(count)
    return SplitTable(PrivateTable(table.slice(0, count)), QueryTable(test), np.arange(len(test)))


def release(
    train: PrivateTable,
    method: str,
    epsilon: float,
    seed: int,
    options: dict[str, Any] | None = None,
    declared: Contract | None = None,
) -> tuple[Any, ...]:
    """The method, its unit and cell, and what it drew."""
    chosen, declared = tabular(method), declared or contract()
    given = Options.model_validate({method: options} if options else {})
    unit = unit_of(method, "made_up", seed, (epsilon,), (2,), (), False, given)
    draws = Draws(seed, "made_up", simulated=True)
    asked = grid.points(chosen, unit)
    marks = grid.prepare(chosen, train, declared, asked, draws)
    ((cell, drawn),) = grid.draw(chosen, train, declared, asked, draws, marks).items()
    return chosen, unit, cell, drawn


def quality(
    table: SplitTable,
    method: str,
    epsilon: float,
    *,
    seed: int = 0,
    count: int = 30,
    options: Any = None,
    declared: Contract | None = None,
) -> Quality:
    """Of one release, with what is true beside it."""
    chosen, unit, cell, drawn = release(table.train, method, epsilon, seed, options, declared)
    place = ReleasePoint(declared or contract(), chosen, point(unit, cell))
    return quality_of(place, drawn, test=table, count=count)
