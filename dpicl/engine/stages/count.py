"""Counting a charged release batch by batch: exact sums of a subsample, or what the clients of a batch sent.

Every batch's counts stand in a private file of the unit, the first that is written whole; a
batch whose worker died was seen by nobody and is drawn again. They are merged in the flow's
own process, where noise is drawn once and the release is published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def _count(run: str, unit_key: str, part: int, parts: int) -> str:
    folder = open_unit(run, unit_key)
    batches, cells = Batches.of(folder), list(charged(folder))
    assert batches is not None
    with timed(folder.run, unit_key, "count", f"-{part}"):
        for number in batches.numbers(part, parts):
            _count_batch(folder, batches, number, cells)
    return f"part {part + 1} of {parts}, {len(cells)} releases"


count = stage("count", "count {unit_key} {part}", _count)


def merged(folder: UnitFolder, batches: Batches, cells: Sequence[Cell], draws: Draws) -> dict[Cell, Any]:
    """Releases of the whole table; counts the batches that nobody has. Call it after they are charged."""
    counted = [_by_cell(_counts(folder, batches, number, cells), cells) for number in range(batches.count)]
    return tabular(folder.unit.method).merge(counted, folder.contract, folder.unit, draws, cells)


def _by_cell(stored: Mapping[str, np.ndarray], cells: Sequence[Cell]) -> dict[Cell, dict[str, np.ndarray]]:
    own = {cell: f"{cell.key}{_BETWEEN}" for cell in cells}
    return {
        cell: {name.removeprefix(start): values for name, values in stored.items() if name.startswith(start)} for cell, start in own.items()
    }


def _counts(folder: UnitFolder, batches: Batches, number: int, cells: Sequence[Cell]) -> dict[str, np.ndarray]:
    _count_batch(folder, batches, number, cells)
    stored = read_arrays(_file(folder, number))
    if any(not any(name.split(_BETWEEN)[0] == cell.key for name in stored) for cell in cells):
        raise RunError(f"{folder.unit.key}: batch {number} was counted for other releases; start a new run")
    return stored


def _count_batch(folder: UnitFolder, batches: Batches, number: int, cells: Sequence[Cell]) -> None:
    """Read the rows of a batch and count them for every cell, unless that is done."""
    path = _file(folder, number)
    if not path.exists():
        folder.method.check(folder.contract, folder.unit)
        drawn = _drawn(folder, batches, number, cells)
        check_open(path.parent)
        write_arrays(path, drawn, mode=PRIVATE_MODE)


def _drawn(folder: UnitFolder, batches: Batches, number: int, cells: Sequence[Cell]) -> dict[str, np.ndarray]:
    contract, unit = folder.contract, folder.unit
    draws = draws_for(contract, unit.seed).of_batch(number)
    counted = tabular(unit.method).count(batches.train(number), contract, unit, draws, cells)
    return {f"{cell.key}{_BETWEEN}{name}": values for cell, arrays in counted.items() for name, values in arrays.items()}


def _file(folder: UnitFolder, number: int) -> Path:
    place = folder.settings.private(folder.unit.dataset, folder.run.name, folder.unit.key, "counts")
    return place / f"{number:05}.npz"
