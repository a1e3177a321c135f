"""Poisson subsample and GROUP BY: who is in, and in which public group; stays private."""

from __future__ import annotations

import numpy as np

from dpicl.engine.artefacts import GROUPS, MEMBERS, read_split, write_members
from dpicl.engine.batches import Batches
from dpicl.engine.releases import UnitReleases, open_ledger
from dpicl.engine.run_folder import UnitFolder
from dpicl.engine.stage import unit_stage
from dpicl.methods import gdp_tabicl
from dpicl.methods.common import check_supported, draws_for
from dpicl.pipeline import Cell


@unit_stage("subsample", MEMBERS, private=True)
def subsample(folder: UnitFolder) -> str:
    """Charge every cell's release and draw its subsample, unless it is published."""
    check_supported(folder.contract, folder.unit)
    if (folder.path / GROUPS).exists():
        return "averages are already released"
    with open_ledger(folder.settings) as ledger:
        missing = UnitReleases.of(folder, ledger).reserve(ledger)
    counted_in_batches = Batches.of(folder) is not None  # of these `aggregate` gathers sums, and no row's group is kept
    write_members(folder, _draw(folder, missing) if missing and not counted_in_batches else {})
    return f"{len(missing)} cells to draw"


def _draw(folder: UnitFolder, cells: list[Cell]) -> dict[Cell, np.ndarray]:
    draws = draws_for(folder.contract, folder.unit.seed)
    return gdp_tabicl.subsample_and_group(read_split(folder).train, folder.contract, folder.unit, draws, cells=cells)
