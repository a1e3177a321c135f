"""Counting a charged release batch by batch: exact sums of a subsample, or what the clients of a batch sent.

Every batch's counts stand in a private file of the unit, the first that is written whole; a
batch whose worker died was never seen and is drawn again. They are merged where the release
is drafted, and noise is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpicl.engine.batches import Batches, check_open
from dpicl.engine.files import PRIVATE_MODE, read_arrays, write_arrays
from dpicl.engine.run_folder import UnitFolder, open_unit
from dpicl.engine.stage import stage, timed
from dpicl.engine.stages.charge import charged
from dpicl.errors import RunError
from dpicl.methods import tabular
from dpicl.methods.common import draws_for
from dpicl.pipeline import Cell
from dpicl.randomness import Draws

_BETWEEN = "|"
"""Between a cell and the name of one of its arrays."""


@stage("count", "count {unit_key} {part}")
def count(run: str, unit_key: str, part: int, parts: int) -> str:
    """Count the batches of one piece of work for every charged release of a unit."""
    folder = open_unit(run, unit_key)
    batches, cells = Batches.of(folder), list(charged(folder))
    assert batches is not None
    with timed(folder.run, unit_key, "count", f"-{part}"):
        for number in batches.numbers(part, parts):
            _counted(folder, batches, number, cells)
    return f"part {part + 1} of {parts}, {len(cells)} releases"


def merged(folder: UnitFolder, batches: Batches, cells: Sequence[Cell], draws: Draws) -> dict[Cell, Any]:
    """Releases of the whole table; counts the batches that are missing. Call it after they are charged."""
    counted: list[dict[Cell, dict[str, np.ndarray]]] = []
    for number in range(batches.count):
        by_cell: dict[str, dict[str, np.ndarray]] = {}
        for name, values in read_arrays(_counted(folder, batches, number, cells)).items():
            key, _, array = name.partition(_BETWEEN)
            by_cell.setdefault(key, {})[array] = values
        if any(cell.key not in by_cell for cell in cells):
            raise RunError(f"{folder.unit.key}: batch {number} was counted for other releases; start a new run")
        counted.append({cell: by_cell[cell.key] for cell in cells})
    return tabular(folder.unit.method).merge(counted, folder.contract, folder.unit, draws, cells)


def _counted(folder: UnitFolder, batches: Batches, number: int, cells: Sequence[Cell]) -> Path:
    """The file of a batch's counts; its rows are read and counted for every cell, unless that is done."""
    path = folder.settings.private(folder.unit.dataset, folder.run.name, folder.unit.key, "counts") / f"{number:05}.npz"
    if not path.exists():
        contract, unit = folder.contract, folder.unit
        folder.method.check(contract, unit)
        draws = draws_for(contract, unit.seed).of_batch(number)
        counts = tabular(unit.method).count(batches.train(number), contract, unit, draws, cells)
        arrays = {f"{cell.key}{_BETWEEN}{name}": values for cell, by_name in counts.items() for name, values in by_name.items()}
        check_open(path.parent)
        write_arrays(path, arrays, mode=PRIVATE_MODE)
    return path
