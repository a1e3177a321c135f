"""Releases through the ledger: charged before a mechanism reads, published once, read by hash.

    reserve   every release of a unit is charged, durably, before its mechanism sees a row
    publish   a draw is written whole, its hash is put to the ledger, and the first one wins
    read      only bytes whose hash the ledger says is published

A crash between any two steps leaves budget spent and never a second draw to be seen: a
draft whose hash won is found again by its name, any other draft is worth nothing.

State       ledger            DPICL_LEDGER (a database URL), else `ledger.db` in DPICL_HOME
            key, anchor       `keys/ledger.key`, `ledger.anchor.json` in DPICL_HOME
            artefacts         `released/<account>/<release_id>` in DPICL_HOME
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from dpicl.accounting.guarantee import Neighbours
from dpicl.accounting.ledger import Account, Ledger, Release, content_version, load_key, release_id
from dpicl.contract.declared import Declared
from dpicl.contract.load import contract_digest
from dpicl.errors import LedgerError, LedgerRefusedError
from dpicl.files.durable import sync_folder
from dpicl.methods import METHODS
from dpicl.methods.common import Cost
from dpicl.methods.ldp_collection import release_cells
from dpicl.pipeline import Cell, Unit
from tasks.artefacts import read_content_digest, read_queries
from tasks.files import PRIVATE_MODE, publish, read_json, write_json
from tasks.models import fingerprint
from tasks.run_folder import UnitFolder, read_plan
from tasks.settings import Settings
from tasks.state_home import KEY, LEDGER, check_one_home

SPENDING = "releases.json"
POST_PROCESSING = {"estimator", "also_sampled"}
"""Choices that change nothing of a release: it is bought once for all of them."""
_LATER: tuple[dict[str, Any], ...] = ({"design": "all-columns", "columns": None}, {"spent": "before"})
"""Choices that came later, as everything was before them: where all of a set are so, the release keeps its name."""
WRITING = ("few_shot_generation", "dp_icl")
"""Methods in which a model reads private rows."""


@contextmanager
def open_ledger(settings: Settings) -> Iterator[Ledger]:
    """The ledger of this installation."""
    key = ledger_key(settings)
    url = os.environ.get("DPICL_LEDGER") or URL.create("sqlite", database=str(settings.home / LEDGER))  # whatever letters are in its path
    with Ledger.open(url, key, settings.home / "ledger.anchor.json") as ledger:
        yield ledger


def ledger_key(settings: Settings) -> bytes:
    """The installation's secret key for names of releases and versions of data; nothing is charged without it.

    Raises:
        LedgerRefusedError: it is no key, or another folder holds a ledger too.
    """
    check_one_home(settings.home)
    return load_key(settings.make_home() / KEY)


def account_of(contract: Declared, method: str) -> Account:
    """Central releases spend a row's budget, local ones a client's: two accounts per data set."""
    budget, local = contract.privacy.budget, method == "ldp_tabicl"
    return Account(
        name=f"{contract.name}-clients" if local else contract.name,
        unit="client" if local else contract.privacy.unit,
        neighbours=Neighbours.REPLACE_ONE if local else Neighbours(contract.privacy.neighbours),
        epsilon_cap=budget.epsilon,
        delta_cap=budget.delta,
        benchmark=budget.benchmark,
    )


def parameters_of(contract: Declared, unit: Unit, cell: Cell, writer: str = "") -> dict[str, Any]:
    """What makes a release another one, besides data and contract; public.

    Args:
        writer: which model writes, where a model reads private rows.
    """
    chosen, own = getattr(unit.options, unit.method), {"sampling_rate": str(cell.sampling_rate or contract.privacy.sampling_rate)}
    if unit.method == "ldp_tabicl":
        chosen = release_cells(unit)[cell]
    if unit.method == "mst_tabicl":
        own = {}
    if unit.method in WRITING:
        chosen, own = chosen.variant(cell.system), {"writer": writer}
    choices = chosen.model_dump(mode="json", exclude=POST_PROCESSING)
    for before in _LATER:
        if before.items() <= choices.items():
            choices = {name: choice for name, choice in choices.items() if name not in before}
    return {
        "epsilon": cell.epsilon,
        "shots": cell.shots,
        **own,
        "replicate": unit.seed,
        "simulated": contract.privacy.budget.benchmark,
        **choices,
    }


def costs_of(contract: Declared, unit: Unit) -> dict[Cell, Cost]:
    """Every release of a unit with its cost; known without any data."""
    costs: dict[Cell, Cost] = METHODS[unit.method].releases(contract, unit)
    return costs


@dataclass(frozen=True)
class UnitReleases:
    """The releases of one unit, named and priced."""

    folder: UnitFolder
    named: Mapping[Cell, Release]

    @staticmethod
    def of(folder: UnitFolder) -> UnitReleases:
        """Name every release by account, data, mechanism, parameters and contract."""
        key, contract, unit = ledger_key(folder.settings), folder.declared, folder.unit
        writer = fingerprint(read_plan(folder.run).writing_model, folder.settings) if unit.method in WRITING else ""
        version = content_version(key, bytes.fromhex(read_content_digest(folder)) + _queries_digest(folder))
        account = account_of(contract, unit.method)
        named = {}
        for cell, cost in costs_of(contract, unit).items():
            parameters = parameters_of(contract, unit, cell, writer)
            name = release_id(
                key,
                account=account.name,
                content_version=version,
                mechanism=unit.method,
                mechanism_version=METHODS[unit.method].VERSION,
                parameters=parameters,
                contract_digest=contract_digest(contract),
                neighbours=account.neighbours,
            )
            named[cell] = Release(name, account.name, version, unit.method, parameters, cost.charged)
        return UnitReleases(folder, named)

    def reserve(self, ledger: Ledger) -> list[Cell]:
        """Charge every release that was not charged before; gives those that nothing is published for.

        Raises:
            BudgetError: the account's cap would be passed; no mechanism has read a row.
        """
        ledger.ensure_account(account_of(self.folder.declared, self.folder.unit.method))
        answers = {cell: ledger.reserve(release) for cell, release in self.named.items()}
        charged = sum(answer.is_new for answer in answers.values())
        if charged or not (self.folder.path / SPENDING).exists():
            spending = {
                "releases": len({release.release_id for release in self.named.values()}),
                "charged_now": charged,
                "account": account_of(self.folder.declared, self.folder.unit.method).name,
            }
            write_json(self.folder.path / SPENDING, spending, replace=True)
        return [cell for cell, answer in answers.items() if answer.artefact_sha256 is None]

    def publish(self, ledger: Ledger, cell: Cell, content: bytes) -> None:
        """Offer a draw as the release; if another one has won already, this one is discarded unseen."""
        release = self.named[cell]
        mine = hashlib.sha256(content).hexdigest()
        draft = self._draft(release, mine)
        publish(draft, lambda file: file.write(content), mode=PRIVATE_MODE)
        winner = ledger.publish(release.release_id, mine)
        if winner == mine:
            with suppress(FileNotFoundError):  # a reader has renamed it
                draft.replace(self._final(release))
            sync_folder(draft.parent)
        self._forget_losers(release, winner)

    def _forget_losers(self, release: Release, winner: str) -> None:
        """Other draws of a release, of late or killed tries, are a second look at the rows."""
        kept = self._draft(release, winner)
        for draft in kept.parent.glob(f"{release.release_id}.*.draft"):
            if draft != kept:
                draft.unlink(missing_ok=True)

    def read(self, ledger: Ledger, cell: Cell) -> bytes:
        """The published artefact of a release.

        Raises:
            LedgerError: nothing is published, or the artefact is gone.
            LedgerRefusedError: the artefact is not what was published.
        """
        release = self.named[cell]
        winner = ledger.published(release.release_id)
        if winner is None:
            raise LedgerError(f"{self.folder.unit.key}: {cell.key}: nothing is published for this release")
        final, draft = self._final(release), self._draft(release, winner)
        if not final.exists():
            with suppress(FileNotFoundError):
                draft.replace(final)
        if not final.exists():
            raise LedgerError(
                f"{self.folder.unit.key}: {cell.key}: the published artefact is gone; its budget stays spent, restore released/ from a backup"
            )
        content = final.read_bytes()
        if hashlib.sha256(content).hexdigest() != winner:
            raise LedgerRefusedError(f"{self.folder.unit.key}: {cell.key}: the artefact is not the one that was published")
        return content

    def _final(self, release: Release) -> Path:
        return self.folder.settings.home / "released" / release.account / release.release_id

    def _draft(self, release: Release, sha256: str) -> Path:
        return self._final(release).with_name(f"{release.release_id}.{sha256}.draft")


def _queries_digest(folder: UnitFolder) -> bytes:
    """Of the queries that a release answers: other queries, another release. Nothing for methods that answer any."""
    if folder.unit.method != "dp_icl":
        return b""
    return hashlib.sha256(json.dumps(read_queries(folder).data.column("text").to_pylist()).encode()).digest()


def release_missing(folder: UnitFolder, draw: Callable[[list[Cell]], Mapping[Cell, bytes]]) -> dict[Cell, bytes]:
    """Charge, draw and publish what is missing, and read all releases of a unit back.

    Args:
        draw: makes artefacts for the given cells; called only after they are charged.
    """
    releases = UnitReleases.of(folder)
    with open_ledger(folder.settings) as ledger:
        missing = releases.reserve(ledger)
        for cell, content in (draw(missing) if missing else {}).items():
            releases.publish(ledger, cell, content)
        return {cell: releases.read(ledger, cell) for cell in releases.named}


def spending_of(run: Path, units: Mapping[str, Unit]) -> dict[str, tuple[int, int]]:
    """Releases and newly charged ones of a run, by account."""
    totals: dict[str, tuple[int, int]] = {}
    for key in units:
        path = run / "units" / key / SPENDING
        if path.exists():
            stored = read_json(path)
            releases, charged = totals.get(stored["account"], (0, 0))
            totals[stored["account"]] = (releases + stored["releases"], charged + stored["charged_now"])
    return totals
