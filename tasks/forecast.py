"""How long a budget lasts: what one scheduled run on new data costs, and how many of them the caps still allow.

A run costs what its releases cost in a period that is new to them, and nothing where they stand already; whatever
became of the rows. The forecast reads contracts, ledger and clock, and no row.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from dpicl.accounting.guarantee import Guarantee
from dpicl.accounting.ledger import Ledger
from dpicl.errors import DeclarationError
from dpicl.pipeline import Pipeline, Schedule
from tasks.plan import draft_plan
from tasks.quote import charges
from tasks.releases import open_ledger
from tasks.settings import Settings

MOST_RUNS = 10_000


@dataclass(frozen=True)
class Forecast:
    """One account of a scheduled pipeline.

    Attributes:
        account: its name.
        cost: epsilon of one run on new data, alone.
        left: of the cap.
        affordable: runs on new data that fit in what is left, no more than `due`.
        due: runs of the schedule within its horizon.
        lasts_until: when the last of the affordable ones is due; None if none is.
        horizon_days: of the schedule.
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
        told = f"account {self.account}: epsilon {self.left:.4g} is left, a run on new data costs {self.cost:.4g}"
        if self.is_enough and self.due == MOST_RUNS:
            return f"{told}; enough for the next {self.due} scheduled runs, and no more were looked at"
        if self.is_enough:
            return f"{told}; enough for all {self.due} scheduled runs of {self.horizon_days} days"
        until = f", until {self.lasts_until:%Y-%m-%d}" if self.lasts_until else ""
        return f"{told}; enough for {self.affordable} of {self.due} scheduled runs of {self.horizon_days} days{until}"


def due_times(name: str, schedule: Schedule, since: datetime) -> list[datetime]:
    """When a schedule is due within its horizon.

    Raises:
        DeclarationError: no such cron expression or time zone.
    """
    file = Settings.from_environment().pipelines.name
    try:
        zone = ZoneInfo(schedule.timezone)
    except (ZoneInfoNotFoundError, ValueError):
        raise DeclarationError(file, f"pipelines.{name}.schedule.timezone", "is unknown", "a name such as Europe/Paris") from None
    try:
        times = CronSim(schedule.cron, since.astimezone(zone))
    except CronSimError:
        raise DeclarationError(
            file, f"pipelines.{name}.schedule.cron", "is no cron expression", "five fields such as `0 6 * * 1`"
        ) from None
    end = since + timedelta(days=schedule.horizon_days)
    return [time for time, _ in zip(takewhile(lambda time: time <= end, times), range(MOST_RUNS), strict=False)]


def forecast(name: str, pipeline: Pipeline, settings: Settings, now: datetime | None = None) -> list[Forecast]:
    """One line per account with a cap that a scheduled pipeline spends from; none without a schedule.

    Raises:
        DeclarationError: the schedule breaks a rule.
    """
    if pipeline.schedule is None:
        return []
    due = due_times(name, pipeline.schedule, now or datetime.now(UTC))
    plan = draft_plan(name, pipeline.schedule.parameters, settings)
    found = []
    with open_ledger(settings) as ledger:
        for account, asked in charges(ledger, plan, settings):
            if account.epsilon_cap is None:
                continue
            one_run = [one.guarantee for one in asked.values()]
            quote = ledger.dry_run(account.name, one_run)
            runs, cap = _affordable(ledger, account.name, one_run, len(due)), quote.cap or 0.0
            left, last = cap - quote.before.epsilon, due[runs - 1] if runs else None
            found.append(Forecast(account.name, quote.cost.epsilon, left, runs, len(due), last, pipeline.schedule.horizon_days))
    return found


def _affordable(ledger: Ledger, account: str, one_run: list[Guarantee], most: int) -> int:
    """How many runs fit, by bisection: no more than `most`."""
    fits, fails = 0, most + 1
    while fails - fits > 1:
        tried = (fits + fails) // 2
        fits, fails = (tried, fails) if ledger.dry_run(account, one_run * tried).allowed else (fits, tried)
    return fits
