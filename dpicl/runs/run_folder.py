"""The folder of one run: plan, units, results. Everything a resumed run needs is in it.

runs/<run_id>/plan.json                      pipeline, units and model, written first
runs/<run_id>/units/<unit>/…                 released artefacts, prompts, scores, results
runs/<run_id>/manifest.json, results.csv, timings.csv, report.html, report.md

What it says of private rows without noise is kept apart (`verdicts`).

How long a run has been worked on, in all its sittings, and what it may still begin: of a pipeline
with `within_hours`.

How many releases the units of a run have, and how many were charged by it: noted in each unit's
folder.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dpicl.contract.declared import Declared
from dpicl.contract.load import contract_digest
from dpicl.contract.models import Contract
from dpicl.contract.periods import ONCE, read_period
from dpicl.contract.pipeline import Unit
from dpicl.contract.text import TextContract
from dpicl.ground.errors import ParameterError, PrivacyError, RunError, one_of
from dpicl.ground.files import read_json, write_json
from dpicl.ground.randomness import Draws
from dpicl.home.settings import Settings
from dpicl.ledger import ReleaseCharge as Release
from dpicl.methods import METHODS
from dpicl.methods.base import Method, draws_for
from dpicl.methods.row_method import in_context_unit
from dpicl.models.spec import ModelSpec
from dpicl.release.pipelines import Pipeline, units_of
from dpicl.release.rows import Rows

PLAN = "plan.json"
LOCK = ".lock"
_RUN_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")


def run_folder(settings: Settings, run_id: str) -> Path:
    """Folder of a run. Raises RunError: the id is not a plain name."""
    if not _RUN_ID.match(run_id):
        raise RunError(
            f"run id {run_id[:60]!r}: expected letters, digits, dots, dashes and underscores"
        )
    return settings.runs / run_id


@dataclass(frozen=True)
class Plan:
    """What a run does, as first written; resuming with another plan is refused."""

    run_id: str
    pipeline_name: str
    pipeline: Pipeline
    model: ModelSpec
    writer: ModelSpec | None = None
    """The generator model, which reads private texts, if it is not `model`."""
    periods: Mapping[str, str] = field(default_factory=dict)
    """The period of each data set's releases, as it was when the run was planned; `once` of those
    that are not named.
    """
    embedder: ModelSpec | None = None
    """What compares whole texts; hashed n-grams if None."""
    editions: Mapping[str, str] = field(default_factory=dict)
    """The edition of each published set of texts that was at hand when the run was planned; the run
    is about no other.
    """
    beside: tuple[ModelSpec, ...] = ()
    """Further models that are asked the same prompts."""

    def period_of(self, dataset: str) -> str:
        """The period that a data set's releases are made for."""
        return self.periods.get(dataset, ONCE)

    def settings(self, settings: Settings) -> Settings:
        """Settings under which contracts are of the plan's editions, and its pipeline charges: the
        process may be a worker's or Prefect's, whose name says nothing to who pays.
        """
        editions = tuple(sorted(self.editions.items())) if self.editions else settings.editions
        return replace(settings, editions=editions, command=f"run {self.pipeline_name}")

    def contract_of(self, unit: Unit, declared: Declared) -> Declared:
        """The contract that a unit goes by: where the answers to queries are what is released, with
        no more of these than the run asks.
        """
        most = self.pipeline.queries
        if most is None or not METHODS[unit.method].answers_queries:
            return declared
        assert isinstance(declared, TextContract)
        return declared.model_copy(update={"query_count": min(most, declared.query_count)})

    def fewer_queries(self, unit: Unit, declared: Declared) -> dict[str, Any]:
        """What the name of a release says of that, besides the contract; nothing where it answers
        as many as the contract states.
        """
        asked = self.contract_of(unit, declared)
        if asked == declared or not isinstance(asked, TextContract):
            return {}
        return {"query_count": asked.query_count}

    @property
    def writing_model(self) -> ModelSpec:
        """The model that reads private texts."""
        return self.writer or self.model

    @property
    def units(self) -> dict[str, Unit]:
        """Units by key; where a tabular model answers, with one cell of each release, whose shots
        are the rows that it reads.
        """
        units = units_of(self.pipeline)
        rows = self.model.most_rows
        return {unit.key: in_context_unit(unit, rows) if rows else unit for unit in units}

    @property
    def versions(self) -> dict[str, int]:
        """Draw versions of its methods: another version reads unfinished work differently."""
        return {method: METHODS[method].draw_version for method in self.pipeline.methods}

    def as_json(self) -> dict[str, Any]:
        """Plain JSON; infinity is written as text."""
        pipeline = json.loads(self.pipeline.model_dump_json())
        pipeline["epsilons"] = [str(epsilon) for epsilon in self.pipeline.epsilons]
        pipeline.pop("api", None)  # the models state what came of it
        return {
            "run_id": self.run_id,
            "pipeline_name": self.pipeline_name,
            "pipeline": pipeline,
            "model": self.model.as_json(),
            "versions": self.versions,
            **({} if self.writer is None else {"writer": self.writer.as_json()}),
            **({} if self.embedder is None else {"embedder": self.embedder.as_json()}),
            **({"beside": [model.as_json() for model in self.beside]} if self.beside else {}),
            **({"periods": dict(self.periods)} if self.periods else {}),
            **({"editions": dict(self.editions)} if self.editions else {}),
        }


def write_plan(folder: Path, plan: Plan) -> None:
    """Store the plan, or check that the stored one is the same. Raises RunError: the folder holds
    another plan, or cannot be written.
    """
    try:
        write_json(folder / PLAN, plan.as_json())
    except OSError as error:
        raise RunError(
            f"run {plan.run_id}: its folder cannot be written ({error.strerror})"
        ) from None
    check_stored(folder, plan)


def pin_contracts(folder: Path, plan: Plan, settings: Settings) -> None:
    """Store which contracts a run goes by, or check that they are the stored ones: what was
    prepared or drawn under another one may be private under today's, or promise something else.
    Raises RunError: one has changed; caps, accounts and periods may.
    """
    for name in plan.pipeline.datasets:
        digest = contract_digest(settings.declared(name))
        if read_json(write_json(folder / "contracts" / f"{name}.json", digest)) != digest:
            raise RunError(
                f"{name}: its contract has changed since run {plan.run_id} began; start a new run"
            )


def check_stored(folder: Path, plan: Plan) -> None:
    """Whether a run's folder holds this plan, if it holds any. Raises RunError: it holds another
    one.
    """
    if not (folder / PLAN).exists():
        return
    if _stored(folder) != plan.as_json():
        raise RunError(
            f"run {plan.run_id}: its plan differs from this command's; resume with the same "
            f"options or start a new run"
        )


def check_versions(folder: Path, plan: Plan) -> None:
    """Whether what a run has done so far can be gone on with. Raises RunError: it was begun by
    another version of a method.
    """
    stored = _stored(folder).get("versions", {})
    for method, version in plan.versions.items():
        if stored.get(method) != version:
            raise RunError(
                f"run {plan.run_id}: it was begun by another version of {method}; start a new run"
            )


def read_plan(folder: Path) -> Plan:
    """The plan of a run. Raises RunError: there is no such run, or its plan cannot be read."""
    content = _stored(folder)
    try:
        pipeline = Pipeline.model_validate(content["pipeline"])
        model = ModelSpec.model_validate(content["model"])
        writer = ModelSpec.model_validate(content["writer"]) if "writer" in content else None
        periods = {
            str(dataset): read_period(period)
            for dataset, period in content.get("periods", {}).items()
        }
        embedder = ModelSpec.model_validate(content["embedder"]) if "embedder" in content else None
        beside = tuple(map(ModelSpec.model_validate, content.get("beside", ())))
        editions = {
            str(dataset): str(name) for dataset, name in content.get("editions", {}).items()
        }
        return Plan(
            content["run_id"],
            content["pipeline_name"],
            pipeline,
            model,
            writer,
            periods,
            embedder,
            editions,
            beside,
        )
    except (AttributeError, KeyError, TypeError, ValueError, ParameterError):
        raise RunError(f"run {folder.name}: {PLAN} is damaged; start a new run") from None


def run_names(runs: Path) -> list[str]:
    """Of all that have begun."""
    return sorted(path.parent.name for path in runs.glob(f"[!.]*/{PLAN}"))


def _stored(folder: Path) -> Any:
    try:
        return read_json(folder / PLAN)
    except FileNotFoundError:
        runs = run_names(folder.parent)
        known = f"; expected {one_of(folder.name, runs)}" if runs else ""
        raise RunError(f"run {folder.name}: no such run in {folder.parent.name}/{known}") from None
    except ValueError:
        raise RunError(f"run {folder.name}: {PLAN} is damaged; start a new run") from None


@contextmanager
def settings_of_run(folder: Path) -> Iterator[None]:
    """Inside, contracts are of the editions that a run was planned for, on every host; where its
    plan names none, as outside.
    """
    try:
        editions = _stored(folder).get("editions", {})
    except RunError:  # whoever reads the plan says so
        editions = {}
    if not editions:
        yield
        return
    with replace(Settings.current(), editions=tuple(sorted(editions.items()))).entered():
        yield


@dataclass(frozen=True)
class UnitFolder:
    """Paths of one unit's artefacts, and what it needs to be worked on."""

    run: Path
    unit: Unit
    declared: Declared
    settings: Settings

    @property
    def method(self) -> Method:
        """What the unit does."""
        return METHODS[self.unit.method]

    @property
    def contract(self) -> Contract:
        """The contract of a unit that works on a table."""
        assert isinstance(self.declared, Contract)
        return self.declared

    @property
    def texts(self) -> TextContract:
        """The contract of a unit that works on texts."""
        assert isinstance(self.declared, TextContract)
        return self.declared

    @property
    def rows(self) -> Rows:
        """The rows of its data set, which the run has read."""
        folder = self.settings.private(self.unit.dataset, self.run.name)
        return Rows(self.declared, self.settings, folder)

    @property
    def draws(self) -> Draws:
        """The unit's randomness."""
        return draws_for(self.declared, self.unit.seed)

    @property
    def path(self) -> Path:
        """Released artefacts of the unit."""
        return self.run / "units" / self.unit.key

    @property
    def private(self) -> Path:
        """Private intermediate artefacts of the unit, apart from released ones."""
        return self.settings.private(self.unit.dataset, self.run.name, self.unit.key)


def rows_of(run: str, dataset: str) -> Rows:
    """The rows of a data set in a run; its private folder is made."""
    settings = Settings.current()
    folder = settings.private(dataset, Path(run).name)
    return Rows(settings.declared(dataset), settings, folder)


def open_unit(run: str, unit_key: str) -> UnitFolder:
    """Find a unit by reference. Raises RunError: the run has no such unit."""
    folder = Path(run)
    plan = read_plan(folder)
    settings = plan.settings(Settings.current())
    unit = plan.units.get(unit_key)
    if unit is None:
        raise RunError(f"run {folder.name}: it has no unit {unit_key[:80]!r}")
    return UnitFolder(
        folder, unit, plan.contract_of(unit, settings.declared(unit.dataset)), settings
    )


RUNNING = "running.json"
_KEPT_EVERY = 10.0
"""Seconds, which are what a kill loses of the time at most."""
ALL = "all"


def check_within(plan: Plan, settings: Settings) -> None:
    """Only benchmarks may be left out for lack of time. Raises PrivacyError: a contract is of
    private rows.
    """
    private = [name for name in plan.pipeline.datasets if not settings.declared(name).is_benchmark]
    if plan.pipeline.within_hours is not None and private:
        raise PrivacyError(
            f"{private[0]}: within_hours would let time decide whether its rows are released; "
            "expected no such key, or contracts with `benchmark: true` alone"
        )


def begun_together(plan: Plan, keys: Iterable[str]) -> dict[str, list[str]]:
    """Units by what they begin as, in the plan's order: a seed of a data set; all at once where
    time is no matter.
    """
    together: dict[str, list[str]] = {}
    units = plan.units
    for key in keys:
        unit = units[key]
        together.setdefault(
            ALL if plan.pipeline.within_hours is None else f"seed {unit.seed} of {unit.dataset}", []
        ).append(key)
    return together


def begun_units(run: Path, plan: Plan) -> list[str]:
    """Keys of units that need not wait for time any more: all where it is no matter."""
    if plan.pipeline.within_hours is None:
        return [*plan.units]
    begun = _running_time_stored(run)[1]
    together = begun_together(plan, plan.units)
    return [key for name in begun for key in together[name]]


def not_run(run: Path, plan: Plan) -> dict[str, list[str]]:
    """What `begun_together` has and time left no room for: nothing before it is over."""
    seconds, begun = _running_time_stored(run)
    if plan.pipeline.within_hours is None or seconds < plan.pipeline.within_hours * 3600:
        return {}
    return {
        name: keys for name, keys in begun_together(plan, plan.units).items() if name not in begun
    }


@contextmanager
def running(run: Path, plan: Plan, settings: Settings) -> Iterator[Callable[[str], bool]]:
    """Inside, time counts; gives whether what is called so may begin: what has begun before may,
    and others while there is time. Raises PrivacyError: a contract is of private rows.
    """
    hours = plan.pipeline.within_hours
    if hours is None:
        yield lambda name: True
        return
    check_within(plan, settings)
    before, begun = _running_time_stored(run)
    since = time.monotonic()
    ended = threading.Event()
    one = threading.Lock()

    def keep() -> None:
        with one, suppress(OSError):  # of a full disk a stage tells
            write_json(
                run / RUNNING,
                {"seconds": before + time.monotonic() - since, "begun": begun},
                replace=True,
            )

    def may_begin(name: str) -> bool:
        if name not in begun and before + time.monotonic() - since < hours * 3600:
            begun.append(name)
        keep()
        return name in begun

    def go_on() -> None:
        while not ended.wait(_KEPT_EVERY):
            keep()

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield may_begin
    finally:
        ended.set()
        thread.join()
        keep()


def _running_time_stored(run: Path) -> tuple[float, list[str]]:
    if not (run / RUNNING).exists():
        return 0.0, []
    stored = read_json(run / RUNNING)
    return float(stored["seconds"]), list(stored["begun"])


SPENDING = "releases.json"


def note_spending(folder: UnitFolder, releases: Collection[Release], charged: int) -> None:
    """Store how many releases a unit has and how many are charged now; where none is, what an
    earlier try noted stands.
    """
    if charged or not (folder.path / SPENDING).exists():
        account = next(iter(releases)).account
        spending = {
            "releases": len({release.release_id for release in releases}),
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
