"""What the orchestrator's pages show of a run: released tables and results, as artifacts.

Artifacts are stored in plain by the orchestrator: only released values and counts go in.
"""

from __future__ import annotations

import base64
import csv
import logging
from math import isfinite
from pathlib import Path
from typing import Any

from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.events import emit_event

from dpicl.engine.artefacts import read_released, read_texts
from dpicl.engine.files import read_json
from dpicl.engine.forecast import Forecast, forecast
from dpicl.engine.releases import open_ledger, spending_of
from dpicl.engine.run_folder import Plan, UnitFolder, open_unit, read_plan
from dpicl.engine.settings import Settings
from dpicl.engine.stage import stage
from dpicl.errors import DpiclError
from dpicl.methods import tabular
from dpicl.methods.text_method import TextMethod
from dpicl.report.figures import figures_of
from dpicl.report.load import load_run
from dpicl.report.svg import standalone
from tasks.wrapper import as_task

MAX_ROWS = 200
VALIDATION_FAILED, BUDGET_LOW = "dpicl.validation.failed", "dpicl.budget.low"
"""Events: of a data set with the number of failed checks, of an account with costs."""
log = logging.getLogger("dpicl.tasks")


def artifact_key(*parts: str) -> str:
    """Artifact keys hold small letters, digits and dashes only, 200 at most."""
    return "-".join(parts).lower().replace("_", "-").replace(".", "-")[:200]


def _show_checks(run: str, dataset: str) -> str:
    rows = read_json(Path(run) / "validation" / f"{dataset}.json")
    create_table_artifact(
        key=artifact_key("checks", dataset), table=rows, description=f"Checks of {dataset}: whether they hold, never values"
    )
    failed = [row for row in rows if row["severity"] == "fail" and not row["holds"]]
    if failed:
        emit_event(
            VALIDATION_FAILED, {"prefect.resource.id": f"dpicl.dataset.{dataset}"}, payload={"run": Path(run).name, "checks": len(failed)}
        )
    return f"{len(rows)} checks"


def _show_release(run: str, unit_key: str) -> str:
    folder = open_unit(run, unit_key)
    rows = _shown_rows(folder)
    create_table_artifact(key=artifact_key("released", unit_key), table=rows[:MAX_ROWS], description=f"Released by {unit_key}")
    return f"{len(rows)} released rows"


def _shown_rows(folder: UnitFolder) -> list[dict[str, Any]]:
    method = folder.method
    if isinstance(method, TextMethod):
        return method.shown(read_texts(folder)[0], folder.texts)
    return tabular(folder.unit.method).shown(read_released(folder), folder.contract, folder.unit)


def _show_results(run: str) -> str:
    with (Path(run) / "results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    name = Path(run).name
    create_table_artifact(key=artifact_key("results", name), table=rows[:2000], description=f"Results of {name}")
    report = Path(run) / "report.md"
    if report.exists():
        create_markdown_artifact(key=artifact_key("report", name), markdown=report.read_text("utf-8"), description=f"Report of {name}")
    return f"{len(rows)} results"


def _show_figures(run: str) -> str:
    """Publish the report's figures as pictures in Markdown; they show results only."""
    drawn = figures_of(load_run(Path(run)))
    named = [(title, figure.svg) for title, figure in drawn.by_method]
    named += [("Judged by logistic regression", drawn.fitted), ("Time by stage", drawn.time)]
    parts = [f"### {title}\n\n![{title}](data:image/svg+xml;base64,{_encoded(figure)})" for title, figure in named if figure]
    if parts:
        create_markdown_artifact(
            key=artifact_key("figures", Path(run).name), markdown="\n\n".join(parts), description=f"Figures of {Path(run).name}"
        )
    return f"{len(parts)} figures"


def _encoded(figure: str) -> str:
    return base64.b64encode(standalone(figure).encode()).decode()


def _show_budget(run: str) -> str:
    """Accounts with a cap as a table; a warning, and an event, for those that will not outlast the schedule."""
    folder, settings = Path(run), Settings.current()
    plan = read_plan(folder)
    found = _forecasts(plan, settings)
    rows = []
    with open_ledger(settings) as ledger:
        caps = {account.name: account.epsilon_cap for account in ledger.accounts()}
        for account, (releases, charged) in sorted(spending_of(folder, plan.units).items()):
            name = ledger.payer(account)
            cap, spent = caps[name], ledger.spent(name).epsilon
            facts = {"account": name, "releases": releases, "charged_now": charged, "spent": _shown(spent)}
            left = "-" if cap is None else _shown(cap - spent)
            rows.append(facts | {"cap": "none" if cap is None else cap, "left": left, "outlook": _outlook(found.get(name))})
    create_table_artifact(key=artifact_key("budget", folder.name), table=rows, description="What was spent, epsilon in nats")
    for line in found.values():
        if not line.is_enough:
            log.warning("%s", line.sentence)
            costs = {"run": folder.name, "left": line.left, "cost_of_a_run": line.cost, "runs_left": line.affordable, "runs_due": line.due}
            emit_event(BUDGET_LOW, {"prefect.resource.id": f"dpicl.account.{line.account}"}, payload=costs)
    return f"{len(rows)} accounts"


def _forecasts(plan: Plan, settings: Settings) -> dict[str, Forecast]:
    """By account; none where today's declarations no longer allow one: the run itself is done."""
    try:
        return {line.account: line for line in forecast(plan.pipeline_name, plan.pipeline, settings)}
    except DpiclError as error:
        log.warning("no forecast: %s", error)
        return {}


def _shown(value: float) -> float | str:
    """A number; in words where it is none that JSON has, since a page shows nothing of a table with one."""
    return round(value, 6) if isfinite(value) else "without bound"


def _outlook(line: Forecast | None) -> str:
    return "" if line is None else line.sentence.partition("; ")[2]


show_checks = as_task(stage("show checks", "show checks {dataset}", _show_checks))
show_release = as_task(stage("show release", "show release {unit_key}", _show_release))
show_results = as_task(stage("show results", "show results", _show_results))
show_figures = as_task(stage("show figures", "show figures", _show_figures))
show_budget = as_task(stage("show budget", "show budget", _show_budget))
