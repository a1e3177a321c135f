"""`dpicl forecast`: what a schedule will cost."""

from __future__ import annotations

from collections.abc import Mapping

from dpicl.cli.answers import ForecastAccount, answer_of
from dpicl.cli.terminal import errors, note, say, show, table_of
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
    accounts: list[ForecastAccount] = []
    scheduled = {
        name: pipeline
        for name, pipeline in load_pipelines(settings.pipelines).pipelines.items()
        if pipeline.schedule
    }
    refused: list[DpiclError] = []
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
            refused.append(error)
    note(*(f"warning: {sentence}" for sentence in refused_contracts(settings)), to=errors)
    show(accounts, [table_of(ForecastAccount, accounts)], as_json=as_json)
    if not as_json:
        series, unknown = series_forecasts(settings)
        note(
            f"{len(scheduled)} scheduled pipelines; epsilon in nats; repeating a release within "
            f"its period is free; benchmarks have no cap",
            *_uncharged(scheduled),
            *(line.sentence for line in series),
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
