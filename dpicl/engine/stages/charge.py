"""Releases that a model on a worker makes from private rows: charged first, drafted there, published once.

charge   in the flow's own process: every release of a unit, durable before a row is read
draft    on a worker: whatever the method does, from the release's own seed
publish  in the flow's own process: drafts go to the ledger, the first ones stand, journals are deleted
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from time import monotonic

from dpicl.engine.artefacts import DRAFTS, TO_WRITE, WRITING, gather, read_content_digest
from dpicl.engine.files import PRIVATE_MODE, read_json, write_json
from dpicl.engine.journal import forget
from dpicl.engine.releases import UnitReleases, open_ledger, release_missing, rows_version
from dpicl.engine.run_folder import UnitFolder
from dpicl.engine.stage import unit_stage
from dpicl.errors import PrivacyError, RunError
from dpicl.methods.tabular_method import TabularMethod
from dpicl.pipeline import Cell


@unit_stage("charge", TO_WRITE, private=True)
def charge(folder: UnitFolder) -> str:
    """Charge every release of the unit; which ones are to be written, and under which names."""
    method = folder.method
    method.check(folder.declared, folder.unit)
    method.refuse_run(folder.declared)
    if isinstance(method, TabularMethod) and not method.takes_batches:
        raise PrivacyError(f"{folder.declared.name}: method {method.name!r} counts no table batch by batch; expected a smaller table")
    with open_ledger(folder.settings) as ledger:
        releases = UnitReleases.of(folder, ledger)
        missing = releases.reserve(ledger)
    names = {cell.key: releases.named[cell].release_id for cell in missing}
    write_json(folder.private / TO_WRITE, names, mode=PRIVATE_MODE)
    return f"{len(names)} releases to write"


def charged(folder: UnitFolder) -> dict[Cell, str]:
    """The releases that were charged to be written.

    Raises:
        RunError: none was, or what would be written here is not what was charged: then no row may be read.
    """
    path = folder.private / TO_WRITE
    if not path.exists():
        raise RunError(f"{folder.unit.key}: its releases are not charged; nothing is written before they are")
    with open_ledger(folder.settings) as ledger:
        releases = UnitReleases.of(folder, ledger)
    names, here = read_json(path), {cell: release.release_id for cell, release in releases.named.items()}
    found = {cell: name for cell, name in here.items() if names.get(cell.key) == name}
    if len(found) < len(names):
        raise RunError(
            f"{folder.unit.key}: {len(names) - len(found)} of {len(names)} releases were charged under another contract, model or queries; "
            f"expected those of the charge (on a worker: the same DPICL_CONTRACTS), or a new run"
        )
    return found


def still_missing(folder: UnitFolder) -> dict[Cell, str]:
    """What is charged and was not published by anybody else meanwhile."""
    names = charged(folder)
    with open_ledger(folder.settings) as ledger:
        return {cell: name for cell, name in names.items() if ledger.published(name) is None}


def begin_drawing(folder: UnitFolder, names: Mapping[Cell, str]) -> str:
    """Note that these releases' mechanisms are about to read rows; gives the keyed name of the rows' state."""
    with open_ledger(folder.settings) as ledger:
        for name in names.values():
            ledger.begin_drawing(name)
    return rows_version(folder.settings, read_content_digest(folder))


def publish_drafts(folder: UnitFolder) -> str:
    """Publish what was drafted, unless something is published already, and write what stands, by cell.

    Raises:
        RunError: some are charged and not drafted.
    """
    names, path = charged(folder), folder.private / DRAFTS

    def all_drafts(cells: list[Cell]) -> Mapping[Cell, bytes]:
        drafts = read_json(path) if path.exists() else {}
        found = {cell: json.dumps(drafts[cell.key], ensure_ascii=False).encode() for cell in cells if cell.key in drafts}
        if len(found) < len(cells):
            raise RunError(f"{folder.unit.key}: {len(cells) - len(found)} releases are charged and not written; resume the run")
        return found

    artefacts = release_missing(folder, all_drafts)
    for name in names.values():
        forget(folder.settings, name)
    gather(folder, artefacts)
    return f"{len(artefacts)} releases"


def teller(folders: Sequence[UnitFolder], what: str) -> Callable[[int, int], None]:
    """Tell people who wait, once a second, how much of what there is."""
    told = [0.0]

    def tell(done: int, most: int) -> None:
        if monotonic() - told[0] > 1 or done == most:
            told[0] = monotonic()
            for folder in folders:
                write_json(folder.run / WRITING / f"{folder.unit.key}.json", {"what": what, "done": done, "of": most}, replace=True)

    return tell
