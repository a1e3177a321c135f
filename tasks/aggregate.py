"""Laplace aggregation: noisy averages of every public group."""

from __future__ import annotations

from dpicl.methods import gdp_tabicl
from dpicl.methods.common import draws_for
from tasks.artefacts import GROUPS, read_members, read_split, write_groups
from tasks.doorway import unit_stage
from tasks.run_folder import UnitFolder


@unit_stage("aggregate", GROUPS)
def aggregate(folder: UnitFolder) -> str:
    """Average every cell's groups."""
    draws = draws_for(folder.contract, folder.unit.seed)
    released = gdp_tabicl.aggregate(read_split(folder).train, read_members(folder), folder.contract, folder.unit, draws)
    write_groups(folder, released)
    return f"{sum(len(groups.groups) for groups in released.values())} groups in {len(released)} cells"
