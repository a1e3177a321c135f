"""Baselines: what the same budget buys without a language model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from dpicl.contract import Declared
from dpicl.engine.artefacts import BASELINES, read_rows, read_split, read_test
from dpicl.engine.files import write_json
from dpicl.engine.run_folder import UnitFolder
from dpicl.engine.stage import unit_stage
from dpicl.evaluation import Metrics
from dpicl.methods import METHODS, gdp_tabicl, ldp_tabicl, mst_tabicl
from dpicl.methods.common import check_supported, draws_for
from dpicl.pipeline import Cell, Unit, wired


def has_baselines(unit: Unit, contract: Declared) -> bool:
    """Whether there is anything to fit, and public rows to test it on."""
    return unit.baselines and METHODS[unit.method].BASELINES != "none" and contract.evaluation == "public"


@unit_stage("baselines", BASELINES)
def fit_baselines(folder: UnitFolder) -> str:
    """Fit and test every baseline of the unit."""
    measured = _measure(folder)
    rows = [{"system": cell.system, "epsilon": str(cell.epsilon), **asdict(metrics)} for cell, metrics in measured.items()]
    write_json(folder.path / BASELINES, rows)
    return f"{len(rows)} models"


def _measure(folder: UnitFolder) -> dict[Cell, Metrics]:
    check_supported(folder.contract, folder.unit)
    return wired(_FITTED, folder.unit.method, __name__)(folder)


def _gdp(folder: UnitFolder) -> dict[Cell, Metrics]:
    return gdp_tabicl.baselines(read_split(folder), folder.contract, folder.unit, draws_for(folder.contract, folder.unit.seed))


_FITTED: dict[str, Callable[[UnitFolder], dict[Cell, Metrics]]] = {
    "ldp_tabicl": lambda folder: ldp_tabicl.baselines(read_rows(folder), read_test(folder), folder.contract, folder.unit),
    "mst_tabicl": lambda folder: mst_tabicl.baselines(read_rows(folder), read_test(folder), folder.contract, folder.unit),
    "gdp_tabicl": _gdp,
}
