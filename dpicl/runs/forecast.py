"""How long a budget lasts: what a scheduled run costs where it falls into a new period, and how
many of these the caps still allow.

Within a period releases stand and cost nothing, whatever becomes of the rows; where a contract
releases once, so does its schedule. The forecast reads contracts, ledger and clock, and no row.

How long the budget of a table lasts that is released period after period under the charge of a
horizon.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from dpicl.accounting.events import PERIODS
from dpicl.contract.declared import Declared
from dpicl.contract.load import contract_digest
from dpicl.contract.periods import Calendar, Every, period_at
from dpicl.ground.errors import (
    DeclarationError,
    DpiclError,
    ParameterError,
    PrivacyError,
    SourceError,
)
from dpicl.home.accounts import addresses_of, ledger_key, open_ledger
from dpicl.home.settings import Settings
from dpicl.ledger import Ledger
from dpicl.ledger import ReleaseCharge as Release
from dpicl.methods import METHODS
from dpicl.release.names import PART, account_of, is_of
from dpicl.release.pipelines import Pipeline, Schedule
from dpicl.runs.plan import charges, draft_plan, settled_plan


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
        left = f"epsilon {self.left:.4g} is left" if self.left > 0 else "nothing is left"
        budget = f"account {self.account}: {left}, a new period costs {self.cost:.4g}"
        if not self.due:
            return f"{budget}; what is released stands, and the scheduled runs cost nothing"
        if self.is_enough:
            return f"{budget}; enough for all {self.due} new periods of {self.horizon_days} days"
        until = f", until {self.lasts_until:%Y-%m-%d}" if self.lasts_until else ""
        return (
            f"{budget}; enough for {self.affordable} of {self.due} new periods of "
            f"{self.horizon_days} days{until}"
        )


def _every(contract: Declared, methods: Iterable[str]) -> Every:
    """How often a run is charged: of a horizon, which is charged with its first period, once."""
    if any(METHODS[method].is_series(contract) for method in methods):
        return "once"
    return contract.releases.every


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
    since = now or datetime.now(UTC)
    end = since + timedelta(days=schedule.horizon_days)
    file = settings.pipelines.name
    key = f"pipelines.{name}.schedule"
    try:
        first = _next_run(schedule, since)
    except CronSimError:
        raise DeclarationError(
            file, f"{key}.cron", "is no cron expression", "five fields such as `0 6 * * 1`"
        ) from None
    except (ZoneInfoNotFoundError, ValueError):
        raise DeclarationError(
            file, f"{key}.timezone", "is unknown", "a name such as Europe/Paris"
        ) from None
    is_due = first is not None and first <= end
    drafted = draft_plan(name, schedule.parameters, settings, when=first if is_due else now)
    plan, _ = settled_plan(drafted, settings, measure=False)
    every = {
        _every(settings.declared(name), plan.pipeline.methods) for name in plan.pipeline.datasets
    }
    paying = list(_first_runs(schedule, every, since, end))
    forecasts = []
    with open_ledger(settings) as ledger:
        ledger = ledger.trial()  # none is opened, and no cap lowered
        for account, releases in charges(ledger, plan, settings):
            if account.epsilon_cap is None:
                continue
            standing = {entry.release.release_id for entry in ledger.entries(account.name)}
            due = paying[1:] if releases.keys() <= standing else paying
            one_run = [release.guarantee for release in releases.values()]
            quote = ledger.dry_run(account.name, one_run)
            numbers = range(1, len(due) + 1)
            cap = quote.cap or 0.0
            fit = bisect_left(
                numbers,
                True,
                key=lambda number: not ledger.dry_run(account.name, one_run * number).allowed,
            )
            left = cap - quote.before.epsilon
            last = due[fit - 1] if fit else None
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


def _next_run(schedule: Schedule, after: datetime) -> datetime | None:
    """The first run after a time; None where none is due any more."""
    times = CronSim(schedule.cron, after.astimezone(ZoneInfo(schedule.timezone)))
    return next((run for run in times if run > after), None)  # an hour may come twice


def _first_runs(
    schedule: Schedule, every: Collection[Every], after: datetime, end: datetime
) -> Iterator[datetime]:
    """Until `end`, the first run of each period of one of the data sets; runs between are passed
    over.
    """
    while (run := _next_run(schedule, after)) is not None and run <= end:
        yield run
        midnight = run.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        while all(period_at(kind, midnight) == period_at(kind, run) for kind in every):
            midnight += timedelta(days=1)
            if midnight > end:
                return
        after = midnight - timedelta(seconds=1)


_MOST = 20
"""Horizons that are looked ahead."""
_CHOICES = ("epsilon", "sum_origin", "structure", "delta", "replicate")
"""Of a horizon's name: each makes another one beside it."""


@dataclass(frozen=True)
class SeriesForecast:
    """One horizon that is charged: its periods, how many are released, what another one would cost,
    and how many more fit.
    """

    contract: str
    which: str
    """What tells it from the others, where the contract has several horizons that go on beside each
    other; else empty.
    """
    account: str
    first: str
    last: str
    periods: int
    released: int
    cost: float
    left: float
    more: int
    until: str

    @property
    def sentence(self) -> str:
        """What is paid and for how long, in one sentence."""
        at_least = "at least " if self.more == _MOST else ""
        less = ", as several cost less than their sum" if self.more * self.cost > self.left else ""
        further = (
            f"enough for {at_least}{self.more} more{less}, until {self.until}"
            if self.more
            else "not enough for one more"
        )
        return (
            f"{self.contract}{self.which}: its periods are paid from {self.first} until "
            f"{self.last}, {self.released} of {self.periods} are released; another "
            f"horizon costs epsilon {self.cost:.4g}, {self.left:.4g} is left, {further}; what is "
            f"released stands for ever"
        )


def series_forecasts(settings: Settings) -> tuple[list[SeriesForecast], list[str]]:
    """Every horizon that one of the user's contracts, as it is now, was charged for; and a sentence
    for each contract whose account cannot be told, as where no database answers.
    """
    forecasts = []
    unknown = []
    for name in settings.own_names():
        try:
            contract = settings.declared(name)
        except DpiclError:  # what is wrong with it is said where it is used
            continue
        if contract.releases.horizon is not None:
            try:
                with open_ledger(settings) as ledger:
                    own = list(_of(ledger, contract, settings))
            except (SourceError, PrivacyError) as error:
                unknown.append(f"{error}; its series is not forecast")
                continue
            forecasts += [
                forecast if len(own) > 1 else replace(forecast, which="") for forecast in own
            ]
    return forecasts, unknown


def _of(ledger: Ledger, contract: Declared, settings: Settings) -> Iterator[SeriesForecast]:
    """Each horizon of this contract, and no other one that the account pays: their names say
    which.
    """
    stated = account_of(
        contract, next(name for name, method in METHODS.items() if method.is_series(contract))
    )
    account = ledger.find_account(
        stated, addresses_of(contract, settings), named=contract.account is not None
    )
    if account is None or account.epsilon_cap is None:
        return
    entries = ledger.entries(account.name)
    key = ledger_key(settings)
    digest = contract_digest(contract)
    charged = [entry.release for entry in entries]
    begins = contract.releases.calendar.periods[0]
    horizons = [
        release
        for release in charged
        if PERIODS in release.parameters and is_of(key, release, digest, begins)
    ]
    for one in horizons:
        facts = one.parameters
        released = sum(
            part.release.parameters.get(PART) == one.release_id and part.artefact_sha256 is not None
            for part in entries
        )
        more = 0
        until = _last(contract, int(facts[PERIODS]))
        while more < _MOST and ledger.dry_run(account.name, [one.guarantee] * (more + 1)).allowed:
            if (further := _last(contract, int(facts[PERIODS]) * (more + 2))) is None:
                break
            more += 1
            until = further
        quote = ledger.dry_run(account.name, [one.guarantee])
        left = account.epsilon_cap - quote.before.epsilon
        paid = (str(facts["first"]), str(facts["last"]), int(facts[PERIODS]))
        yield SeriesForecast(
            contract.name,
            _which(one, horizons),
            account.name,
            *paid,
            released,
            quote.cost.epsilon,
            left,
            more,
            until or paid[1],
        )


def _which(horizon: Release, beside: Sequence[Release]) -> str:
    """The method, its number of shots, and whatever else tells it from this method's other
    horizons.
    """
    facts = horizon.parameters
    others = [release.parameters for release in beside if release.mechanism == horizon.mechanism]
    said = [METHODS[horizon.mechanism].title] + (
        [f"{facts['shots']} shots"] if facts.get("shots") else []
    )
    said += [
        f"{name} {facts.get(name)}"
        for name in _CHOICES
        if any(other.get(name) != facts.get(name) for other in others)
    ]
    return f" ({', '.join(said)})"


def _last(contract: Declared, periods: int) -> str | None:
    """The last of so many periods from the horizon's first on; None beyond the calendar's end."""
    try:
        return Calendar.of(
            contract.releases.every, first=contract.releases.first_day, count=periods
        ).periods[-1]
    except ParameterError:
        return None
