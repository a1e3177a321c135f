"""`dpicl forecast`: what a schedule will cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from dpicl.cli.json_output.budgets import ForecastAccount
from dpicl.cli.terminal import console, errors, new_table, note, number, say, say_json
from dpicl.engine.caps import refused_contracts
from dpicl.engine.forecast import forecast
from dpicl.engine.forecast_series import series_forecasts
from dpicl.engine.pipelines import Pipeline, load_pipelines, override
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError
from dpicl.release.collected import NOTHING_CHARGED


def print_forecasts(*, as_json: bool) -> None:
    """How long the accounts of scheduled pipelines last: a run is charged if it is the first in its
    period.
    """
    settings = Settings.from_environment()
    table = new_table(
        "pipeline",
        "account",
        "left",
        "cost per period",
        "periods affordable",
        "periods due",
        "until",
    )
    lines: list[ForecastAccount] = []
    scheduled = {
        name: pipeline
        for name, pipeline in load_pipelines(settings.pipelines).pipelines.items()
        if pipeline.schedule
    }
    refused: list[DpiclError] = []
    for name, pipeline in scheduled.items():
        try:
            for line in forecast(name, pipeline, settings):
                until = (
                    "end of horizon"
                    if line.is_enough
                    else f"{line.lasts_until:%Y-%m-%d}"
                    if line.lasts_until
                    else "no run"
                )
                table.add_row(
                    name,
                    line.account,
                    number(line.left),
                    number(line.cost),
                    str(line.affordable),
                    str(line.due),
                    until,
                )
                day = line.lasts_until and f"{line.lasts_until:%Y-%m-%d}"
                lines.append(
                    ForecastAccount(
                        pipeline=name,
                        is_enough=line.is_enough,
                        **{**asdict(line), "lasts_until": day},
                    )
                )
        except DpiclError as error:  # after the pipelines that can be forecast
            refused.append(error)
    note(*(f"warning: {sentence}" for sentence in refused_contracts(settings)), to=errors)
    if as_json:
        say_json(lines)
    else:
        console.print(table)
        series, unknown = series_forecasts(settings)
        note(
            f"{len(scheduled)} scheduled pipelines; epsilon in nats; repeating a release within "
            f"its period is free; benchmarks have no cap",
            *_uncharged(scheduled),
            *(one.sentence for one in series),
            *unknown,
        )
    say(*(f"dpicl: {error.details()}" for error in refused[1:]), to=errors)
    if refused:
        raise refused[0]


def _uncharged(pipelines: Mapping[str, Pipeline]) -> list[str]:
    """A sentence on the pipelines that take clients' reports, if there are any."""
    names = [
        name
        for name, one in pipelines.items()
        if one.schedule and override(one, one.schedule.parameters).reports
    ]
    return (
        [f"{', '.join(names)}: {NOTHING_CHARGED[0].lower()}{NOTHING_CHARGED[1:]}"] if names else []
    )
