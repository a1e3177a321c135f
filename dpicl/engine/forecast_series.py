"""How long the budget of a table lasts that is released period after period under the charge of a
horizon. Reads no row, and charges nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dpicl.accounting.events import PERIODS
from dpicl.accounting.ledger import Ledger, Release
from dpicl.contract import Declared
from dpicl.contract.load import contract_digest
from dpicl.contract.periods import Calendar
from dpicl.engine.accounts import addresses_of
from dpicl.engine.names import PART, is_of
from dpicl.engine.open_ledger import ledger_key, open_ledger
from dpicl.engine.payers import account_of
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError, ParameterError, PrivacyError, SourceError
from dpicl.methods import METHODS

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
        further = (
            f"enough for {at_least}{self.more} more, until {self.until}"
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
    forecasts, unknown = [], []
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
            forecasts += [one if len(own) > 1 else replace(one, which="") for one in own]
    return forecasts, unknown


def _of(ledger: Ledger, contract: Declared, settings: Settings) -> Iterator[SeriesForecast]:
    """Each horizon of this contract, and no other one that the account pays: their names say
    which.
    """
    stated = account_of(
        contract, next(name for name, one in METHODS.items() if one.is_series(contract))
    )
    account = ledger.find_account(
        stated, addresses_of(contract, settings), named=contract.account is not None
    )
    if account is None or account.epsilon_cap is None:
        return
    entries, key, digest = (
        ledger.entries(account.name),
        ledger_key(settings),
        contract_digest(contract),
    )
    charged, begins = [entry.release for entry in entries], contract.releases.calendar.periods[0]
    horizons = [
        one for one in charged if PERIODS in one.parameters and is_of(key, one, digest, begins)
    ]
    for one in horizons:
        facts = one.parameters
        released = sum(
            part.release.parameters.get(PART) == one.release_id and part.artefact_sha256 is not None
            for part in entries
        )
        more, until = 0, _last(contract, int(facts[PERIODS]))
        while more < _MOST and ledger.dry_run(account.name, [one.guarantee] * (more + 1)).allowed:
            if (further := _last(contract, int(facts[PERIODS]) * (more + 2))) is None:
                break
            more, until = more + 1, further
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
    facts, others = (
        horizon.parameters,
        [one.parameters for one in beside if one.mechanism == horizon.mechanism],
    )
    said = [METHODS[horizon.mechanism].title] + (
        [f"{facts['shots']} shots"] if facts.get("shots") else []
    )
    said += [
        f"{name} {facts.get(name)}"
        for name in _CHOICES
        if any(one.get(name) != facts.get(name) for one in others)
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
