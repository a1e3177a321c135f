"""What DP-TabICL printed (arXiv 2403.05681): its tables as data, with its slips mended.

Every CSV is one table of the paper, one row per cell. A value that the paper got wrong is
corrected in its column, and what was printed stands beside it in a `printed` column, which
is empty elsewhere. `errata.csv` says why. Accuracies are fractions, deviations are over five runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal

from pydantic import TypeAdapter

from dpicl.errors import ParameterError
from dpicl.methods.published.files import read_table

PaperModel = Literal["13b", "7b"]
ACCURACY_TABLES = {("13b", "ldp_tabicl"): "II", ("13b", "gdp_tabicl"): "III", ("7b", "ldp_tabicl"): "XII", ("7b", "gdp_tabicl"): "XIII"}
"""Which table holds the accuracies of a model and a method."""

_PRINTED_SYSTEM = {"lr-naive": "lr", "gnb-naive": "gnb"}


@dataclass(frozen=True)
class AmplifiedEpsilon:
    """One cell of Table V; `printed` differs from `amplified_epsilon` where the paper slipped."""

    dataset: str
    sample_count: int
    row_count: int
    epsilon: float
    amplified_epsilon: float
    printed: float


@dataclass(frozen=True)
class Erratum:
    """One slip of the paper. `dataset` is empty for a whole table, `corrected` where the truth is not known."""

    table: str
    dataset: str
    cell: str
    printed: str
    corrected: str
    why: str


def paper_accuracy(
    model: PaperModel, method: str, dataset: str, system: str, shots: int | None, epsilon: float
) -> tuple[float, float] | None:
    """Mean and deviation that the paper prints for a cell, or None where it prints none.

    `system` is a result's: `icl` with its number of shots, or a baseline without. The paper has one
    row for each baseline, so `lr` and `lr-naive` find the same number. Llama-2 13B or 7B.

    Raises:
        ParameterError: `model` is not one of the paper's.
    """
    if model not in ("13b", "7b"):
        raise ParameterError("model", model, "'13b' or '7b'")
    printed = _PRINTED_SYSTEM.get(system, system)
    return _accuracies().get((model, method, dataset, printed, shots if printed == "icl" else None, epsilon))


@cache
def table_v() -> tuple[AmplifiedEpsilon, ...]:
    """Table V: epsilon after amplification by subsampling, three decimals, as corrected."""
    cell = TypeAdapter(AmplifiedEpsilon)
    return tuple(cell.validate_python({**row, "printed": row["printed"] or row["amplified_epsilon"]}) for row in read_table("table-V"))


@cache
def errata() -> tuple[Erratum, ...]:
    """The paper's known slips, in the order of its tables."""
    return tuple(Erratum(**row) for row in read_table("errata"))


@cache
def _accuracies() -> dict[tuple[str, str, str, str, int | None, float], tuple[float, float]]:
    cells = {}
    for table in ACCURACY_TABLES.values():
        for row in read_table(f"table-{table}"):
            shots = int(row["shots"]) if row["shots"] else None
            epsilon = math.inf if row["epsilon"] == "inf" else float(row["epsilon"])
            key = (row["model"], row["method"], row["dataset"], row["system"], shots, epsilon)
            cells[key] = (float(row["mean"]), float(row["std"]))
    return cells
