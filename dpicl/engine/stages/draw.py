"""The stages that release of a table: rows are marked, releases drawn and published, rows derived from them.

Each is called as its method says: `subsample` and `aggregate`, `randomise` and `reconstruct`, `measure` and `reconstruct`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from dpicl.engine.artefacts import MARKS, ROWS, gather, read_draws, read_marks, read_split, write_marks, write_rows
from dpicl.engine.batches import Batches
from dpicl.engine.releases import UnitReleases, open_ledger, release_missing
from dpicl.engine.run_folder import UnitFolder
from dpicl.engine.stage import Stage, unit_stage
from dpicl.engine.stages.count import merged
from dpicl.methods import tabular
from dpicl.methods.common import draws_for
from dpicl.pipeline import Cell


@cache
def prepare_stage(name: str) -> Stage:
    """Charge every release of a unit and mark its rows, unless it is published."""

    def prepare(folder: UnitFolder) -> str:
        folder.method.check(folder.contract, folder.unit)
        if (folder.path / folder.method.artefact).exists():
            return "already released"
        with open_ledger(folder.settings) as ledger:
            missing = UnitReleases.of(folder, ledger).reserve(ledger)
        in_batches = Batches.of(folder) is not None  # of these sums are gathered, and no row's mark is kept
        write_marks(folder, _marks(folder, missing) if missing and not in_batches else {})
        return f"{len(missing)} cells to draw"

    return unit_stage(name, MARKS, private=True)(prepare)


def _marks(folder: UnitFolder, cells: list[Cell]) -> Mapping[Cell, np.ndarray]:
    contract, unit = folder.contract, folder.unit
    return tabular(unit.method).prepare(read_split(folder).train, contract, unit, draws_for(contract, unit.seed), cells)


@cache
def draw_stage(name: str) -> Stage:
    """Charge, draw and publish every release of a unit, unless it is published."""

    def draw(folder: UnitFolder) -> str:
        method, contract, unit = tabular(folder.unit.method), folder.contract, folder.unit
        method.check(contract, unit)

        def drawn(cells: list[Cell]) -> Mapping[Cell, bytes]:
            draws, batches = draws_for(contract, unit.seed), Batches.of(folder)
            if batches is None:
                marks = read_marks(folder, cells) if method.prepare_stage else {}
                found = method.draw(read_split(folder).train, contract, unit, draws, cells, marks)
            else:
                found = merged(folder, batches, cells, draws)
            return {cell: method.encode(one) for cell, one in found.items()}

        artefacts = release_missing(folder, drawn)
        gather(folder, artefacts)
        return f"{len(artefacts)} releases"

    return unit_stage(name, lambda folder: folder.method.artefact)(draw)


@cache
def derive_stage(name: str) -> Stage:
    """Make rows of every release of a unit."""

    def derive(folder: UnitFolder) -> str:
        contract, unit = folder.contract, folder.unit
        rows = tabular(unit.method).derive(read_draws(folder), contract, unit, draws_for(contract, unit.seed))
        write_rows(folder, rows)
        return f"{len(rows)} sets of rows"

    return unit_stage(name, ROWS)(derive)
