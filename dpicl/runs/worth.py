"""What the private releases of a run are worth, for its report: a few rows, sentences on their
quality, and shares of their columns with errors.

Guarantee   none spent: post-processing of what was released.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from dpicl.contract import Contract
from dpicl.ground.files import write_json
from dpicl.ground.randomness import Draws
from dpicl.home.settings import Settings
from dpicl.methods.grid import points
from dpicl.methods.tabular_method import TabularMethod
from dpicl.quality.replicates import quality_of
from dpicl.quality.shown import Worth, shown
from dpicl.quality.worth import ReleasePoint
from dpicl.runs.artefacts import read_released
from dpicl.runs.run_folder import Plan, UnitFolder

WORTH = "worth.json"
_RELEASES, _ROWS, _SIMULATIONS, _PAIRS, _COLUMNS = 3, 5, 10, 3, 12
"""Of a unit, of a release, and of its picture, at most."""


def write_worth(run: Path, plan: Plan, settings: Settings) -> None:
    """A file in the folder of every unit of the first seed that released rows of a private table;
    one that is there stays.
    """
    for unit in plan.units.values():
        contract = settings.declared(unit.dataset)
        opened = UnitFolder(run, unit, contract, settings)
        method = opened.method
        if (
            isinstance(contract, Contract)
            and isinstance(method, TabularMethod)
            and method.derive_stage
            and unit.seed == min(plan.pipeline.seeds)
            and not contract.is_benchmark
            and not method.is_series(contract)
            and not (opened.path / WORTH).exists()
            and (found := dict(_releases(opened, method, contract)))
        ):
            write_json(opened.path / WORTH, found)


def _releases(
    unit: UnitFolder, method: TabularMethod[Any], contract: Contract
) -> Iterator[tuple[str, dict[str, Any]]]:
    released = read_released(unit)
    asked = points(method, unit.unit)
    finite = (cell for cell in asked if math.isfinite(asked[cell].epsilon))
    for cell in [cell for cell in finite if cell in released.rows][:_RELEASES]:
        drawn, rows = released.draws[cell], released.rows[cell].codes
        point = ReleasePoint(contract, method, asked[cell])
        binned = contract.with_bins(method.chosen_bins(drawn))
        form = method.form(binned, asked[cell]).seen(rows)
        chance = Draws(0, contract.name, simulated=True).public("shown", cell.key).generator()
        names = list(dict.fromkeys(meaning.column for meaning in form.features))[:_COLUMNS]
        with threadpool_limits(1):
            quality = quality_of(point, drawn, count=_SIMULATIONS)
            panels = shown(point, drawn, names, _PAIRS, _SIMULATIONS)
        table = form.table(rows[:_ROWS], contract, chance).to_pylist()
        texts = tuple({name: _text(value) for name, value in row.items()} for row in table)
        yield cell.key, asdict(Worth(texts, tuple(quality.sentences()), tuple(panels)))


def _text(value: object) -> str:
    return "" if value is None else str(value)
