"""`dpicl budget` and `forecast`: what accounts have spent, and what a schedule will cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict

from rich.console import Console

from dpicl.accounting.ledger import Account
from dpicl.cli.json_output.budgets import ChargedRelease, ForecastAccount, PlannedCharge, SpentAccount
from dpicl.cli.terminal import console, errors, new_table, note, number, say, say_json
from dpicl.engine.forecast import forecast
from dpicl.engine.forecast_series import series_forecasts
from dpicl.engine.pipelines import Pipeline, load_pipelines
from dpicl.engine.quote import AccountQuote, differing_caps, payer
from dpicl.engine.receipts import write_cap
from dpicl.engine.received import NOTHING_CHARGED
from dpicl.engine.releases import open_ledger
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError
from dpicl.methods.gdp_tabicl import GdpTabicl

LONGEST = 12
"""Characters of a parameter that are shown: a model's fingerprint is longer."""


def warn_of_caps(accounts: Iterable[Account], settings: Settings, to: Console = console) -> None:
    """Warn of caps in contracts that differ from the ledger's."""
    note(*(f"warning: {sentence}" for sentence in differing_caps(accounts, settings)), to=to)


def print_quotes(quotes: Iterable[AccountQuote], *, as_json: bool) -> None:
    """What accounts would be charged, also where a cap refuses it."""
    table = new_table("account", "releases", "charged before", "would cost", "spent", "cap", "left after")
    lines: list[PlannedCharge] = []
    for line in quotes:
        quote, refused = line.quote, "" if line.quote.allowed else " (refused)"
        left = "-" if quote.left is None else number(quote.left)
        counts = str(line.releases), str(line.charged_before)
        table.add_row(line.account, *counts, *map(number, (quote.cost.epsilon, quote.before.epsilon, quote.cap)), left + refused)
        lines.append(
            PlannedCharge(
                account=line.account,
                releases=line.releases,
                charged_before=line.charged_before,
                epsilon=quote.cost.epsilon,
                delta=quote.cost.delta,
                epsilon_spent=quote.before.epsilon,
                epsilon_cap=quote.cap,
                epsilon_left=quote.left,
                allowed=quote.allowed,
            )
        )
    if as_json:
        say_json(lines)
    else:
        console.print(table)
    note("epsilon in nats; a release is charged once per period, even if the rows change", to=errors if as_json else console)


def print_forecasts(*, as_json: bool) -> None:
    """How long the accounts of scheduled pipelines last: a run is charged if it is the first in its period."""
    settings = Settings.from_environment()
    table = new_table("pipeline", "account", "left", "cost per period", "periods affordable", "periods due", "until")
    lines: list[ForecastAccount] = []
    scheduled = {name: pipeline for name, pipeline in load_pipelines(settings.pipelines).pipelines.items() if pipeline.schedule}
    refused: list[DpiclError] = []
    for name, pipeline in scheduled.items():
        try:
            for line in forecast(name, pipeline, settings):
                until = "end of horizon" if line.is_enough else f"{line.lasts_until:%Y-%m-%d}" if line.lasts_until else "no run"
                table.add_row(name, line.account, number(line.left), number(line.cost), str(line.affordable), str(line.due), until)
                day = line.lasts_until and f"{line.lasts_until:%Y-%m-%d}"
                lines.append(ForecastAccount(pipeline=name, is_enough=line.is_enough, **{**asdict(line), "lasts_until": day}))
        except DpiclError as error:  # after the pipelines that can be forecast
            refused.append(error)
    if as_json:
        say_json(lines)
    else:
        console.print(table)
        note(
            f"{len(scheduled)} scheduled pipelines; epsilon in nats; repeating a release within its period is free; benchmarks have no cap",
            *_uncharged(scheduled),
            *(one.sentence for one in series_forecasts(settings)),
        )
    if refused:
        raise refused[0]


def _uncharged(pipelines: Mapping[str, Pipeline]) -> list[str]:
    """A sentence on the pipelines that take clients' reports, if there are any."""
    names = [name for name, one in pipelines.items() if one.reports or (one.schedule and "reports" in one.schedule.parameters)]
    return [f"{', '.join(names)}: {NOTHING_CHARGED[0].lower()}{NOTHING_CHARGED[1:]}"] if names else []


def print_accounts(*, as_json: bool) -> None:
    """Every account with its cap, what is spent and what is left; verifies the ledger's chain."""
    lines: list[SpentAccount] = []
    table = new_table("account", "protects", "spent", "delta", "cap", "left", "entries")
    settings = Settings.from_environment()
    with open_ledger(settings) as ledger:
        records, place = ledger.verify(), ledger.place
        for account in ledger.accounts():
            spent, cap = ledger.spent(account.name).epsilon, account.epsilon_cap
            left = "-" if cap is None else number(cap - spent)
            protects, entries = f"one {account.unit}, {account.neighbours}", len(ledger.entries(account.name))
            table.add_row(account.name, protects, number(spent), f"{account.delta_cap:g}", number(cap), left, str(entries))
            lines.append(
                SpentAccount(
                    account=account.name,
                    unit=account.unit,
                    neighbours=account.neighbours.value,
                    benchmark=account.benchmark,
                    epsilon_spent=spent,
                    epsilon_cap=cap,
                    epsilon_left=None if cap is None else cap - spent,
                    delta_cap=account.delta_cap,
                    releases=entries,
                )
            )
    if as_json:
        say_json(lines)
        warn_of_caps(_declared_accounts(settings), settings, errors)
        return
    console.print(table)
    note(f"{records} records, chain intact; epsilon in nats")
    with suppress(DpiclError):  # pipelines that break a rule are reported where they run
        note(*_uncharged(load_pipelines(settings.pipelines).pipelines))
    warn_of_caps(_declared_accounts(settings), settings)
    note(f"ledger: {place}")


def print_account(name: str, *, as_json: bool) -> None:
    """Every entry of one account: what was released, what it cost, and the running total."""
    lines: list[ChargedRelease] = []
    table = new_table("charged", "mechanism", "parameters", "epsilon", "total", "state")
    settings = Settings.from_environment()
    with open_ledger(settings) as ledger:
        for reading in ledger.odometer(name):
            release = reading.entry.release
            shown = ", ".join(f"{key}={str(value)[:LONGEST]}" for key, value in release.parameters.items() if value is not None)
            cost, total = number(release.guarantee.epsilon), number(reading.total.epsilon)
            table.add_row(reading.entry.reserved_utc[:19], release.mechanism, shown, cost, total, reading.entry.state)
            lines.append(
                ChargedRelease(
                    release=release.release_id,
                    mechanism=release.mechanism,
                    parameters=dict(release.parameters),
                    charged_utc=reading.entry.reserved_utc,
                    state=reading.entry.state,
                    epsilon=release.guarantee.epsilon,
                    delta=release.guarantee.delta,
                    epsilon_total=reading.total.epsilon,
                )
            )
    if as_json:
        say_json(lines)
    else:
        console.print(table)
    of_it = (account for account in _declared_accounts(settings) if account.name == name)
    warn_of_caps(of_it, settings, errors if as_json else console)


def _declared_accounts(settings: Settings) -> list[Account]:
    """Open accounts, as the contracts that can be read declare them."""
    accounts: list[Account] = []
    with open_ledger(settings) as ledger:
        opened = {account.name for account in ledger.accounts() if not account.benchmark}
        for name in (*settings.contract_names(), *settings.text_names()):
            with suppress(DpiclError):  # a contract that breaks a rule is reported where it is used
                contract = settings.declared(name)
                if (contract.account or contract.name) in opened:
                    accounts.append(payer(ledger, contract, GdpTabicl.name, settings))
    return accounts


def change_cap(name: str, epsilon: float, delta: float | None) -> None:
    """Change an account's cap; from now on the ledger's cap holds, not the contract's.

    Raises:
        ParameterError: a cap is no finite number, or negative.
        LedgerError: there is no such account.
        PrivacyError: it is a public benchmark's.
    """
    settings = Settings.from_environment()
    with open_ledger(settings) as ledger:
        before = next((account for account in ledger.accounts() if account.name == name), None)
        ledger.set_cap(name, epsilon, before.delta_cap if delta is None and before else delta or 0.0)
        write_cap(ledger, name, settings)
        spent = ledger.spent(name).epsilon
    left = "nothing left to spend" if spent >= epsilon else f"left {number(epsilon - spent)}"
    was = "" if before is None or before.epsilon_cap is None else f" (was {number(before.epsilon_cap)})"
    say(f"{name}: cap {number(epsilon)}{was}, spent {number(spent)}, {left}")
