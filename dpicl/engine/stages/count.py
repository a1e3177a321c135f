"""Counting a charged release batch by batch: exact sums of a subsample, or what the clients of a batch sent.

Every batch's counts stand in a private file of the unit, the first that is written whole; a
batch whose worker died was seen by nobody and is drawn again. They are merged in the flow's
own process, where noise is drawn once and the release is published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add
from pathlib import Path
from typing import TypeVar

import numpy as np

from dpicl.engine.batches import Batches, check_open
from dpicl.engine.files import PRIVATE_MODE, read_arrays, write_arrays
from dpicl.engine.run_folder import UnitFolder, open_unit
from dpicl.engine.stage import stage, timed
from dpicl.engine.stages.charge import charged
from dpicl.errors import RunError
from dpicl.methods import gdp_tabicl, ldp_tabicl, mst_tabicl
from dpicl.methods.common import asked_epsilon, check_supported, draws_for
from dpicl.methods.ldp_collection import Collected, merged, read_collected, release_cells
from dpicl.pipeline import Cell, wired
from dpicl.tabular.spanning_tree import ExactCounts
from dpicl.tabular.sums import GroupSums

Sums = TypeVar("Sums", GroupSums, ExactCounts)
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


def sums_of(folder: UnitFolder, batches: Batches, cells: Sequence[Cell], kind: type[Sums]) -> dict[Cell, Sums]:
    """Exact sums or counts of the whole table for every cell; counts the batches that nobody has. Call it after they are charged."""
    return reduce(_both, (_sums(_counts(folder, batches, number, cells), cells, kind) for number in range(batches.count)))


def _both(these: Mapping[Cell, Sums], those: Mapping[Cell, Sums]) -> dict[Cell, Sums]:
    return {cell: add(sums, those[cell]) for cell, sums in these.items()}


def _sums(stored: Mapping[str, np.ndarray], cells: Sequence[Cell], kind: type[Sums]) -> dict[Cell, Sums]:
    own = {cell: f"{cell.key}{_BETWEEN}" for cell in cells}
    return {
        cell: kind.read({name.removeprefix(start): values for name, values in stored.items() if name.startswith(start)})
        for cell, start in own.items()
    }


def collections_of(folder: UnitFolder, batches: Batches, cells: Sequence[Cell]) -> dict[Cell, Collected]:
    """What all clients sent for every cell; asks those of the batches that nobody has. Call it after they are charged."""
    chosen = release_cells(folder.unit)
    stored = [_counts(folder, batches, number, cells) for number in range(batches.count)]
    return {
        cell: merged([read_collected(one[cell.key], folder.contract, chosen[cell], asked_epsilon(cell)) for one in stored])
        for cell in cells
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
        check_supported(folder.contract, folder.unit)
        drawn = _drawn(folder, batches, number, cells)
        check_open(path.parent)
        write_arrays(path, drawn, mode=PRIVATE_MODE)


def _drawn(folder: UnitFolder, batches: Batches, number: int, cells: Sequence[Cell]) -> dict[str, np.ndarray]:
    contract, unit = folder.contract, folder.unit
    train, draws = batches.train(number), draws_for(contract, unit.seed).of_batch(number)

    def sent() -> dict[str, np.ndarray]:
        return {cell.key: one.stored for cell, one in ldp_tabicl.collect(train, contract, unit, draws, cells=cells).items()}

    def counts() -> dict[str, np.ndarray]:
        arrays = mst_tabicl.exact_counts(train, contract, draws).arrays()
        return {f"{cell.key}{_BETWEEN}{name}": values for cell in cells for name, values in arrays.items()}

    def sums() -> dict[str, np.ndarray]:
        counted = gdp_tabicl.counted(train, contract, unit, draws, cells=cells)
        return {f"{cell.key}{_BETWEEN}{name}": values for cell, sums in counted.items() for name, values in sums.arrays().items()}

    ways: dict[str, Callable[[], dict[str, np.ndarray]]] = {"ldp_tabicl": sent, "mst_tabicl": counts, "gdp_tabicl": sums}
    return wired(ways, unit.method, __name__)()


def _file(folder: UnitFolder, number: int) -> Path:
    place = folder.settings.private(folder.unit.dataset, folder.run.name, folder.unit.key, "counts")
    return place / f"{number:05}.npz"
