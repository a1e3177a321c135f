"""How long a budget lasts: what a scheduled run costs where it falls into a new period, and how
many of these the caps still allow.

Within a period releases stand and cost nothing, whatever becomes of the rows; where a contract
releases once, so does its schedule. The forecast reads contracts, ledger and clock, and no row.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from dpicl.contract.declared import Declared
from dpicl.contract.periods import Every, period_at
from dpicl.engine.open_ledger import open_ledger
from dpicl.engine.pipelines import Pipeline
from dpicl.engine.plan import draft_plan
from dpicl.engine.plan_asked import settled_plan
from dpicl.engine.run_quote import charges
from dpicl.engine.settings import Settings
from dpicl.errors import DeclarationError
from dpicl.methods import METHODS

MOST_RUNS = 10_000


@dataclass(frozen=True)
class Forecast:
    """One account of a scheduled pipeline: epsilon of one run in a new period, alone, and what is
    left of the cap; new periods that fit in that, no more than those that are due within the
    schedule's horizon, and when the last of them is; None if none fits.
    """

    account: str
    cost: float
    left: float
    affordable: int
    due: int
    lasts_until: datetime | None
    horizon_days: int

    @property
    def is_enough(self) -> bool:
        """Whether the budget outlasts the horizon."""
        return self.affordable >= self.due

    @property
    def sentence(self) -> str:
        """What is left and for how long, in one sentence."""
        budget = (
            f"account {self.account}: epsilon {self.left:.4g} is left, a new period costs "
            f"{self.cost:.4g}"
        )
        if not self.due:
            return f"{budget}; what is released stands, and the scheduled runs cost nothing"
        if self.is_enough and self.due == MOST_RUNS:
            return (
                f"{budget}; enough for the next {self.due} new periods, and no more were looked at"
            )
        if self.is_enough:
            return f"{budget}; enough for all {self.due} new periods of {self.horizon_days} days"
        until = f", until {self.lasts_until:%Y-%m-%d}" if self.lasts_until else ""
        return (
            f"{budget}; enough for {self.affordable} of {self.due} new periods of "
            f"{self.horizon_days} days{until}"
        )


def _every(contract: Declared, methods: Iterable[str]) -> Every:
    """How often a run is charged: of a horizon, which is charged with its first period, once."""
    return (
        "once"
        if any(METHODS[one].is_series(contract) for one in methods)
        else contract.releases.every
    )


def forecast(
    name: str, pipeline: Pipeline, settings: Settings, now: datetime | None = None
) -> list[Forecast]:
    """One line per account with a cap that a scheduled pipeline spends from; none without a
    schedule.

    Raises:
        DeclarationError: the schedule breaks a rule.
    """
    if (schedule := pipeline.schedule) is None:
        return []
    since, file, key = (
        now or datetime.now(UTC),
        settings.pipelines.name,
        f"pipelines.{name}.schedule",
    )
    try:
        times = CronSim(schedule.cron, since.astimezone(ZoneInfo(schedule.timezone)))
    except CronSimError:
        raise DeclarationError(
            file, f"{key}.cron", "is no cron expression", "five fields such as `0 6 * * 1`"
        ) from None
    except (ZoneInfoNotFoundError, ValueError):
        raise DeclarationError(
            file, f"{key}.timezone", "is unknown", "a name such as Europe/Paris"
        ) from None
    end = since + timedelta(days=schedule.horizon_days)
    runs = list(islice(takewhile(lambda time: time <= end, times), MOST_RUNS))
    drafted = draft_plan(name, schedule.parameters, settings, when=runs[0] if runs else now)
    plan, _ = settled_plan(drafted, settings, measure=False)
    first_runs: dict[tuple[str, ...], datetime] = {}  # of a period of one of the data sets
    # read once, not for every minute
    every = [
        _every(settings.declared(name), plan.pipeline.methods) for name in plan.pipeline.datasets
    ]
    for run in runs:
        first_runs.setdefault(tuple(period_at(one, run) for one in every), run)
    paying = list(first_runs.values())
    forecasts = []
    with open_ledger(settings) as ledger:
        for account, releases in charges(ledger, plan, settings):
            if account.epsilon_cap is None:
                continue
            standing = {entry.release.release_id for entry in ledger.entries(account.name)}
            due = paying[1:] if releases.keys() <= standing else paying
            one_run = [one.guarantee for one in releases.values()]
            quote = ledger.dry_run(account.name, one_run)
            numbers, cap = range(1, len(due) + 1), quote.cap or 0.0
            fit = bisect_left(
                numbers,
                True,
                key=lambda number: not ledger.dry_run(account.name, one_run * number).allowed,
            )
            left, last = cap - quote.before.epsilon, due[fit - 1] if fit else None
            forecasts.append(
                Forecast(
                    account.name,
                    quote.cost.epsilon,
                    left,
                    fit,
                    len(due),
                    last,
                    schedule.horizon_days,
                )
            )
    return forecasts
