"""Clients' reports in the place of a table's rows: where a run finds them, what was asked, and the
name of what was counted.

What was counted is named by its content (1): nothing is drawn of it, and counts of randomised
answers are as public as these. The same reports give the same name and bytes whatever their order
and files; further ones give another name.

    (1)  name <- SHA-256(collection, period, SHA-256(counts))

Guarantee   none spent: clients randomise before they send, each wallet pays for its own client, and
            adding reports up is post-processing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from dpicl.contract.declared import Declared
from dpicl.contract.models import Contract
from dpicl.contract.periods import ONCE, clock, was_over
from dpicl.contract.pipeline import Cell, Unit
from dpicl.data.local.questions import Tally
from dpicl.data.report_counts import Received
from dpicl.data.reports import report_files
from dpicl.ground.errors import DpiclError, ParameterError, PrivacyError
from dpicl.ground.files import read_arrays, sha256_of, write_arrays
from dpicl.ground.objects import SCHEME
from dpicl.ground.validation import validate
from dpicl.home.settings import Settings
from dpicl.methods import tabular
from dpicl.methods.collection import Collection
from dpicl.methods.grid import points
from dpicl.release.pipelines import Pipeline, Reports, declared_pipelines
from dpicl.runs.run_folder import Plan, UnitFolder, read_plan

NO_TRUE_ROWS = (
    "Nobody holds true rows here: baselines on these, which would show what privacy costs, are "
    "left out."
)
COUNTS = "reports/{dataset}.npz"
"""Of a run: the counts by the name of their collection, and what became of the reports."""
_FACTS = "facts"
"""Beside the counts, in one file with them: else a run that is killed between two files would count
anew.
"""


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
        counts = sha256_of(tally.stored.astype("<i8").tobytes())
        named = sha256_of(json.dumps([collection.name, period, counts]))
        errors = collection.column_errors(tally.clients)
        words = collection.epsilon, collection.sending_epsilon, collection.variant.design
        return Counted(
            collection.name, period, *words, named, collection.statement, errors, received
        )

    @staticmethod
    def read(stored: Mapping[str, Any]) -> Counted:
        """From JSON."""
        return Counted(**{**stored, "received": Received(**stored["received"])})

    def as_json(self) -> dict[str, Any]:
        """For a file."""
        return asdict(self)


def place_of(stated: str, settings: Settings) -> str:
    """An address of a store as it is; a path that begins at the folder of pipelines.yaml, unless it
    is absolute.
    """
    return stated if stated.startswith(SCHEME) else str(settings.pipelines.parent / stated)


def typed_places(plan: Plan, settings: Settings) -> list[str]:
    """What to type for the reports that a run counts, without a folder of this machine; nothing
    where there are none, or pipelines.yaml says it.
    """
    if (reports := plan.pipeline.reports) is None:
        return []
    with suppress(DpiclError):  # it may have changed meanwhile
        pipeline = declared_pipelines(settings).pipelines.get(plan.pipeline_name)
        if pipeline and pipeline.reports and place_of(pipeline.reports.at, settings) == reports.at:
            return []
    return [reports.at if reports.at.startswith(SCHEME) else PurePath(reports.at).name]


def as_received(contract: Declared) -> Declared:
    """A contract without the rule on missing values: of what clients send no row's content decides
    whether it is counted.
    """
    if not isinstance(contract, Contract):
        return contract
    return contract.model_copy(
        update={"source": contract.source.model_copy(update={"missing": None})}
    )


def closing_file(reports: Reports, collection: Collection, period: str) -> Path | None:
    """The file that closes a period of a collection; none where periods stay open."""
    if reports.close is None:
        return None
    return Path(reports.close) / f"{period}-{collection.name[:12]}.npz"


def counting(pipeline: Pipeline, settings: Settings) -> Pipeline:
    """A pipeline as it is planned: of one that takes reports, places are the same for every
    process, and options say how clients were asked.

    Raises:
        DpiclError: the options say otherwise, or no client answers so.
    """
    if (reports := pipeline.reports) is None:
        return pipeline
    contract = settings.contract(pipeline.datasets[0])
    words = {name: getattr(reports, name) for name in ("design", "columns", "about", "label_alone")}
    chosen = {
        name: tabular(name).collection_options(contract, getattr(pipeline.options, name), words)
        for name in pipeline.methods
    }
    places = {
        name: place_of(stated, settings)
        for name, stated in (("at", reports.at), ("close", reports.close))
        if stated is not None
    }
    changed = {
        "options": pipeline.options.model_copy(update=chosen),
        "reports": validate(Reports, reports.model_dump() | places, "reports"),
    }
    return pipeline.model_copy(update=changed)


def collections_of(plan: Plan, contract: Contract, unit: Unit) -> dict[Cell, Collection]:
    """What clients were asked, by the release that their reports stand for; nothing where rows are
    read.
    """
    reports = plan.pipeline.reports
    method = tabular(unit.method)
    if reports is None:
        return {}
    return {
        cell: method.collection(contract, point, reports.sending_epsilon)
        for cell, point in points(method, unit).items()
    }


def check_reports(reports: Reports, plan: Plan, contract: Contract, settings: Settings) -> None:
    """What a run refuses before a report is read.

    Raises:
        PrivacyError: the contract is a benchmark's, or the place is private; ParameterError: no
            client answers so, or a period cannot be
        closed.
        DataError: there are no reports at that place; SourceError: the store does not say.
    """
    if contract.is_benchmark:
        raise PrivacyError(
            f"{contract.name}: is a public benchmark, whose rows are held out to measure on; "
            f"expected `reports` of another contract"
        )
    for unit in plan.units.values():
        collections_of(plan, contract, unit)
    if not reports.at.startswith(SCHEME):
        _check_apart(Path(reports.at).resolve(), settings)
    report_files(reports.at)
    if reports.close is not None:
        _check_closing(reports.close, plan.period_of(contract.name))


def _check_apart(place: Path, settings: Settings) -> None:
    """Refuse a place of private rows: how many lines and files there are is published as so many
    reports of a kind.
    """
    for name, private in (
        ("DPICL_DATA", settings.data),
        ("the private files of DPICL_HOME", settings.private_home),
    ):
        if private is not None and (
            place.is_relative_to(private.resolve()) or private.resolve().is_relative_to(place)
        ):
            raise PrivacyError(
                f"reports={place.name}: is, holds or lies in {name}; expected a place that has "
                f"nothing but clients' reports"
            )


def _check_closing(close: str, period: str) -> None:
    folder = Path(close)
    there = (
        next(path for path in (folder, *folder.parents) if os.path.exists(path))  # noqa: PTH110
        if not close.startswith(SCHEME)
        else folder
    )
    if not there.is_dir():
        raise ParameterError("close", folder.name, "a folder of this machine")
    if period == ONCE:  # the first run would close it for good, and every later report be late
        raise ParameterError(
            "close",
            folder.name,
            "no such key where reports have no period; or `releases: {every: day}` in the "
            "contract, or --period",
        )
    if not was_over(period, clock()):
        raise ParameterError(
            "period",
            period,
            "one that is over, where `close` says that what comes afterwards is late",
        )


def write_counted(
    run: Path, dataset: str, tallies: Mapping[str, Tally], counted: Sequence[Counted]
) -> None:
    """Store what was counted, by the name of each collection: whole, and once."""
    facts = json.dumps([collection.as_json() for collection in counted]).encode()
    arrays = {name: tally.stored for name, tally in tallies.items()}
    write_arrays(
        run / COUNTS.format(dataset=dataset), {**arrays, _FACTS: np.frombuffer(facts, np.uint8)}
    )


def counted_of(run: Path, dataset: str) -> list[Counted]:
    """What a run has counted of every collection; nothing where it has counted none."""
    path = run / COUNTS.format(dataset=dataset)
    if path.exists():
        return [Counted.read(facts) for facts in json.loads(read_arrays(path)[_FACTS].tobytes())]
    return []


def read_tallies(folder: UnitFolder, stored: Mapping[str, np.ndarray]) -> dict[Cell, Tally]:
    """The counts that stand for a unit's releases, of vectors by the keys of these; nothing where
    it reads rows.
    """
    collections = collections_of(read_plan(folder.run), folder.contract, folder.unit)
    return {
        cell: Tally.read(stored[cell.key], collection.sent_questions)
        for cell, collection in collections.items()
        if cell.key in stored
    }
