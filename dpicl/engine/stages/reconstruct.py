"""Reconstruction: from reports or noisy counts to rows like the population's."""

from __future__ import annotations

from dpicl.engine.artefacts import ROWS, read_collections, read_counts, write_rows
from dpicl.engine.run_folder import UnitFolder
from dpicl.engine.stage import unit_stage
from dpicl.methods import ldp_tabicl, mst_tabicl
from dpicl.methods.common import draws_for
from dpicl.pipeline import Cell, wired
from dpicl.types import ReleasedRows


@unit_stage("reconstruct", ROWS)
def reconstruct(folder: UnitFolder) -> str:
    """Estimate the population from every collection, or from the counts of every release."""
    rows = _rows(folder)
    write_rows(folder, rows)
    return f"{len(rows)} sets of rows"


def _rows(folder: UnitFolder) -> dict[Cell, ReleasedRows]:
    draws = draws_for(folder.contract, folder.unit.seed)
    ways = {
        "ldp_tabicl": lambda: ldp_tabicl.reconstruct(read_collections(folder), folder.unit, draws),
        "mst_tabicl": lambda: mst_tabicl.model_rows(read_counts(folder), folder.contract, draws),
    }
    return wired(ways, folder.unit.method, __name__)()
