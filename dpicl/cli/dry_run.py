"""`dpicl run --dry-run`: a run up to its first charge, and what it would cost."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dpicl.cli.budget import number, warn_of_caps
from dpicl.cli.terminal import console, new_table, say
from dpicl.engine.artefacts import RESULTS
from dpicl.engine.benchmarks import known_when_read
from dpicl.engine.collect import left_out
from dpicl.engine.plan import check_caps, check_plan, plan_for
from dpicl.engine.quote import accounts_of, quote_plan
from dpicl.engine.run_folder import Plan, run_folder, write_plan
from dpicl.engine.settings import Settings
from dpicl.engine.stage import StageFailed
from dpicl.engine.stages.probe import probe
from dpicl.errors import RunError


def print_dry_run(pipeline: str, changes: dict[str, Any], run_id: str | None, *, resume: bool, period: str | None) -> None:
    """A run up to its first charge, in a folder that is deleted: what it refuses is refused here in the same words; reads no row.

    What it would be charged is printed per account, also where a cap refuses it.

    Raises:
        DpiclError: as `make_plan` and the stage `probe`.
    """
    settings = Settings.current()
    plan = plan_for(pipeline, changes, settings, run_id, resume=resume, period=period)
    units = plan.units
    if resume:
        units = {key: unit for key, unit in units.items() if not (run_folder(settings, plan.run_id) / "units" / key / RESULTS).exists()}
    else:
        check_plan(plan, settings)
    table = new_table("account", "releases", "charged before", "would cost", "spent", "cap", "left after")
    for line in quote_plan(plan, settings, units.values()):
        quote, refused = line.quote, "" if line.quote.allowed else " (refused)"
        left = "-" if quote.left is None else number(quote.left)
        counts = str(line.releases), str(line.charged_before)
        table.add_row(line.account, *counts, *map(number, (quote.cost.epsilon, quote.before.epsilon, quote.cap)), left + refused)
    console.print(table)
    say("epsilon in nats; a release is charged once per period, even if the rows change")
    warn_of_caps(accounts_of(((unit.dataset, unit.method) for unit in units.values()), settings), settings)
    if not resume:
        check_caps(plan, settings)
    if units:
        _probe(plan, settings)
        say("the model answered public prompts, as it has to before a run is charged")
    contracts = {name: settings.declared(name) for name in plan.pipeline.datasets}
    say(*left_out(plan, contracts))
    if unread := known_when_read(contracts.values()):
        say(f"{', '.join(unread)}: whether the rows are published is checked when they are read; a run refuses others")


def _probe(plan: Plan, settings: Settings) -> None:
    """The stage that queries a run's models before anything is charged, without a run.

    Raises:
        DpiclError: a model cannot answer.
    """
    settings.make_runs()
    with TemporaryDirectory(dir=settings.runs, prefix=".dry-run-") as folder:  # no name of a run begins with a dot
        write_plan(run := Path(folder) / plan.run_id, plan)
        try:
            probe(str(run))
        except StageFailed as error:
            raise RunError(f"run {plan.run_id}: {error}") from None
