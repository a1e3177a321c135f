"""What the orchestrator's pages show of a run: released tables and results, as artifacts, and first
an overview that links the others.

Artifacts are stored in plain by the orchestrator: only released values and counts go in. Their keys
name a pipeline, a data set or a unit and no run, so that a key's page shows one run after another.
"""

from __future__ import annotations

import base64
import csv
import logging
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any

from prefect import Task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from prefect.client.schemas.objects import Artifact
from prefect.client.schemas.sorting import ArtifactSort
from prefect.context import TaskRunContext
from prefect.events import emit_event

from dpicl.contract.payment import CLIENTS_PAY
from dpicl.ground.errors import DpiclError
from dpicl.ground.nouns import many
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.methods import tabular
from dpicl.methods.text_method import TextMethod
from dpicl.report.blocks import Paragraph, Report, standalone, to_markdown
from dpicl.report.decision import gains_of
from dpicl.report.figures import figures_of
from dpicl.report.load import load_run
from dpicl.report.opening import overview
from dpicl.report.sentences import titled
from dpicl.runs.artefacts import read_released, read_texts
from dpicl.runs.client_reports import counted_of
from dpicl.runs.forecast import Forecast, forecast
from dpicl.runs.results import MANIFEST
from dpicl.runs.run_folder import open_unit, read_plan, spending_of
from dpicl.runs.stage import Verdicts, stage, validation_file
from tasks.stages import made_task

MAX_ROWS = 200
_PAGE = 200
"""Artifacts that the server gives at once."""
READ_IN_ORDER = ("reports", "checks", "released", "results", "figures", "budget", "report")
"""What the keys of artifacts begin with, as the overview lists them."""
VALIDATION_FAILED = "dpicl.validation.failed"
BUDGET_LOW = "dpicl.budget.low"
"""Events: of a data set whose checks stop a run, of an account with costs."""
log = logging.getLogger("dpicl.tasks")


def artifact_key(*parts: str) -> str:
    """Artifact keys hold small letters, digits and dashes only, 200 at most."""
    return "-".join(parts).lower().replace("_", "-").replace(".", "-")[:200]


def _shows(what: str, reference: str = "") -> Callable[[Callable[..., str]], Task[..., str]]:
    """A function of references, `reference` besides the run's folder, as a task."""
    name = f"show {what}"
    return lambda function: made_task(
        stage(name)(function), f"{name} {{{reference}}}" if reference else name
    )


@_shows("overview")
def show_overview(run: str) -> str:
    """What was protected, at what cost, and what came of it, once that is known; then links to the
    flow run's other artifacts.
    """
    folder = Path(run)
    plan = read_plan(folder)
    period = "".join(f", period {name}" for name in sorted({*plan.periods.values()}))
    about = f"Pipeline {plan.pipeline_name}, run {plan.run_id}{period}"
    if (folder / MANIFEST).exists():
        shown = overview(load_run(folder), about)
    else:
        shown = Report(
            titled(plan.pipeline.datasets, plan.pipeline.title),
            about,
            (
                Paragraph(
                    "The run is not finished. This page will show what it protected, what that "
                    "cost, and what came of it."
                ),
            ),
            (),
        )
    key = artifact_key("overview", plan.pipeline_name)
    made = _artifacts_of_this_flow_run()
    ranks = {
        key: READ_IN_ORDER.index(begin)
        for key in made
        if (begin := key.partition("-")[0]) in READ_IN_ORDER
    }
    # relative, and so right wherever the pages are
    links = [
        f"1. [{made[link].description}]({made[link].id})"
        for link in sorted(ranks, key=lambda key: (ranks[key], key))
    ]
    text = "\n\n".join(
        [to_markdown(shown), *(["## In this order", "\n".join(links)] if links else [])]
    )
    if key not in made:
        create_markdown_artifact(
            key=key,
            markdown=text,
            description="Overview: what was protected, at what cost, and what came of it",
        )
    else:
        with get_client(sync_client=True) as client:
            client.update_artifact(made[key].id, ArtifactUpdate(data=text))
    return f"links to {many(len(links), 'artifact')}" if links else "begun"


def _artifacts_of_this_flow_run() -> dict[str, Artifact]:
    """By key, the newest of each."""
    context = TaskRunContext.get()
    assert context is not None
    ours = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[context.task_run.flow_run_id]))
    found: list[Artifact] = []
    with get_client(sync_client=True) as client:
        while page := client.read_artifacts(
            artifact_filter=ours, sort=ArtifactSort.CREATED_DESC, limit=_PAGE, offset=len(found)
        ):
            found += page
    return {artifact.key: artifact for artifact in reversed(found) if artifact.key}


@_shows("checks", "dataset")
def show_checks(run: str, dataset: str) -> str:
    """Which checks of a data set hold, or of private rows that they were made; an event where one
    stops the run.
    """
    settings = Settings.current()
    verdicts = Verdicts.of(Path(run), settings.declared(dataset), settings)
    rows = verdicts.rules(dataset) or []
    shown = rows
    described = f"Checks of {dataset}: which rules of its contract hold, never values"
    if not verdicts.is_public:
        shown = [{"rules": len(rows), "verdicts": f"{verdicts.place}/{validation_file(dataset)}"}]
        described = (
            f"Checks of {dataset}: how many rules were checked; which of them hold is in a file "
            "that only the holder of the rows can read"
        )
    create_table_artifact(key=artifact_key("checks", dataset), table=shown, description=described)
    if any(row["severity"] == "fail" and not row["holds"] for row in rows):
        emit_event(
            VALIDATION_FAILED,
            {"prefect.resource.id": f"dpicl.dataset.{dataset}"},
            payload={"run": Path(run).name},
        )
    return many(len(rows), "check")


@_shows("reports", "dataset")
def show_reports(run: str, dataset: str) -> str:
    """What became of the clients' reports to each collection: counts by kind, and nothing of a
    report.
    """
    counted = counted_of(Path(run), dataset)
    rows = [
        {
            "collection": report.collection[:12],
            "epsilon": report.epsilon,
            "period": report.period,
            "kind": kind,
            "reports": number,
        }
        for report in counted
        for kind, number in report.received.kinds.items()
    ]
    described = f"Reports of {dataset}: how many of each kind, never who sent them"
    create_table_artifact(key=artifact_key("reports", dataset), table=rows, description=described)
    return many(len(counted), "collection")


@_shows("release", "unit_key")
def show_release(run: str, unit_key: str) -> str:
    """What a unit released."""
    folder = open_unit(run, unit_key)
    if isinstance(folder.method, TextMethod):
        rows = folder.method.shown(read_texts(folder)[0], folder.texts)
    else:
        rows = tabular(folder.unit.method).shown(
            read_released(folder), folder.contract, folder.unit
        )
    described = (
        f"Released from {folder.unit.dataset} by {folder.method.title}, seed {folder.unit.seed}"
    )
    create_table_artifact(
        key=artifact_key("released", unit_key),
        table=[{name: _short(value) for name, value in row.items()} for row in rows[:MAX_ROWS]],
        description=described,
    )
    return many(len(rows), "released row")


@_shows("results")
def show_results(run: str) -> str:
    """Results and report of a run."""
    with (Path(run) / "results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    name = read_plan(Path(run)).pipeline_name
    if rows:
        create_table_artifact(
            key=artifact_key("results", name),
            table=rows[:2000],
            description="Results: every score, at every epsilon",
        )
    report = Path(run) / "report.md"
    if report.exists():
        create_markdown_artifact(
            key=artifact_key("report", name),
            markdown=report.read_text("utf-8"),
            description="The whole report",
        )
    return many(len(rows), "result")


@_shows("figures")
def show_figures(run: str) -> str:
    """The report's figures as pictures in Markdown; they show results only."""
    loaded = load_run(Path(run))
    drawn = figures_of(loaded, gains_of(loaded))
    named = [
        ("What the private data add", drawn.gain.svg),
        *((title, figure.svg) for title, figure in drawn.by_method),
    ]
    named += [
        ("Judged by logistic regression", drawn.fitted.svg),
        ("Time by stage", drawn.time.svg),
    ]
    encoded = [
        (title, base64.b64encode(standalone(figure).encode()).decode())
        for title, figure in named
        if figure
    ]
    parts = [
        f"### {title}\n\n![{title}](data:image/svg+xml;base64,{picture})"
        for title, picture in encoded
    ]
    if parts:
        name = read_plan(Path(run)).pipeline_name
        create_markdown_artifact(
            key=artifact_key("figures", name),
            markdown="\n\n".join(parts),
            description="Figures: scores by epsilon"
            if len(loaded.results)
            else "Figures: time by stage",
        )
    return many(len(parts), "figure")


@_shows("budget")
def show_budget(run: str) -> str:
    """Accounts with a cap as a table; a warning, and an event, for those that will not outlast the
    schedule.
    """
    folder = Path(run)
    settings = Settings.current()
    plan = read_plan(folder)
    if plan.pipeline.reports is not None:
        key = artifact_key("budget", plan.pipeline_name)
        create_markdown_artifact(
            key=key, markdown=CLIENTS_PAY, description="Budget: nothing is charged"
        )
        return "no account"
    rows = []
    forecasts = dict[str, Forecast]()
    try:
        forecasts = {
            line.account: line for line in forecast(plan.pipeline_name, plan.pipeline, settings)
        }
    except DpiclError as error:  # today's declarations no longer allow one: the run itself is done
        log.warning("no forecast: %s", error)
    with open_ledger(settings) as ledger:
        caps = {account.name: account.epsilon_cap for account in ledger.accounts()}
        for account, (releases, charged) in sorted(spending_of(folder, plan.units).items()):
            cap = caps[account]
            spent = ledger.spent(account).epsilon
            facts = {
                "account": account,
                "releases": releases,
                "charged_now": charged,
                "spent": _shown(spent),
            }
            left = "-" if cap is None else _shown(cap - spent)
            outlook = forecasts[account].sentence.partition("; ")[2] if account in forecasts else ""
            rows.append(
                facts | {"cap": "none" if cap is None else cap, "left": left, "outlook": outlook}
            )
    described = "Budget: epsilon spent and epsilon left"
    create_table_artifact(
        key=artifact_key("budget", plan.pipeline_name), table=rows, description=described
    )
    for line in forecasts.values():
        if not line.is_enough:
            log.warning("%s", line.sentence)
            costs = {
                "run": folder.name,
                "left": line.left,
                "cost_of_a_run": line.cost,
                "runs_left": line.affordable,
                "runs_due": line.due,
            }
            emit_event(
                BUDGET_LOW, {"prefect.resource.id": f"dpicl.account.{line.account}"}, payload=costs
            )
    return many(len(rows), "account")


def _short(value: Any) -> Any:
    """A released number in six digits, which is more than noise leaves sure."""
    return float(f"{value:.6g}") if isinstance(value, float) and isfinite(value) else value


def _shown(value: float) -> float | str:
    """A number; in words where it is none that JSON has, since a page shows nothing of a table with
    one.
    """
    return round(value, 6) if isfinite(value) else "without bound"
