"""`dpicl plan`: every method simulated on made-up tables of a contract's shape, and the one to
choose.

`dpicl forecast`: what a schedule will cost.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from rich.table import Table

from dpicl.cli.answers import ForecastAccount, PlanWay, SimulatedPlan, answer_of
from dpicl.cli.terminal import (
    counted,
    errors,
    new_table,
    note,
    refuse_all,
    show,
    split_values,
    table_of,
)
from dpicl.contract import Contract
from dpicl.contract.payment import CLIENTS_PAY
from dpicl.contract.pipeline import read_epsilon
from dpicl.ground.errors import DpiclError
from dpicl.ground.nouns import many
from dpicl.home.accounts import refused_contracts
from dpicl.home.settings import Settings
from dpicl.quality.outlook import TablePlan, plan_table
from dpicl.release.pipelines import Pipeline, override, scheduled_pipelines
from dpicl.runs.forecast import forecast, series_forecasts


def print_plan(
    contract: Contract,
    *,
    rows: int | None,
    epsilons: str,
    signal: str | None,
    trust: str | None,
    fast: bool,
    as_json: bool,
) -> None:
    """Expected AUC and errors of every method by epsilon, the recommendation, and the command that
    follows it.

    Raises:
        ParameterError: a value is out of range, or no method fits.
    """
    asked = [read_epsilon(text) for text in split_values(epsilons)]
    with counted("simulating", "made-up tables") as count:
        plan = plan_table(
            contract,
            rows,
            asked,
            signal=signal,
            trust=trust,
            processes=os.cpu_count() or 1,
            fast=fast,
            progress=count.update,
        )
    recommended = plan.recommended
    ways = [
        answer_of(
            PlanWay,
            outlook.quality,
            **vars(outlook.way),
            charged=outlook.charged,
            columns={error.columns[0]: error.expected for error in outlook.quality.columns},
            recommended=outlook is recommended,
        )
        for outlook in plan.outlooks
    ]
    show(answer_of(SimulatedPlan, plan, ways=ways), plan_lines(plan), as_json=as_json)
    if contract.source.query is not None and not as_json:
        note(
            f"no database was asked: which account pays, and what it has left, is told by `dpicl "
            f"protect {contract.name} --dry-run`"
        )


def plan_lines(plan: TablePlan) -> Iterator[str | Table]:
    """The parts of a plan's text, tables as the terminal has them."""
    for part in plan.parts():
        if isinstance(part, str):
            yield part
            continue
        table = new_table(*part.heads)
        for row in part.rows:
            table.add_row(*row)
        yield table


def print_forecasts(*, as_json: bool) -> None:
    """How long the accounts of scheduled pipelines last: a run is charged if it is the first in its
    period.
    """
    settings = Settings.from_environment()
    accounts: list[ForecastAccount] = []
    scheduled = scheduled_pipelines(settings)
    refused: dict[str, DpiclError] = {}
    for name, pipeline in scheduled.items():
        try:
            accounts += [
                answer_of(
                    ForecastAccount,
                    line,
                    pipeline=name,
                    lasts_until=line.lasts_until and f"{line.lasts_until:%Y-%m-%d}",
                )
                for line in forecast(name, pipeline, settings)
            ]
        except DpiclError as error:  # after the pipelines that can be forecast
            refused[name] = error
    known = {name: pipeline for name, pipeline in scheduled.items() if name not in refused}
    if refused and not accounts:  # nor can it be said that no account pays
        refuse_all([*refused.values()])
    note(*(f"warning: {sentence}" for sentence in refused_contracts(settings)), to=errors)
    table = [table_of(ForecastAccount, accounts)] if accounts else []
    show(accounts, table, as_json=as_json)
    if not as_json:
        series, unknown = series_forecasts(settings)
        note(
            f"{many(len(known), 'scheduled pipeline')}; repeating a release within its period "
            "is free; benchmarks have no cap"
            + ("" if accounts else ", and no account with one pays for a scheduled run"),
            *_uncharged(known),
            *(line.sentence for line in series),
            *unknown,
        )
    if refused:
        refuse_all([*refused.values()])


def _uncharged(pipelines: Mapping[str, Pipeline]) -> list[str]:
    """A sentence on the pipelines that take clients' reports, if there are any."""
    names = [
        name
        for name, pipeline in pipelines.items()
        if pipeline.schedule and override(pipeline, pipeline.schedule.parameters).reports
    ]
    return [f"{', '.join(names)}: {CLIENTS_PAY[0].lower()}{CLIENTS_PAY[1:]}"] if names else []
