"""Clients' reports in the place of a table's rows: where a run finds them, what was asked, and the name of what was counted.

What was counted is named by its content (1): nothing is drawn of it, and counts of randomised answers are as public as these. The same reports give
the same name and bytes whatever their order and files; further ones give another name.

    (1)  name <- SHA-256(collection, period, SHA-256(counts))

Guarantee   none spent: clients randomise before they send, each wallet pays for its own client, and adding reports up is post-processing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpicl.contract.models import Contract
from dpicl.contract.periods import ONCE
from dpicl.engine.files import read_json
from dpicl.engine.pipelines import Pipeline, Reports
from dpicl.engine.run_folder import Plan, UnitFolder, read_plan
from dpicl.engine.settings import Settings
from dpicl.errors import DataError, ParameterError, PrivacyError
from dpicl.files.objects import SCHEME
from dpicl.methods import tabular
from dpicl.methods.collection import Collection
from dpicl.pipeline import Cell, Unit
from dpicl.tabular.local.tally import Tally
from dpicl.tabular.reports.check import Checker
from dpicl.tabular.reports.count import Received, count_reports
from dpicl.tabular.reports.files import report_files

NOTHING_CHARGED = "No account is charged: clients pay from their own wallets, and rows of reports are post-processing."
NO_TRUE_ROWS = "Nobody holds true rows here: baselines on these, which would show what privacy costs, are left out."
FACTS, COUNTS = "reports/{dataset}.json", "reports/{dataset}.npz"
"""Of a run: what was counted, and the counts by the name of their collection."""


@dataclass(frozen=True)
class Counted:
    """What a run has counted of one collection; epsilons in nats."""

    collection: str
    period: str
    epsilon: float
    sending_epsilon: float | None
    design: str
    release: str
    """Equation (1)."""
    statement: str
    errors: Mapping[str, float]
    """Of every attribute, see `Collection.column_errors`."""
    received: Received

    @staticmethod
    def of(collection: Collection, period: str, tally: Tally, received: Received) -> Counted:
        """Of counts, and what became of every report."""
        counts = hashlib.sha256(tally.stored.astype("<i8").tobytes()).hexdigest()
        named = hashlib.sha256(json.dumps([collection.name, period, counts]).encode()).hexdigest()
        errors = collection.column_errors(tally.clients)
        told = collection.epsilon, collection.sending_epsilon, collection.variant.design
        return Counted(collection.name, period, *told, named, collection.statement, errors, received)

    @staticmethod
    def read(stored: Mapping[str, Any]) -> Counted:
        """From JSON."""
        return Counted(**{**stored, "received": Received(**stored["received"])})

    def as_json(self) -> dict[str, Any]:
        """For a file."""
        return asdict(self)


def place_of(stated: str, settings: Settings) -> str:
    """An address of a store as it is; a path that begins at the folder of pipelines.yaml, unless it is absolute."""
    return stated if stated.startswith(SCHEME) else str(settings.pipelines.parent / stated)


def closing_file(reports: Reports, collection: Collection, period: str, settings: Settings) -> Path | None:
    """The file that closes a period of a collection; none where periods stay open."""
    return None if reports.close is None else Path(place_of(reports.close, settings)) / f"{period}-{collection.name[:12]}.npz"


def as_asked(pipeline: Pipeline, settings: Settings) -> Pipeline:
    """A pipeline whose options say how the clients were asked whose reports it takes; any other as it is."""
    if pipeline.reports is None:
        return pipeline
    contract = settings.contract(pipeline.datasets[0])
    chosen = {name: tabular(name).as_asked(contract, getattr(pipeline.options, name)) for name in pipeline.methods}
    return pipeline.model_copy(update={"options": pipeline.options.model_copy(update=chosen)})


def collections_of(plan: Plan, contract: Contract, unit: Unit) -> dict[Cell, Collection]:
    """What clients were asked, by the release that their reports stand for; nothing where rows are read."""
    reports = plan.pipeline.reports
    return {} if reports is None else tabular(unit.method).collections(contract, unit, reports.sending_epsilon)


def check_reports(reports: Reports, plan: Plan, contract: Contract, settings: Settings) -> None:
    """What a run refuses before a report is read.

    Raises:
        PrivacyError: the contract is a benchmark's; ParameterError: no client answers so, or a period cannot be closed.
        DataError: there are no reports at that place; SourceError: the store does not say.
    """
    if contract.privacy.budget.benchmark:
        raise PrivacyError(
            f"{contract.name}: is a public benchmark, whose rows are held out to measure on; expected `reports` of another contract"
        )
    for unit in plan.units.values():
        collections_of(plan, contract, unit)
    report_files(place_of(reports.at, settings))
    if reports.close is not None:
        _check_closing(reports.close, plan.period_of(contract.name), settings)


def _check_closing(close: str, period: str, settings: Settings) -> None:
    folder = Path(place_of(close, settings))
    if close.startswith(SCHEME) or (folder.exists() and not folder.is_dir()):
        raise ParameterError("close", folder.name, "a folder of this machine")
    if period == ONCE:  # the first run would close it for good, and every later report be late
        raise ParameterError(
            "close", folder.name, "no such key where reports have no period; or `releases: {every: day}` in the contract, or --period"
        )


def count_collection(
    collection: Collection,
    place: str,
    period: str = ONCE,
    *,
    close: Path | None = None,
    progress: Callable[[int, int], Any] = lambda done, total: None,
) -> tuple[Tally, Received]:
    """The counts of the reports to a collection; the arguments are those of `count_reports`. Raises DataError: no report counts."""
    checker = Checker(collection.name, collection.sent_questions, period)
    tally, received = count_reports(place, checker, close=close, progress=progress)
    if not tally.clients:
        raise DataError(collection.contract.name, f"no report counts: {received}")
    return tally, received


def counted_of(run: Path, dataset: str) -> list[Counted]:
    """What a run has counted of every collection; nothing where it has counted none."""
    path = run / FACTS.format(dataset=dataset)
    return [Counted.read(one) for one in read_json(path)] if path.exists() else []


def read_tallies(folder: UnitFolder, stored: Mapping[str, np.ndarray]) -> dict[Cell, Tally]:
    """The counts that stand for a unit's releases, of vectors by the keys of these; nothing where it reads rows."""
    collections = collections_of(read_plan(folder.run), folder.contract, folder.unit)
    return {cell: Tally.read(stored[cell.key], one.sent_questions) for cell, one in collections.items() if cell.key in stored}
