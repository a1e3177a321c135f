"""Which of the released demonstrations a report shows."""

from __future__ import annotations

import math
from typing import Any

from dpicl.report.load import Demonstrations

EXAMPLE_CELLS, EXAMPLE_TEXTS = 2, 4


def examples(units: tuple[Demonstrations, ...]) -> list[dict[str, Any]]:
    """A few private demonstrations of the first unit of each method and data set.

    Cells at epsilon = inf are left out: they hold what no mechanism protected.
    """
    shown: dict[tuple[str, str], dict[str, Any]] = {}
    for unit in units:
        cells = [(cell_label(key), texts[:EXAMPLE_TEXTS]) for key, texts in unit.cells.items() if _is_private(key) and texts]
        if cells and (unit.method, unit.dataset) not in shown:
            entry = {"method": unit.method, "dataset": unit.dataset, "seed": unit.seed, "cells": cells[:EXAMPLE_CELLS]}
            shown[unit.method, unit.dataset] = entry
    return list(shown.values())


def cell_label(key: str) -> str:
    """`icl,epsilon=1.0,shots=2` as `ε = 1, k = 2`."""
    names = {"epsilon": "ε", "shots": "k"}
    parts = [part.partition("=") for part in key.split(",")]
    return ", ".join(f"{names.get(name, name)} = {value.removesuffix('.0')}" for name, sign, value in parts if sign) or key


def _is_private(key: str) -> bool:
    """Only a cell that states a finite epsilon."""
    for name, _, value in (part.partition("=") for part in key.split(",")):
        if name == "epsilon":
            try:
                return math.isfinite(float(value))
            except ValueError:
                return False
    return False
