"""Collecting a run: manifest, results and timings of all its units in one place each."""

from __future__ import annotations

import math
import os
import platform
import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import dpicl
from dpicl.contract import Contract, Declared, TextContract
from dpicl.contract.base import IN_FULL
from dpicl.contract.load import contract_digest, edition
from dpicl.contract.payment import CLIENTS_PAY
from dpicl.contract.pipeline import Cell, Unit
from dpicl.contract.text import PUBLISHED
from dpicl.data.reading.encode import label_codes
from dpicl.ground.files import finite, read_json, write_csv, write_json
from dpicl.ground.nouns import many
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.methods import METHODS, on_texts, tabular_method, unit_of
from dpicl.methods.base import CellCost, Method
from dpicl.methods.evaluation import majority, results_frame_columns
from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.methods.grid import costs, points, released_by
from dpicl.release.pipelines import asks_models
from dpicl.release.releases import spending_sentence
from dpicl.release.rows import TEST
from dpicl.runs.artefacts import MADE, RESULTS
from dpicl.runs.client_reports import NO_TRUE_ROWS, collections_of, counted_of, typed_places
from dpicl.runs.plan import ASKED
from dpicl.runs.probe import DESCRIPTIONS, beside_file, describe_model
from dpicl.runs.run_folder import Plan, UnitFolder, not_run, read_plan, spending_of

PACKAGES = (
    "numpy",
    "pyarrow",
    "scikit-learn",
    "diffprivlib",
    "prefect",
    "dask",
    "great-expectations",
    "torch",
    "transformers",
    "tabicl",
    "tabpfn",
)
_BENCHMARK = (
    "Queries: every held-out row is sent to the model as it is.",
    "Labels of held-out rows: accuracy is measured on them without noise.",
)
_CLIENTS = (
    (
        "Who answers, which question a client was asked, and how many reports there are of "
        "each kind."
    ),
)
_PUBLIC = (
    (
        "Rows of public query files: they are sent to the model as they are, and accuracy is "
        "measured on them without noise."
    ),
)
_ALWAYS = ("Timing, memory use and which checks fail.",)
_GRID = ("methods", "datasets", "epsilons", "shots", "seeds", "sampling_rates")
KG_CO2_PER_KWH = 0.3633
"""The paper's figure for its local grid (appendix B1)."""
MANIFEST = "manifest.json"
TIMING_COLUMNS = ("method", "dataset", "seed", "stage", "seconds")


def collect(run: str) -> str:
    """Write manifest.json, results.csv and timings.csv from what the units left."""
    from dpicl.runs.worth import write_worth  # half a second to import

    folder = Path(run)
    plan = read_plan(folder)
    settings = Settings.current()
    rows = results_of(folder, plan.units)
    write_csv(folder / "results.csv", results_frame_columns(), rows)
    write_csv(folder / "timings.csv", TIMING_COLUMNS, timings_of(folder, plan.units))
    write_worth(folder, plan, settings)
    write_json(folder / MANIFEST, _manifest(folder, plan, settings), replace=True)
    return many(len(rows), "result")


def results_of(folder: Path, units: Iterable[str]) -> list[dict[str, Any]]:
    """Results of the units that have any yet: rows of results.csv."""
    paths = [folder / "units" / key / RESULTS for key in units]
    return [row for path in paths if path.exists() for row in read_json(path)]


def timings_of(folder: Path, units: Mapping[str, Unit]) -> list[dict[str, Any]]:
    """How long stages took so far: rows of timings.csv."""
    timings: list[dict[str, Any]] = []
    for timing in map(read_json, sorted((folder / "timings").glob("*/*.json"))):
        unit = units.get(timing["owner"])
        owner = (
            {"method": unit.method, "dataset": unit.dataset, "seed": unit.seed}
            if unit
            else {"dataset": timing["owner"]}
        )
        timings.append({**owner, "stage": timing["stage"], "seconds": round(timing["seconds"], 6)})
    return timings


def _manifest(folder: Path, plan: Plan, settings: Settings) -> dict[str, Any]:
    contracts = {name: settings.declared(name) for name in plan.pipeline.datasets}
    charged = {name: contract for name, contract in contracts.items() if not contract.is_benchmark}
    unlabelled = [
        name
        for name, contract in contracts.items()
        if isinstance(contract, Contract) and contract.label is None
    ]
    units = list(plan.units.values())
    pipeline = plan.pipeline
    priced = units or [  # Table V: every epsilon amplified by every contract's sampling rate
        unit_of(GdpTabicl.name, name, 0, pipeline.epsilons, (1,), (), False, pipeline.options)
        for name in contracts
    ]
    omitted = left_out(plan, contracts)
    if late := ", ".join(not_run(folder, plan)):
        omitted.append(f"Not run, as its {pipeline.within_hours:g} h were over: {late}.")
    facts: dict[str, Any] = {
        "run_id": plan.run_id,
        "pipeline": plan.pipeline_name,
        "title": pipeline.title,
        "kind": pipeline.kind,
        "created_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "dpicl_version": dpicl.__version__,
        "simulated": not charged,
        **_models(folder, plan, settings),
        "grid": _grid(plan),
        "options": _options(plan),
        "contracts": {name: _contract(contract) for name, contract in contracts.items()},
        "guarantees": _guarantees(plan, priced, contracts),
        "versions": {
            name: next((found.version for found in distributions(name=name)), None)
            for name in PACKAGES
        },
        "methods": {
            name: {
                "draw_version": METHODS[name].draw_version,
                "post_version": METHODS[name].post_version,
            }
            for name in plan.pipeline.methods
        },
        "machine": {
            "cores": os.cpu_count(),
            "platform": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
        },
        "command": command_of(plan, typed_places(plan, settings)),
        "majority": _majority(folder, units, settings),
        "budget": [CLIENTS_PAY]
        if pipeline.reports
        else spending_sentences(folder, plan.units, settings),
    }
    if pipeline.reports:
        facts["reports"] = [
            counted.as_json() for name in pipeline.datasets for counted in counted_of(folder, name)
        ]
    return facts | {
        "energy": {"power_watts": settings.power_watts, "kg_co2_per_kwh": KG_CO2_PER_KWH},
        "not_protected": _not_protected(plan, contracts),
        "evaluation": {name: contract.evaluation for name, contract in charged.items()}
        | dict.fromkeys(unlabelled, "no label"),
        "evaluation_noise": _evaluation_noise(units, contracts),
        "smaller_than_published": smaller_than_published(units, contracts),
        "left_out": omitted,
    }


def _models(folder: Path, plan: Plan, settings: Settings) -> dict[str, Any]:
    """Who answers, who is asked beside it, who reads rows, and how they are asked."""
    model = next(
        (folder / name for name in DESCRIPTIONS.values() if (folder / name).exists()),
        folder / DESCRIPTIONS["scores"],
    )
    asked = bool(plan.units) and asks_models(plan.pipeline.datasets, settings)
    if asked and not model.exists():  # no worker has opened it
        describe_model(folder, settings)
    facts: dict[str, Any] = {"model": dict(read_json(model)) if asked else None}
    if asked and plan.beside:
        facts["beside"] = [dict(read_json(folder / beside_file(spec.name))) for spec in plan.beside]
    facts["writer"] = plan.writer.name if plan.writer and plan.pipeline.generator else None
    if (folder / ASKED).exists():
        facts["asked"] = read_json(folder / ASKED)
    return facts | {"embedder": plan.embedder.name if plan.embedder else None}


def _grid(plan: Plan) -> dict[str, Any]:
    """What a table of results is over, and how often each query is asked."""
    grid = plan.as_json()["pipeline"]
    if plan.model.most_rows:
        grid["shots"] = [plan.model.most_rows]
    return {name: grid[name] for name in _GRID} | {
        "queries": plan.pipeline.queries,
        "draws": plan.pipeline.draw_count,
        "window": plan.pipeline.window,
    }


def _options(plan: Plan) -> dict[str, Any]:
    """By method, and for all of them."""
    options = plan.pipeline.options.model_dump(mode="json", context=IN_FULL)
    by_method = {name: choices for name, choices in options.items() if isinstance(choices, dict)}
    shared = {name: choice for name, choice in options.items() if name not in by_method}
    return {**by_method, "all methods": shared}


def _contract(contract: Declared) -> dict[str, Any]:
    return {
        "digest": contract_digest(contract),
        "title": contract.source.title,
        "licence": contract.source.licence,
        "benchmark": contract.is_benchmark,
        "sampling_rate": _rate(contract),
    }


def _not_protected(plan: Plan, contracts: Mapping[str, Declared]) -> list[str]:
    """Sentences on what a run tells of without noise."""
    public = {
        contract.is_benchmark for contract in contracts.values() if contract.evaluation == "public"
    }
    return [
        *(_BENCHMARK if True in public else ()),
        *(_CLIENTS if plan.pipeline.reports else ()),
        *(_PUBLIC if False in public else ()),
        *_ALWAYS,
    ]


def _rate(contract: Declared) -> str | None:
    """Of a secret subsample, where there may be one: a horizon counts all rows."""
    if isinstance(contract, Contract) and contract.releases.horizon is None:
        return str(contract.privacy.sampling_rate)
    return None


def left_out(plan: Plan, contracts: Mapping[str, Declared]) -> list[str]:
    """Sentences on baselines that the pipeline names and that are not fitted."""
    asked = (
        (METHODS[unit.method], contracts[unit.dataset])
        for unit in plan.units.values()
        if unit.baselines
    )
    sentences = dict.fromkeys(
        sentence for method, contract in asked if (sentence := method.without_baselines(contract))
    )
    return [*sentences, *([NO_TRUE_ROWS] if plan.pipeline.reports else [])]


def _evaluation_noise(
    units: Iterable[Unit], contracts: Mapping[str, Declared]
) -> list[dict[str, Any]]:
    """Where accuracy is measured on held-out private rows: the noise of every count, in rows, and
    what a unit's counts are charged.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for unit in units:
        contract = contracts[unit.dataset]
        if isinstance(contract, Contract) and contract.evaluation == "charged":
            deviation = tabular_method.deviation(contract, unit)
            epsilon = tabular_method.cost(contract, unit).epsilon
            named = {"method": unit.method, "dataset": unit.dataset}
            rows[unit.method, unit.dataset] = {**named, "deviation": deviation, "epsilon": epsilon}
    return list(rows.values())


def _majority(folder: Path, units: list[Unit], settings: Settings) -> dict[str, float]:
    """Accuracy of always giving the more frequent label of a table's held-out rows, which baselines
    are tested on.

    The rows are deleted when a run ends: of a run that ended before, the numbers of its manifest
    stay.
    """
    before = folder / MANIFEST
    accuracies: dict[str, float] = read_json(before).get("majority", {}) if before.exists() else {}
    for unit in {unit.dataset: unit for unit in units}.values():
        opened = UnitFolder(folder, unit, settings.declared(unit.dataset), settings)
        public = isinstance(opened.declared, Contract) and opened.declared.evaluation == "public"
        if public and (opened.rows.folder / TEST).exists():
            codes = label_codes(opened.rows.test(), opened.contract)
            accuracies[unit.dataset] = majority(codes).accuracy
    return accuracies


def command_of(plan: Plan, places: Sequence[str] = ()) -> str:
    """What to type for the same run, with the `typed_places` of clients' reports; the options are
    in plan.json.
    """
    pipeline = plan.pipeline
    grid = plan.as_json()["pipeline"]
    draws_shots = any(METHODS[name].draws_shots for name in pipeline.methods)
    periods = {*plan.periods.values()}
    options = {name: ",".join(map(str, grid[name])) for name in _GRID} | {
        "queries": pipeline.queries,
        "draws": draws_shots and pipeline.draw_count,
        "window": pipeline.window,
        "within-hours": pipeline.within_hours and f"{pipeline.within_hours:g}",
    }
    stated = [
        *options.items(),
        *(("reports", place) for place in places),
        # the last period of a horizon is not that of a table that is released anew
        *(("period", period) for period in periods if len(periods) == 1),
        ("model", pipeline.model),
        ("generator", pipeline.generator),
        ("embedder", pipeline.embedder),
    ]
    return " ".join(
        [
            f"dpicl run {plan.pipeline_name}",
            *(
                f"--{name.replace('_', '-')} {shlex.quote(str(value))}"
                for name, value in stated
                if value
            ),
        ]
    )


def spending_sentences(folder: Path, units: Mapping[str, Unit], settings: Settings) -> list[str]:
    """One sentence per account on what this run was charged and what is spent in all; then on the
    periods of each horizon.
    """
    spending = spending_of(folder, units)
    if not spending:
        return []
    with open_ledger(settings) as ledger:
        spent = [
            spending_sentence(ledger, account, releases, charged)
            for account, (releases, charged) in sorted(spending.items())
        ]
    made = [folder / "units" / key / MADE for key in units]
    return [*spent, *(sentence for path in made if path.exists() for sentence in read_json(path))]


def _guarantees(
    plan: Plan, units: list[Unit], contracts: Mapping[str, Declared]
) -> list[dict[str, Any]]:
    """One line per method, data set, epsilon and rate: what one seed's release costs."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for unit in units:
        method = METHODS[unit.method]
        contract = plan.contract_of(unit, contracts[unit.dataset])
        variants = method.variants(unit.chosen(method.options))
        ways = {system.replace(method.source, "icl", 1) for system in variants}
        for cell, cost in costs(method, contract, unit).items():
            key = (unit.method, cell.system, unit.dataset, cell.epsilon, cell.sampling_rate)
            if cell.system in ways and cell.epsilon != math.inf and key not in rows:
                nominal = cost.nominal
                rows[key] = {
                    "method": unit.method,
                    "system": cell.system,
                    "dataset": unit.dataset,
                    "epsilon": finite(nominal.epsilon),
                    "amplified_epsilon": finite(cost.amplified.epsilon) if cost.amplified else None,
                    "delta": nominal.delta,
                    "neighbours": nominal.neighbours.value,
                    "unit": nominal.unit,
                    "nominal_epsilon": cell.epsilon,
                    "statement": _statement(plan, method, contract, unit, cell, cost),
                    **(
                        {}
                        if cell.sampling_rate is None
                        else {"sampling_rate": float(cell.sampling_rate)}
                    ),
                }
    return list(rows.values())


def _statement(
    plan: Plan, method: Method, contract: Any, unit: Unit, cell: Cell, cost: CellCost
) -> str:
    """The guarantee of a cell: what its method says, or where clients report, what they are
    promised.
    """
    asked = points(method, unit)
    release = cell if cell in asked else released_by(method, cell, asked)
    if not plan.pipeline.reports:
        return method.statement(contract, asked[release], cost)
    return collections_of(plan, contract, unit)[release].statement


def smaller_than_published(
    units: Iterable[Unit], contracts: Mapping[str, Declared]
) -> list[dict[str, Any]]:
    """For every data set of which a smaller slice is at hand: bounds on its texts and on the
    published ones, for a label where there are labels; and by method, at the most shots of its
    first unit, the noise here and that of the published set.
    """
    found: dict[str, dict[str, Any]] = {}
    for unit in units:
        contract = contracts[unit.dataset]
        if (
            not isinstance(contract, TextContract)
            or contract.edition_of is None
            or contract.edition_of.name == PUBLISHED
        ):
            continue
        whole = edition(contract.edition_of.stated, PUBLISHED)
        here, published = (min(texts.row_bounds.values()) for texts in (contract, whole))
        if here >= published:
            continue
        named = {
            "dataset": unit.dataset,
            "slice": contract.edition_of.name,
            "of_label": contract.is_classification,
            "here": here,
            "published": published,
            "noise": [],
        }
        noise = found.setdefault(unit.dataset, named)["noise"]
        if not any(row["method"] == unit.method for row in noise):
            noise += _noise(unit, contract, whole)
    return list(found.values())


def _noise(unit: Unit, contract: TextContract, whole: TextContract) -> list[dict[str, Any]]:
    """At the least and the greatest epsilon."""
    method = on_texts(unit.method)
    releases = {  # at any rate and by any variant the noise is the same
        (point.epsilon, point.shots): point for point in points(method, unit).values()
    }
    finite = sorted(epsilon for epsilon in unit.epsilons if 0 < epsilon < math.inf)
    return [
        {
            "method": unit.method,
            "epsilon": epsilon,
            "here": method.noise(contract, point),
            "published": method.noise(whole, point),
        }
        for epsilon in dict.fromkeys([*finite[:1], *finite[-1:]])
        for point in [releases[epsilon, max(unit.shots)]]
    ]
