"""What the command line shows of the ledger: quotes, accounts and entries."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.table import Table

from dpicl.accounting.ledger import Account
from dpicl.engine.benchmarks import known_when_read
from dpicl.engine.forecast import forecast
from dpicl.engine.pipelines import load_pipelines
from dpicl.engine.plan import check_units, draft_plan
from dpicl.engine.quote import accounts_of, payer, quote_plan, unheeded_caps
from dpicl.engine.receipts import keep_cap
from dpicl.engine.releases import open_ledger
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError
from dpicl.methods.gdp_tabicl import GdpTabicl

LONGEST = 12
"""Characters of a parameter that are shown: a model's fingerprint is longer."""


def print_quotes(pipeline: str, changes: dict[str, Any], console: Console, *, period: str | None = None) -> None:
    """What a run would be charged, per account, before any private byte is read."""
    settings = Settings.from_environment()
    plan = draft_plan(pipeline, changes, settings, period=period)
    check_units(plan, settings)
    table = Table("account", "releases", "charged before", "would cost", "spent", "cap", "left after", box=None, header_style="bold")
    for line in quote_plan(plan, settings):
        quote = line.quote
        cap, left = ("none", "-") if quote.cap is None or quote.left is None else (_number(quote.cap), _number(quote.left))
        left = left if quote.allowed else f"{left} (refused)"
        cost, spent = _number(quote.cost.epsilon), _number(quote.before.epsilon)
        table.add_row(line.account, str(line.releases), str(line.charged_before), cost, spent, cap, left)
    console.print(table)
    console.print("epsilon in nats; a release is charged once in its period, whatever becomes of the rows", highlight=False)
    console.print("no model was opened: a run asks it public questions before it charges", highlight=False)
    if unread := known_when_read(map(settings.declared, plan.pipeline.datasets)):
        told = f"{', '.join(unread)}: whether the rows are published is known once they are read; a run refuses others"
        console.print(told, highlight=False, soft_wrap=True)
    print_unheeded(accounts_of(((unit.dataset, unit.method) for unit in plan.units.values()), settings), settings, console)


def print_unheeded(accounts: Iterable[Account], settings: Settings, console: Console) -> None:
    """Warn of caps that contracts state and that do not count."""
    for sentence in unheeded_caps(accounts, settings):
        console.print(f"warning: {sentence}", highlight=False, soft_wrap=True)


def print_forecasts(console: Console) -> None:
    """For how long the accounts of scheduled pipelines last: a run is charged where it falls into a new period."""
    settings = Settings.from_environment()
    table = Table(
        "pipeline", "account", "left", "a period costs", "periods it lasts", "new periods due", "until", box=None, header_style="bold"
    )
    scheduled = {name: pipeline for name, pipeline in load_pipelines(settings.pipelines).pipelines.items() if pipeline.schedule}
    refused: list[DpiclError] = []
    for name, pipeline in scheduled.items():
        try:
            for line in forecast(name, pipeline, settings):
                until = "the horizon" if line.is_enough else f"{line.lasts_until:%Y-%m-%d}" if line.lasts_until else "not one run"
                table.add_row(name, line.account, _number(line.left), _number(line.cost), str(line.affordable), str(line.due), until)
        except DpiclError as error:  # the others are told first
            refused.append(error)
    console.print(table)
    told = f"{len(scheduled)} scheduled pipelines; epsilon in nats; within a period releases stand and are free"
    console.print(told + "; public benchmarks have no cap", highlight=False)
    if refused:
        raise refused[0]


def print_accounts(console: Console) -> None:
    """Every account with its cap, what is spent and what is left; checks the ledger's chain."""
    table = Table("account", "protects", "spent", "delta", "cap", "left", "entries", box=None, header_style="bold")
    settings = Settings.from_environment()
    with open_ledger(settings) as ledger:
        records, place = ledger.verify(), ledger.place
        for account in ledger.accounts():
            spent, cap = ledger.spent(account.name), account.epsilon_cap
            left = "-" if cap is None else _number(cap - spent.epsilon)
            protects = f"one {account.unit}, {account.neighbours}"
            count = str(len(ledger.entries(account.name)))
            table.add_row(
                account.name,
                protects,
                _number(spent.epsilon),
                f"{account.delta_cap:g}",
                "none" if cap is None else _number(cap),
                left,
                count,
            )
    console.print(table)
    console.print(f"{records} records, chain intact; epsilon in nats", highlight=False)
    print_unheeded(_declared_accounts(settings), settings, console)
    console.print(f"ledger: {place}", highlight=False, soft_wrap=True)


def _declared_accounts(settings: Settings) -> list[Account]:
    """What all contracts that can be read say of the accounts that are open."""
    found: list[Account] = []
    with open_ledger(settings) as ledger:
        opened = {account.name for account in ledger.accounts() if not account.benchmark}
        for name in (*settings.contract_names(), *settings.text_names()):
            with suppress(DpiclError):  # a contract that breaks a rule is told of where it is used
                contract = settings.declared(name)
                if (contract.account or contract.name) in opened:
                    found.append(payer(ledger, contract, GdpTabicl.name, settings))
    return found


def change_cap(name: str, epsilon: float, delta: float | None, console: Console) -> None:
    """Change what an account may spend; from now on the ledger says it, and not the contract.

    Raises:
        ParameterError: a cap is no finite number, or negative.
        LedgerError: there is no such account.
        PrivacyError: it is a public benchmark's.
    """
    settings = Settings.from_environment()
    with open_ledger(settings) as ledger:
        before = next((account for account in ledger.accounts() if account.name == name), None)
        ledger.set_cap(name, epsilon, before.delta_cap if delta is None and before else delta or 0.0)
        keep_cap(ledger, name, settings)
        spent = ledger.spent(name).epsilon
    told = "nothing more can be bought" if spent >= epsilon else f"left {_number(epsilon - spent)}"
    was = "" if before is None or before.epsilon_cap is None else f" (was {_number(before.epsilon_cap)})"
    console.print(f"{name}: cap {_number(epsilon)}{was}, spent {_number(spent)}, {told}", highlight=False)


def print_account(name: str, console: Console) -> None:
    """Every entry of one account: what it bought, what it cost, and the running total."""
    table = Table("charged", "mechanism", "bought", "epsilon", "total", "state", box=None, header_style="bold")
    settings = Settings.from_environment()
    with open_ledger(settings) as ledger:
        for reading in ledger.odometer(name):
            release = reading.entry.release
            bought = ", ".join(f"{key}={str(value)[:LONGEST]}" for key, value in release.parameters.items() if value is not None)
            cost, total = _number(release.guarantee.epsilon), _number(reading.total.epsilon)
            table.add_row(reading.entry.reserved_utc[:19], release.mechanism, bought, cost, total, reading.entry.state)
    console.print(table)
    print_unheeded((account for account in _declared_accounts(settings) if account.name == name), settings, console)


def _number(value: float) -> str:
    return f"{value:.4g}"
