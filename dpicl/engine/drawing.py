"""Drawing releases of a table from its rows: the only step that sees them.

Of a table that is whole, rows may be marked before (`marked`). A large one is counted batch by
batch: exact sums of a subsample, or what the clients of a batch sent. Every batch's counts stand in
a private file, the first that is written whole; a batch whose worker died was never seen and is
drawn again. They are merged where the release is drafted, and noise is drawn.

Guarantee   that of the method, for releases that are charged before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpicl.contract import Contract
from dpicl.engine.batches import Batches, check_open, private_folder
from dpicl.engine.files import PRIVATE_MODE, read_arrays, write_arrays
from dpicl.engine.rows import Rows
from dpicl.errors import RunError
from dpicl.methods import METHODS, tabular
from dpicl.methods.common import draws_for
from dpicl.methods.tabular_method import TabularMethod
from dpicl.pipeline import Cell, Unit

_BETWEEN = "|"
"""Between a cell and the name of one of its arrays, of counts."""


def counted_batches(rows: Rows, unit: Unit) -> Batches | None:
    """What a unit's method counts one by one; None where it reads all rows at once, of which
    batches are put together.
    """
    method = METHODS[unit.method]
    return rows.batches if isinstance(method, TabularMethod) and method.takes_batches else None


def marked(rows: Rows, unit: Unit, cells: Sequence[Cell]) -> dict[Cell, np.ndarray]:
    """Private marks of rows, shape (rows,), that these releases are drawn with; none of batches."""
    method, contract = tabular(unit.method), rows.contract
    assert isinstance(contract, Contract)
    if method.prepare_stage is None or not cells or counted_batches(rows, unit) is not None:
        return {}
    return method.prepare(rows.train(), contract, unit, draws_for(contract, unit.seed), cells)


def drafted(
    rows: Rows, unit: Unit, cells: Sequence[Cell], marks: Mapping[Cell, np.ndarray]
) -> dict[Cell, bytes]:
    """Draw these releases, which are charged. Of a large table, counts the batches that are
    missing.
    """
    method, contract, batches = tabular(unit.method), rows.contract, counted_batches(rows, unit)
    assert isinstance(contract, Contract)
    method.check(contract, unit)
    draws = draws_for(contract, unit.seed)
    if batches is None:
        drawn: Mapping[Cell, Any] = method.draw(rows.train(), contract, unit, draws, cells, marks)
    else:
        counts: list[dict[Cell, dict[str, np.ndarray]]] = []
        for number in range(batches.count):
            by_cell: dict[str, dict[str, np.ndarray]] = {}
            for name, values in read_arrays(counted(rows, unit, batches, number, cells)).items():
                key, _, array = name.partition(_BETWEEN)
                by_cell.setdefault(key, {})[array] = values
            if any(cell.key not in by_cell for cell in cells):
                raise RunError(
                    f"{unit.key}: a batch was counted for other releases; start a new run"
                )
            counts.append({cell: by_cell[cell.key] for cell in cells})
        drawn = method.merge(counts, contract, unit, draws, cells)
    return {cell: method.encode(draw) for cell, draw in drawn.items()}


def counted(rows: Rows, unit: Unit, batches: Batches, number: int, cells: Sequence[Cell]) -> Path:
    """The file of a batch's counts; its rows are read and counted for every cell, unless that is
    done.
    """
    path = private_folder(rows.folder, unit.key, "counts") / f"{number:05}.npz"
    if not path.exists():
        method, contract = tabular(unit.method), batches.contract
        method.check(contract, unit)
        draws = draws_for(contract, unit.seed).of_batch(number)
        counts = method.count(batches.train(number), contract, unit, draws, cells)
        arrays = {
            f"{cell.key}{_BETWEEN}{name}": values
            for cell, by_name in counts.items()
            for name, values in by_name.items()
        }
        check_open(path.parent)
        write_arrays(path, arrays, mode=PRIVATE_MODE)
    return path
