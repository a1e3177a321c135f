"""Reconstruction: from reports or noisy counts to rows like the population's."""

from __future__ import annotations

from dpicl.methods import ldp_tabicl, mst_tabicl
from dpicl.methods.common import draws_for
from tasks.artefacts import ROWS, read_collections, read_counts, write_rows
from tasks.doorway import unit_stage
from tasks.run_folder import UnitFolder


@unit_stage("reconstruct", ROWS)
def reconstruct(folder: UnitFolder) -> str:
    """Estimate the population from every collection, or from the counts of every release."""
    draws = draws_for(folder.contract, folder.unit.seed)
    if folder.unit.method == "mst_tabicl":
        rows = mst_tabicl.model_rows(read_counts(folder), folder.contract, draws)
    else:
        rows = ldp_tabicl.reconstruct(read_collections(folder), folder.unit, draws)
    write_rows(folder, rows)
    return f"{len(rows)} sets of rows"
