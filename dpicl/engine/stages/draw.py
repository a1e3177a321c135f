"""The stages that draw from a table: rows are marked, releases drafted, rows derived from what was published.

Each is called as its method says: `subsample` and `aggregate`, `randomise` and `reconstruct`, `measure` and `reconstruct`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from dpicl.engine.artefacts import DRAFTS, ROWS, read_draws, read_split, write_drafts
from dpicl.engine.batches import Batches
from dpicl.engine.files import PRIVATE_MODE, read_arrays, write_arrays
from dpicl.engine.run_folder import UnitFolder
from dpicl.engine.stage import Stage, unit_stage
from dpicl.engine.stages.charge import charged
from dpicl.engine.stages.count import merged
from dpicl.methods import tabular
from dpicl.methods.common import draws_for
from dpicl.pipeline import Cell

MARKS = "private_marks.npz"


@cache
def prepare_stage(name: str) -> Stage:
    """Mark the rows of a unit whose releases are charged."""

    def prepare(folder: UnitFolder) -> str:
        contract, unit, cells, marks = folder.contract, folder.unit, list(charged(folder)), {}
        if cells and Batches.of(folder) is None:  # of batches sums are gathered, and no row's mark is stored
            marks = tabular(unit.method).prepare(read_split(folder).train, contract, unit, draws_for(contract, unit.seed), cells)
        write_arrays(folder.private / MARKS, {cell.key: one for cell, one in marks.items()}, mode=PRIVATE_MODE)
        return f"{len(cells)} cells to draw"

    return unit_stage(name, MARKS, private=True)(prepare)


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
    """Draw these releases: the only step that sees rows."""
    method, contract, unit = tabular(folder.unit.method), folder.contract, folder.unit
    draws, batches = draws_for(contract, unit.seed), Batches.of(folder)
    if batches is None:
        stored = read_arrays(folder.private / MARKS) if method.prepare_stage else {}
        marks = {cell: stored[cell.key] for cell in cells} if method.prepare_stage else {}
        drawn = method.draw(read_split(folder).train, contract, unit, draws, cells, marks)
    else:
        drawn = merged(folder, batches, cells, draws)
    return {cell: method.encode(one) for cell, one in drawn.items()}


@cache
def derive_stage(name: str) -> Stage:
    """Make rows of every release of a unit."""

    def derive(folder: UnitFolder) -> str:
        contract, unit = folder.contract, folder.unit
        rows = tabular(unit.method).derive(read_draws(folder), contract, unit, draws_for(contract, unit.seed))
        write_arrays(folder.path / ROWS, {cell.key: released.codes for cell, released in rows.items()})
        return f"{len(rows)} sets of rows"

    return unit_stage(name, ROWS)(derive)
