"""What the run cost: wall time by stage, energy, and CO2 by equation (2) of DP-TabICL."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from dpicl.engine.order import stages
from dpicl.report.load import Energy

STAGES = tuple(stage.name for stage in stages())


@dataclass(frozen=True)
class StageTime:
    """Seconds of one stage, by method (not a number where a method has no such stage) and in all."""

    stage: str
    by_method: tuple[float, ...]
    total: float
    share: float


@dataclass(frozen=True)
class Costs:
    """All stages of all units added up, whether or not they ran side by side."""

    methods: tuple[str, ...]
    stages: tuple[StageTime, ...]
    total_seconds: float
    energy_kwh: float | None
    co2_kg: float | None


def costs(timings: pd.DataFrame, energy: Energy | None) -> Costs:
    """Add up the timings.

    (2)  kWh = watts x hours / 1000,  kg CO2 = kWh x kg per kWh
    """
    seconds = timings.groupby(["stage", "method"])["seconds"].sum()
    methods = tuple(timings["method"].unique())
    total = float(timings["seconds"].sum())
    stages = tuple(_stage(name, seconds, methods, total) for name in sorted(timings["stage"].unique(), key=_stage_order))
    if energy is None:
        return Costs(methods, stages, total, None, None)
    kwh = energy.power_watts * total / 3600 / 1000
    return Costs(methods, stages, total, kwh, kwh * energy.kg_co2_per_kwh)


def _stage(name: str, seconds: pd.Series, methods: tuple[str, ...], total: float) -> StageTime:
    by_method = tuple(float(seconds.get((name, method), math.nan)) for method in methods)
    spent = float(seconds[name].sum())
    return StageTime(name, by_method, spent, spent / total if total else 0.0)


def _stage_order(name: str) -> tuple[int, str]:
    return (STAGES.index(name) if name in STAGES else len(STAGES)), name
