"""How many releases the units of a run have, and how many were charged by it: noted in each unit's
folder.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from dpicl.accounting.ledger import Release
from dpicl.engine.files import read_json, write_json
from dpicl.engine.run_folder import UnitFolder
from dpicl.pipeline import Unit

SPENDING = "releases.json"


def note_spending(folder: UnitFolder, releases: Collection[Release], charged: int) -> None:
    """Store how many releases a unit has and how many are charged now; where none is, what an
    earlier try noted stands.
    """
    if charged or not (folder.path / SPENDING).exists():
        account = next(iter(releases)).account
        spending = {
            "releases": len({one.release_id for one in releases}),
            "charged_now": charged,
            "account": account,
        }
        write_json(folder.path / SPENDING, spending, replace=True)


def spending_of(run: Path, units: Mapping[str, Unit]) -> dict[str, tuple[int, int]]:
    """Releases and newly charged ones of a run, by account."""
    totals: dict[str, tuple[int, int]] = {}
    for key in units:
        path = run / "units" / key / SPENDING
        if path.exists():
            stored = read_json(path)
            releases, charged = totals.get(stored["account"], (0, 0))
            totals[stored["account"]] = (
                releases + stored["releases"],
                charged + stored["charged_now"],
            )
    return totals
