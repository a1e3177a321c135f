"""What the releases of a run are worth, for its report: of private rows a few released ones,
sentences on their quality, and shares of their columns with errors; of a benchmark in a small run
the first release beside the true rows, which are public, unless these are read in batches.

Guarantee   none spent: post-processing of what was released.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from dpicl.contract import Contract
from dpicl.contract.pipeline import Cell
from dpicl.data.reading.files import in_batches
from dpicl.data.values import RowForm
from dpicl.ground.files import write_json
from dpicl.ground.randomness import Draws
from dpicl.ground.types import EncodedQueries, ReleasedRows
from dpicl.home.settings import Settings
from dpicl.methods.baselines import local_baselines
from dpicl.methods.grid import points
from dpicl.methods.tabular_method import TabularMethod
from dpicl.quality.replicates import quality_of
from dpicl.quality.shown import Fitted, Truth, Worth, beside_truth, shown
from dpicl.quality.worth import ReleasePoint
from dpicl.runs.artefacts import read_released
from dpicl.runs.run_folder import Plan, UnitFolder

WORTH = "worth.json"
_RELEASES, _ROWS, _SIMULATIONS, _PAIRS, _COLUMNS = 3, 5, 10, 3, 12
"""Of a unit, of a release, and of its picture, at most."""


def write_worth(run: Path, plan: Plan, settings: Settings) -> None:
    """A file in the folder of every unit of the first seed that released rows of a private table,
    or of the first that did of a benchmark; one that is there stays.
    """
    grid = plan.pipeline
    is_small = len(grid.datasets) == 1 and len(grid.epsilons) <= _RELEASES
    with_truth = is_small and math.inf not in grid.epsilons
    for unit in plan.units.values():
        contract = settings.declared(unit.dataset)
        opened = UnitFolder(run, unit, contract, settings)
        method = opened.method
        if (
            isinstance(contract, Contract)
            and isinstance(method, TabularMethod)
            and method.derive_stage
            and unit.seed == min(grid.seeds)
            and not method.is_series(contract)
            and (with_truth or not contract.is_benchmark)
        ):
            with_truth = False
            if not (opened.path / WORTH).exists():
                releases = _known_truth if contract.is_benchmark else _releases
                if found := dict(releases(opened, method, contract)):
                    write_json(opened.path / WORTH, found)


@dataclass(frozen=True)
class _Opened:
    """One release of a unit, with the bins that it chose."""

    cell: Cell
    point: ReleasePoint
    drawn: Any
    rows: ReleasedRows
    form: RowForm
    shown: tuple[dict[str, str], ...]

    @property
    def names(self) -> list[str]:
        """Columns that a picture has room for."""
        return list(dict.fromkeys(meaning.column for meaning in self.form.features))[:_COLUMNS]


def _opened(unit: UnitFolder, method: TabularMethod[Any], contract: Contract) -> Iterator[_Opened]:
    """At finite epsilons, the least first."""
    released = read_released(unit)
    asked = points(method, unit.unit)
    cells = [cell for cell in asked if cell in released.rows and cell in released.draws]
    for cell in sorted(cells, key=lambda cell: asked[cell].epsilon):
        if not math.isfinite(asked[cell].epsilon):
            continue
        drawn, rows = released.draws[cell], released.rows[cell]
        point = ReleasePoint(contract, method, asked[cell])
        binned = contract.with_bins(method.chosen_bins(drawn))
        form = method.form(binned, asked[cell]).seen(rows.codes)
        chance = Draws(0, contract.name, simulated=True).public("shown", cell.key).generator()
        texts = _texts(form.table(rows.codes[:_ROWS], contract, chance))
        yield _Opened(cell, point, drawn, rows, form, texts)


def _known_truth(
    unit: UnitFolder, method: TabularMethod[Any], contract: Contract
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The release of the least epsilon, if the label is one of classes and rows fit in memory."""
    if contract.target.kind not in ("binary", "classes") or in_batches(contract):
        return
    for opened in islice(_opened(unit, method, contract), 1):
        train, test = unit.rows.train(), unit.rows.test()
        some = np.linspace(0, train.row_count - 1, _ROWS).astype(int)  # files may be sorted
        encoding = opened.form.encoding
        binned = opened.point.of_release(opened.drawn)
        true, asked = binned.bins(train), EncodedQueries(binned.bins(test))
        both = opened.rows, ReleasedRows(encoding.encode(true))
        with threadpool_limits(1):
            released, true_fit = (local_baselines(rows, encoding, asked)["lr"] for rows in both)
            panels = beside_truth(opened.point, opened.drawn, opened.names, true)
        truth = Truth(
            _texts(train.data.select(list(opened.shown[0])).take(some)),
            Fitted(released.auc, released.accuracy),
            Fitted(true_fit.auc, true_fit.accuracy),
            test.row_count,
        )
        yield opened.cell.key, asdict(Worth(opened.shown, (), tuple(panels), truth))


def _texts(table: pa.Table) -> tuple[dict[str, str], ...]:
    return tuple({name: _text(value) for name, value in row.items()} for row in table.to_pylist())


def _releases(
    unit: UnitFolder, method: TabularMethod[Any], contract: Contract
) -> Iterator[tuple[str, dict[str, Any]]]:
    for opened in islice(_opened(unit, method, contract), _RELEASES):
        point, drawn = opened.point, opened.drawn
        with threadpool_limits(1):
            quality = quality_of(point, drawn, count=_SIMULATIONS)
            panels = shown(point, drawn, opened.names, _PAIRS, _SIMULATIONS)
        told = tuple(quality.sentences())
        yield opened.cell.key, asdict(Worth(opened.shown, told, tuple(panels)))


def _text(value: object) -> str:
    return "" if value is None else str(value)
