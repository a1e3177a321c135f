"""Poisson subsample and GROUP BY: who is in, and in which public group; stays private."""

from __future__ import annotations

from dpicl.methods import gdp_tabicl
from dpicl.methods.common import check_supported, draws_for
from tasks.artefacts import GROUPS, MEMBERS, read_split, write_members
from tasks.doorway import unit_stage
from tasks.run_folder import UnitFolder


@unit_stage("subsample", MEMBERS, private=True)
def subsample(folder: UnitFolder) -> str:
    """Draw the subsample of every cell, unless its averages are already released."""
    check_supported(folder.contract, folder.unit)
    if (folder.path / GROUPS).exists():
        return "averages are already released"
    train = read_split(folder).train
    members = gdp_tabicl.subsample_and_group(train, folder.contract, folder.unit, draws_for(folder.contract, folder.unit.seed))
    write_members(folder, members)
    return f"{len(members)} cells"
