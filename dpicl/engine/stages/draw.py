"""The stages that draw from a table: rows are marked, releases drafted, rows derived from what was
published.

Each is called as its method says: `subsample` and `aggregate`, `randomise` and `reconstruct`,
`measure` and `reconstruct`. Before them a large table is counted, a part of its batches each.
"""

from __future__ import annotations

from functools import cache

from dpicl.engine.artefacts import DRAFTS, ROWS, read_draws, write_drafts
from dpicl.engine.drawing import counted, counted_batches, drafted, marked
from dpicl.engine.files import PRIVATE_MODE, read_arrays, write_arrays
from dpicl.engine.run_folder import UnitFolder, open_unit
from dpicl.engine.stage import Stage, stage, timed, unit_stage
from dpicl.engine.stages.charge import charged
from dpicl.methods import tabular

MARKS = "private_marks.npz"


@cache
def prepare_stage(name: str) -> Stage:
    """Mark the rows of a unit whose releases are charged."""

    def prepare(folder: UnitFolder) -> str:
        cells = list(charged(folder))
        marks = marked(folder.rows, folder.unit, cells)
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
    rows, cells = folder.rows, list(charged(folder))
    batches = counted_batches(rows, folder.unit)
    assert batches is not None
    with timed(folder.run, unit_key, "count", f"-{part}"):
        for number in batches.numbers(part, parts):
            counted(rows, folder.unit, batches, number, cells)
    return f"part {part + 1} of {parts}, {len(cells)} releases"


@cache
def draw_stage(name: str) -> Stage:
    """Draft every release of a unit that is charged."""

    def draw(folder: UnitFolder) -> str:
        folder.method.check(folder.contract, folder.unit)
        cells, stored = list(charged(folder)), folder.private / MARKS
        by_key = read_arrays(stored) if stored.exists() else {}
        marks = {cell: by_key[cell.key] for cell in cells if cell.key in by_key}
        write_drafts(folder, drafted(folder.rows, folder.unit, cells, marks) if cells else {})
        return f"{len(cells)} releases"

    return unit_stage(name, DRAFTS, private=True)(draw)


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
