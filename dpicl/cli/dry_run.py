"""`dpicl run --dry-run`: a run up to its first charge."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dpicl.cli.budget import print_quotes, warn_of_caps
from dpicl.cli.terminal import console, errors, note, say_json
from dpicl.engine.artefacts import RESULTS
from dpicl.engine.benchmarks import known_when_read
from dpicl.engine.collect import left_out
from dpicl.engine.failures import StageFailed
from dpicl.engine.plan import check_plan, plan_for
from dpicl.engine.plan_asked import settled_plan
from dpicl.engine.quote import check_quotes
from dpicl.engine.remembered import day_of, remember, remembered
from dpicl.engine.run_folder import Plan, run_folder, write_plan
from dpicl.engine.run_quote import plan_accounts, quote_plan
from dpicl.engine.settings import Settings
from dpicl.engine.stages.probe import probe
from dpicl.errors import RunError
from dpicl.leaving import passing
from dpicl.lm.asking import AskedBy
from dpicl.release.collected import NOTHING_CHARGED


def print_dry_run(
    pipeline: str,
    changes: dict[str, Any],
    run_id: str | None,
    *,
    resume: bool,
    period: str | None,
    as_json: bool,
) -> None:
    """A run up to its first charge, in a folder that is deleted: what it refuses is refused here in
    the same words; reads no row.

    What it would be charged is printed per account, also where a cap refuses it.

    Raises:
        DpiclError: as `make_plan` and the stage `probe`.
    """
    settings = Settings.current()
    plan = plan_for(pipeline, changes, settings, run_id, resume=resume, period=period)
    units, asked = plan.units, dict[str, AskedBy]()
    if resume:
        units = {
            key: unit
            for key, unit in units.items()
            if not (run_folder(settings, plan.run_id) / "units" / key / RESULTS).exists()
        }
    else:
        check_plan(plan, settings)
        plan, asked = settled_plan(plan, settings)
    to = errors if as_json else console
    quotes = quote_plan(plan, settings, units.values())
    if plan.pipeline.reports is None:
        print_quotes(quotes, as_json=as_json)
    else:
        note(NOTHING_CHARGED, to=to)
        if as_json:
            say_json([])
    warn_of_caps(plan_accounts(plan, settings), settings, to)
    if not resume:
        check_quotes(quotes)
    note(*(f"{name} is {by.sentence}" for name, by in asked.items()), to=to)
    if units:
        note(
            f"the model answered public prompts{_ask(plan, settings)}, as it has to before a run "
            f"is charged",
            to=to,
        )
    contracts = {name: settings.declared(name) for name in plan.pipeline.datasets}
    note(*left_out(plan, contracts), to=to)
    if unread := known_when_read(contracts.values()):
        note(
            f"{', '.join(unread)}: whether the rows are published is checked when they are read; "
            f"a run refuses others",
            to=to,
        )


def _ask(plan: Plan, settings: Settings) -> str:
    """Ask the models public prompts, as the stage `probe` does, unless they have answered before;
    gives when, if so.

    Raises:
        DpiclError: as the stage `probe`.
    """
    settings.make_runs()
    place = remembered(plan, settings)
    if (day := day_of(place)) is not None:
        return f" on {day}"
    # no name of a run begins with a dot
    with TemporaryDirectory(dir=settings.runs, prefix=".dry-run-") as folder, passing(Path(folder)):
        write_plan(run := Path(folder) / plan.run_id, plan)
        try:
            probe(str(run))
        except StageFailed as error:
            raise RunError(f"run {plan.run_id}: {error}") from None
    remember(place)
    return ""
