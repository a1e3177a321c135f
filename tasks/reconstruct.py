"""Reconstruction: from reports to rows like the population's."""

from __future__ import annotations

from dpicl.methods import ldp_tabicl
from dpicl.methods.common import draws_for
from tasks.artefacts import ROWS, read_collections, write_rows
from tasks.doorway import unit_stage
from tasks.run_folder import UnitFolder


@unit_stage("reconstruct", ROWS)
def reconstruct(folder: UnitFolder) -> str:
    """Estimate the population from every collection."""
    rows = ldp_tabicl.reconstruct(read_collections(folder), folder.unit, draws_for(folder.contract, folder.unit.seed))
    write_rows(folder, rows)
    return f"{len(rows)} collections"
