"""Client-side randomised response: the only stage of LDP-TabICL that reads true rows."""

from __future__ import annotations

from collections.abc import Mapping

from dpicl.engine.artefacts import REPORTS, read_split, reports_bytes, write_reports
from dpicl.engine.batches import Batches
from dpicl.engine.releases import release_missing
from dpicl.engine.run_folder import UnitFolder
from dpicl.engine.stage import unit_stage
from dpicl.engine.stages.count import collections_of
from dpicl.methods import ldp_tabicl
from dpicl.methods.common import check_supported, draws_for
from dpicl.pipeline import Cell


@unit_stage("randomise", REPORTS)
def randomise(folder: UnitFolder) -> str:
    """Every client reports once per collection, unless it has reported before."""
    check_supported(folder.contract, folder.unit)

    def draw(cells: list[Cell]) -> Mapping[Cell, bytes]:
        draws, batches = draws_for(folder.contract, folder.unit.seed), Batches.of(folder)
        if batches is None:
            collected = ldp_tabicl.collect(read_split(folder).train, folder.contract, folder.unit, draws, cells=cells)
        else:
            collected = collections_of(folder, batches, cells)
        return {cell: reports_bytes(one) for cell, one in collected.items()}

    artefacts = release_missing(folder, draw)
    write_reports(folder, artefacts)
    return f"{len(artefacts)} collections"
