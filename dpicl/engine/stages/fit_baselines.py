"""Baselines: what the same budget gives without a language model."""

from __future__ import annotations

from dataclasses import asdict

from dpicl.contract import Declared
from dpicl.engine.artefacts import BASELINES, read_released, read_split, read_test
from dpicl.engine.files import write_json
from dpicl.engine.run_folder import UnitFolder
from dpicl.engine.stage import unit_stage
from dpicl.methods import METHODS, tabular
from dpicl.methods.common import draws_for
from dpicl.pipeline import Unit


def has_baselines(unit: Unit, contract: Declared) -> bool:
    """Whether there is anything to fit, and public rows to test it on."""
    return unit.baselines and METHODS[unit.method].baselines_read != "none" and contract.evaluation == "public"


@unit_stage("baselines", BASELINES)
def fit_baselines(folder: UnitFolder) -> str:
    """Fit and test every baseline of the unit."""
    contract, unit = folder.contract, folder.unit
    method = tabular(unit.method)
    method.check(contract, unit)
    train = read_split(folder).train if method.baselines_read == "private" else None
    measured = method.baselines(read_released(folder), train, read_test(folder), contract, unit, draws_for(contract, unit.seed))
    rows = [{"system": cell.system, "epsilon": str(cell.epsilon), **asdict(metrics)} for cell, metrics in measured.items()]
    write_json(folder.path / BASELINES, rows)
    return f"{len(rows)} models"
