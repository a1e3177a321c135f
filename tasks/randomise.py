"""Client-side randomised response: the only stage of LDP-TabICL that reads true rows."""

from __future__ import annotations

from dpicl.methods import ldp_tabicl
from dpicl.methods.common import check_supported, draws_for
from tasks.artefacts import REPORTS, read_split, write_collections
from tasks.doorway import unit_stage
from tasks.run_folder import UnitFolder


@unit_stage("randomise", REPORTS)
def randomise(folder: UnitFolder) -> str:
    """Every client reports once per epsilon."""
    check_supported(folder.contract, folder.unit)
    train = read_split(folder).train
    collections = ldp_tabicl.collect(train, folder.contract, folder.unit, draws_for(folder.contract, folder.unit.seed))
    write_collections(folder, collections)
    return f"{train.row_count} clients at {len(collections)} epsilons"
