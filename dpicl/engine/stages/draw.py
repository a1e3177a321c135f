"""The stages that draw from a table: rows are marked, releases drafted, rows derived from what was
published.

Each is called as its method says: `subsample` and `aggregate`, `randomise` and `reconstruct`,
`measure` and `reconstruct`.

A large table is counted batch by batch: exact sums of a subsample, or what the clients of a batch
sent. Every batch's counts stand in a private file of the unit, the first that is written whole; a
batch whose worker died was never seen and is drawn again. They are merged where the release is
drafted, and noise is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from dpicl.engine.artefacts import DRAFTS, ROWS, read_draws, read_split, write_drafts
from dpicl.engine.batches import Batches, check_open
from dpicl.engine.files import PRIVATE_MODE, read_arrays, write_arrays
from dpicl.engine.run_folder import UnitFolder, open_unit
from dpicl.engine.stage import Stage, stage, timed, unit_stage
from dpicl.engine.stages.charge import charged
from dpicl.errors import RunError
from dpicl.methods import tabular
from dpicl.pipeline import Cell

MARKS = "private_marks.npz"
_BETWEEN = "|"
"""Between a cell and the name of one of its arrays, of counts."""


@cache
def prepare_stage(name: str) -> Stage:
    """Mark the rows of a unit whose releases are charged."""

    def prepare(folder: UnitFolder) -> str:
        contract, unit, cells, marks = folder.contract, folder.unit, list(charged(folder)), {}
        # of batches sums are gathered, and no row's mark is stored
        if _batches(folder) is None and cells:
            marks = tabular(unit.method).prepare(
                read_split(folder).train, contract, unit, folder.draws, cells
            )
        write_arrays(
            folder.private / MARKS,
            {cell.key: one for cell, one in marks.items()},
            mode=PRIVATE_MODE,
        )
        return f"{len(cells)} cells to draw"

    return unit_stage(name, MARKS, private=True)(prepare)


@stage("count")
def count(run: str, unit_key: str, part: int, parts: int) -> str:
    """Count the batches of one piece of work for every charged release of a unit."""
    folder = open_unit(run, unit_key)
    batches, cells = _batches(folder), list(charged(folder))
    assert batches is not None
    with timed(folder.run, unit_key, "count", f"-{part}"):
        for number in batches.numbers(part, parts):
            _counted(folder, batches, number, cells)
    return f"part {part + 1} of {parts}, {len(cells)} releases"


@cache
def draw_stage(name: str) -> Stage:
    """Draft every release of a unit that is charged."""

    def draw(folder: UnitFolder) -> str:
        folder.method.check(folder.contract, folder.unit)
        cells = list(charged(folder))
        write_drafts(folder, drafted(folder, cells) if cells else {})
        return f"{len(cells)} releases"

    return unit_stage(name, DRAFTS, private=True)(draw)


def drafted(folder: UnitFolder, cells: Sequence[Cell]) -> dict[Cell, bytes]:
    """Draw these releases, which are charged: the only step that sees rows. Of a large table,
    counts the batches that are missing.
    """
    method, contract, unit = tabular(folder.unit.method), folder.contract, folder.unit
    draws, batches = folder.draws, _batches(folder)
    if batches is None:
        marks = {}
        if method.prepare_stage:
            stored = read_arrays(folder.private / MARKS)
            marks = {cell: stored[cell.key] for cell in cells}
        drawn = method.draw(read_split(folder).train, contract, unit, draws, cells, marks)
    else:
        counted: list[dict[Cell, dict[str, np.ndarray]]] = []
        for number in range(batches.count):
            by_cell: dict[str, dict[str, np.ndarray]] = {}
            for name, values in read_arrays(_counted(folder, batches, number, cells)).items():
                key, _, array = name.partition(_BETWEEN)
                by_cell.setdefault(key, {})[array] = values
            if any(cell.key not in by_cell for cell in cells):
                raise RunError(
                    f"{unit.key}: a batch was counted for other releases; start a new run"
                )
            counted.append({cell: by_cell[cell.key] for cell in cells})
        drawn = method.merge(counted, contract, unit, draws, cells)
    return {cell: method.encode(one) for cell, one in drawn.items()}


def _batches(folder: UnitFolder) -> Batches | None:
    """What a unit's method counts one by one; None where it reads all rows at once, of which
    batches are put together.
    """
    return Batches.of(folder) if tabular(folder.unit.method).takes_batches else None


def _counted(folder: UnitFolder, batches: Batches, number: int, cells: Sequence[Cell]) -> Path:
    """The file of a batch's counts; its rows are read and counted for every cell, unless that is
    done.
    """
    path = (
        folder.settings.private(folder.unit.dataset, folder.run.name, folder.unit.key, "counts")
        / f"{number:05}.npz"
    )
    if not path.exists():
        contract, unit = folder.contract, folder.unit
        folder.method.check(contract, unit)
        draws = folder.draws.of_batch(number)
        counts = tabular(unit.method).count(batches.train(number), contract, unit, draws, cells)
        arrays = {
            f"{cell.key}{_BETWEEN}{name}": values
            for cell, by_name in counts.items()
            for name, values in by_name.items()
        }
        check_open(path.parent)
        write_arrays(path, arrays, mode=PRIVATE_MODE)
    return path


@cache
def derive_stage(name: str) -> Stage:
    """Make rows of every release of a unit."""

    def derive(folder: UnitFolder) -> str:
        contract, unit = folder.contract, folder.unit
        rows = tabular(unit.method).derive(read_draws(folder), contract, unit, folder.draws)
        write_arrays(
            folder.path / ROWS, {cell.key: released.codes for cell, released in rows.items()}
        )
        return f"{len(rows)} sets of rows"

    return unit_stage(name, ROWS, reads_rows=False)(derive)
