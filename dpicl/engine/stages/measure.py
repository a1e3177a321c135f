"""Noisy counts of columns and pairs of columns: the only stage of MST-TabICL that reads rows."""

from __future__ import annotations

from collections.abc import Mapping

from dpicl.engine.artefacts import COUNTS, counts_bytes, read_split, write_counts
from dpicl.engine.batches import Batches
from dpicl.engine.releases import release_missing
from dpicl.engine.run_folder import UnitFolder
from dpicl.engine.stage import unit_stage
from dpicl.engine.stages.count import sums_of
from dpicl.methods import mst_tabicl
from dpicl.methods.common import check_supported, draws_for
from dpicl.pipeline import Cell
from dpicl.tabular.spanning_tree import ExactCounts


@unit_stage("measure", COUNTS)
def measure(folder: UnitFolder) -> str:
    """Count for every epsilon, unless it is published."""
    check_supported(folder.contract, folder.unit)

    def draw(cells: list[Cell]) -> Mapping[Cell, bytes]:
        draws, batches = draws_for(folder.contract, folder.unit.seed), Batches.of(folder)
        if batches is None:
            counted = mst_tabicl.count(read_split(folder).train, folder.contract, folder.unit, draws, cells=cells)
        else:
            counted = mst_tabicl.measured(sums_of(folder, batches, cells, ExactCounts), draws)
        return {cell: counts_bytes(marginals) for cell, marginals in counted.items()}

    artefacts = release_missing(folder, draw)
    write_counts(folder, artefacts)
    return f"{len(artefacts)} releases"
