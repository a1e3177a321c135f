"""Baselines: what the same budget gives without a language model."""

from __future__ import annotations

from dataclasses import asdict

from dpicl.engine.artefacts import BASELINES, read_released, read_split, read_test
from dpicl.engine.files import write_json
from dpicl.engine.run_folder import UnitFolder
from dpicl.engine.stage import unit_stage
from dpicl.methods import tabular
from dpicl.methods.common import draws_for


@unit_stage("baselines", BASELINES)
def fit_baselines(folder: UnitFolder) -> str:
    """Fit and test every baseline of the unit."""
    contract, unit = folder.contract, folder.unit
    released, draws = read_released(folder), draws_for(contract, unit.seed)
    measured = tabular(unit.method).fitted(released, lambda: read_split(folder).train, read_test(folder), contract, unit, draws)
    rows = [{"system": cell.system, "epsilon": str(cell.epsilon), **asdict(metrics)} for cell, metrics in measured.items()]
    write_json(folder.path / BASELINES, rows)
    return f"{len(rows)} models"
