"""A unit's releases are charged, and published once they are drafted: both by the process that
holds the ledger.

charge   every release of a unit, durable before a row is read
draft    on a worker, which opens no ledger: `draw`, `consult` and `generate` write what is to be
         published into a private file
release  the drafts go to the ledger, the first ones stand, journals are deleted
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

from dpicl.accounting.ledger import Ledger
from dpicl.accounting.ledger.keys import canonical
from dpicl.engine.artefacts import WRITING, gather, read_drafts
from dpicl.engine.files import PRIVATE_MODE, read_json, write_json
from dpicl.engine.journal import forget
from dpicl.engine.names import QUERIES, ReleaseFacts, public_facts
from dpicl.engine.open_ledger import open_ledger
from dpicl.engine.readers import fingerprint
from dpicl.engine.releases import UnitReleases
from dpicl.engine.rows import note_state
from dpicl.engine.run_folder import UnitFolder, read_plan
from dpicl.engine.spending import note_spending
from dpicl.engine.stage import unit_stage
from dpicl.errors import RunError
from dpicl.lm.embedding import embedder_fingerprint
from dpicl.pipeline import Cell

CHARGED = "to_write.json"


def facts_of(folder: UnitFolder) -> ReleaseFacts:
    """What a run adds to the names of a unit's releases: the period, the model that reads rows, the
    public queries that are answered.
    """
    plan, method = read_plan(folder.run), folder.method
    extra: dict[str, Any] = {}
    if method.answers_queries:
        texts = folder.rows.queries().data.column("text").to_pylist()
        fewer = plan.fewer_queries(folder.unit, folder.settings.declared(folder.unit.dataset))
        extra = {**fewer, QUERIES: hashlib.sha256(json.dumps(texts).encode()).hexdigest()}
    reads = method.model_reads_rows
    return ReleaseFacts(
        plan.period_of(folder.unit.dataset),
        fingerprint(plan.writing_model) if reads else "",
        embedder_fingerprint(plan.embedder) if reads else "",
        extra,
    )


def releases_of(ledger: Ledger, folder: UnitFolder) -> UnitReleases:
    """The releases of a unit of a run, named and priced."""
    return UnitReleases.of(ledger, folder.declared, folder.unit, folder.settings, facts_of(folder))


@unit_stage("charge", lambda folder: folder.method.artefact, "owner", reads_rows=False)
def charge(folder: UnitFolder) -> str:
    """Charge every release of the unit; which ones are to be drafted, and under which names."""
    method = folder.method
    method.check(folder.declared, folder.unit)
    method.refuse_run(folder.declared)
    path, digests = folder.private / CHARGED, _facts_digests(folder)
    if path.exists():
        _check_facts(folder, read_json(path), digests)
    with open_ledger(folder.settings) as ledger:
        releases = releases_of(ledger, folder)
        missing, charged_now = releases.reserve(ledger)
        note_spending(folder, releases.paying.values(), charged_now)
        if method.model_reads_rows:
            for cell in missing:
                ledger.begin_drawing(releases.named[cell].release_id)
    charges = {
        cell.key: {
            "release": release.release_id,
            "facts": digests[cell],
            "missing": cell in missing,
        }
        for cell, release in releases.named.items()
    }
    write_json(path, charges, mode=PRIVATE_MODE, replace=True)
    return f"{len(missing)} releases to write"


def charged(folder: UnitFolder) -> dict[Cell, str]:
    """The releases that were charged and are to be drafted; nothing of a unit that is released.
    Raises RunError: none was, or what would be written here is not what was charged: then no row
    may be read.
    """
    if (folder.path / folder.method.artefact).exists():
        return {}
    return {
        cell: str(one["release"])
        for cell, one in _charges(folder).items()
        if one.get("missing", True)
    }


def _charges(folder: UnitFolder) -> dict[Cell, dict[str, Any]]:
    path, digests = folder.private / CHARGED, _facts_digests(folder)
    if not path.exists():
        raise RunError(
            f"{folder.unit.key}: its releases are not charged; nothing is written before they are"
        )
    stored = read_json(path)
    _check_facts(folder, stored, digests)
    return {cell: stored[cell.key] for cell in digests if cell.key in stored}


def _check_facts(
    folder: UnitFolder, stored: Mapping[str, Mapping[str, Any]], digests: Mapping[Cell, str]
) -> None:
    """A run has one charge: a draft that was made under it may stand, and must not be published as
    another release.
    """
    now = {cell.key: digest for cell, digest in digests.items()}
    if any(now.get(key) != one["facts"] for key, one in stored.items()):
        raise RunError(
            f"{folder.unit.key}: its releases were charged under another contract, model or "
            f"queries; "
            f"expected those of the charge (on a worker: the same DPICL_CONTRACTS), or a new run"
        )


def _facts_digests(folder: UnitFolder) -> dict[Cell, str]:
    """A digest of the public facts of each of a unit's releases: computed without the ledger, equal
    where the release is the same.
    """
    contract, unit, facts = folder.declared, folder.unit, facts_of(folder)
    described = {
        cell: canonical(public_facts(contract, unit, cell, facts))
        for cell in folder.method.releases(contract, unit)
    }
    return {cell: hashlib.sha256(text.encode()).hexdigest() for cell, text in described.items()}


def publish_drafts(folder: UnitFolder, drafts: Mapping[Cell, bytes]) -> dict[Cell, bytes]:
    """Publish drafts of what is charged and not published (RunError: some are not drafted), and
    read all releases of a unit back.
    """
    with open_ledger(folder.settings) as ledger:
        releases = releases_of(ledger, folder)
        missing = [
            cell
            for cell, release in releases.named.items()
            if ledger.published(release.release_id) is None
        ]
        if lacking := sum(cell not in drafts for cell in missing):
            raise RunError(
                f"{folder.unit.key}: {lacking} releases are charged and not written; resume the run"
            )
        for cell in missing:
            releases.publish(ledger, cell, drafts[cell])
        published = {cell: releases.read(ledger, cell) for cell in releases.named}
    if not folder.declared.privacy.budget.benchmark:
        names = {release.release_id for release in releases.named.values()}
        note_state(folder.rows, names, {releases.named[cell].release_id for cell in missing})
    return published


@unit_stage("release", lambda folder: folder.method.artefact, "owner")
def release(folder: UnitFolder) -> str:
    """Publish what was drafted, unless something is published already, and gather what stands."""
    charges, drafts = _charges(folder), read_drafts(folder)
    published = publish_drafts(
        folder, {cell: drafts[cell.key] for cell in charges if cell.key in drafts}
    )
    # of all that stand: a killed try may have left one behind
    for one in charges.values() if folder.method.model_reads_rows else ():
        forget(folder.settings, one["release"])
    gather(folder, published)
    return f"{len(published)} releases"


def progress_writer(
    folders: Sequence[UnitFolder], what: str, part: str = ""
) -> Callable[[int, int], None]:
    """Write, once a second, how much of what there is of these units, or of this part of them, is
    done: for people who wait.
    """
    written = 0.0

    def write(done: int, most: int) -> None:
        nonlocal written
        if monotonic() - written > 1 or done == most:
            written = monotonic()
            for folder in folders:
                write_json(
                    folder.run / WRITING / f"{folder.unit.key}{part}.json",
                    {"what": what, "done": done, "of": most},
                    replace=True,
                )

    return write
