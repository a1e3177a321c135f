"""Laplace aggregation: noisy averages of every public group."""

from __future__ import annotations

from collections.abc import Mapping

from dpicl.engine.artefacts import GROUPS, groups_bytes, read_members, read_split, write_groups
from dpicl.engine.batches import Batches
from dpicl.engine.releases import release_missing
from dpicl.engine.run_folder import UnitFolder
from dpicl.engine.stage import unit_stage
from dpicl.engine.stages.count import sums_of
from dpicl.methods import gdp_tabicl
from dpicl.methods.common import draws_for
from dpicl.pipeline import Cell
from dpicl.tabular.sums import GroupSums


@unit_stage("aggregate", GROUPS)
def aggregate(folder: UnitFolder) -> str:
    """Average every cell's groups, unless they are published."""

    def draw(cells: list[Cell]) -> Mapping[Cell, bytes]:
        draws, batches = draws_for(folder.contract, folder.unit.seed), Batches.of(folder)
        if batches is None:
            released = gdp_tabicl.aggregate(read_split(folder).train, read_members(folder, cells), folder.contract, folder.unit, draws)
        else:
            released = gdp_tabicl.released(sums_of(folder, batches, cells, GroupSums), folder.contract, folder.unit, draws)
        return {cell: groups_bytes(groups) for cell, groups in released.items()}

    artefacts = release_missing(folder, draw)
    write_groups(folder, artefacts)
    return f"averages in {len(artefacts)} cells"
