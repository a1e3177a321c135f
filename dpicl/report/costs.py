"""What the run cost: wall time by stage, energy, and CO2 by equation (2) of DP-TabICL."""

from __future__ import annotations

import pandas as pd

from dpicl.report import words
from dpicl.report.load import Energy

STAGES = (
    "ingest",
    "validate",
    "split",
    "randomise",
    "reconstruct",
    "subsample",
    "aggregate",
    "charge",
    "generate",
    "consult",
    "release",
    "serialize",
    "score",
    "baselines",
    "evaluate",
)


def stage_seconds(timings: pd.DataFrame) -> pd.DataFrame:
    """Seconds by stage (rows, in the order of a run) and method (columns); not a number where a method has no such stage."""
    seconds = timings.groupby(["stage", "method"], sort=False)["seconds"].sum().unstack("method")
    known = [stage for stage in STAGES if stage in seconds.index]
    return seconds.reindex(index=known + sorted(set(seconds.index) - set(known)), columns=timings["method"].unique())


def energy_sentence(seconds: float, energy: Energy) -> str:
    """Energy and CO2 of this time.

    (2)  kWh = watts x hours / 1000,  kg CO2 = kWh x kg per kWh
    """
    kwh = energy.power_watts * seconds / 3600 / 1000
    return (
        f"At {energy.power_watts:g} W for that time and {energy.kg_co2_per_kwh:g} kg CO₂ per kWh, this is {words.number(kwh, 4)} kWh and "
        f"{words.mass(kwh * energy.kg_co2_per_kwh)} CO₂eq by the paper's equation (2): power × hours / 1000 × kg per kWh. "
        "The watts and the kg per kWh are assumptions, not measurements."
    )
