"""`dpicl budget`: what accounts have spent and have left, and their caps."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from dpicl.accounting.ledger import Account
from dpicl.cli.json_output.budgets import ChargedRelease, SpentAccount
from dpicl.cli.terminal import console, errors, new_table, note, number, say, say_json
from dpicl.engine.caps import declared_accounts, differing_caps, refused_contracts
from dpicl.engine.open_ledger import open_ledger
from dpicl.engine.receipts import write_cap
from dpicl.engine.settings import Settings
from dpicl.errors import ParameterError

LONGEST = 12
"""Characters of a parameter that are shown: a model's fingerprint is longer."""


def warn_of_caps(accounts: Iterable[Account], settings: Settings, to: Console = console) -> None:
    """Warn of caps in contracts that differ from the ledger's."""
    note(*(f"warning: {sentence}" for sentence in differing_caps(accounts, settings)), to=to)


def _warn_of_declared(settings: Settings, to: Console, name: str | None = None) -> None:
    """The same of all contracts, or of those on one account; and which of them are not compared, as
    their account is not known.
    """
    declared, unknown = declared_accounts(settings)
    warn_of_caps((account for account in declared if name in (None, account.name)), settings, to)
    note(*unknown, to=to)


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
            protects, entries = (
                f"one {account.unit}, {account.neighbours}",
                len(ledger.entries(account.name)),
            )
            table.add_row(
                account.name,
                protects,
                number(spent),
                f"{account.delta_cap:g}",
                number(cap),
                left,
                str(entries),
            )
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
    note(*(f"warning: {sentence}" for sentence in refused_contracts(settings)), to=errors)
    if as_json:
        say_json(lines)
        _warn_of_declared(settings, errors)
        return
    console.print(table)
    note(f"{records} records, chain intact; epsilon in nats")
    _warn_of_declared(settings, console)
    note(f"ledger: {place}")


def print_account(name: str, *, as_json: bool) -> None:
    """Every entry of one account: what was released, what it cost, and the running total."""
    lines: list[ChargedRelease] = []
    table = new_table("charged", "mechanism", "parameters", "epsilon", "total", "state")
    settings = Settings.from_environment()
    with open_ledger(settings) as ledger:
        for reading in ledger.odometer(name):
            release = reading.entry.release
            shown = ", ".join(
                f"{key}={str(value)[:LONGEST]}"
                for key, value in release.parameters.items()
                if value is not None
            )
            cost, total = number(release.guarantee.epsilon), number(reading.total.epsilon)
            table.add_row(
                reading.entry.reserved_utc[:19],
                release.mechanism,
                shown,
                cost,
                total,
                reading.entry.state,
            )
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
    _warn_of_declared(settings, errors if as_json else console, name)


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
        ledger.set_cap(
            name, epsilon, before.delta_cap if delta is None and before else delta or 0.0
        )
        write_cap(ledger, name, settings)
        spent, elsewhere = ledger.spent(name).epsilon, ledger.spent_elsewhere(name)
    left = "nothing left to spend" if spent >= epsilon else f"left {number(epsilon - spent)}"
    was = (
        ""
        if before is None or before.epsilon_cap is None
        else f" (was {number(before.epsilon_cap)})"
    )
    say(f"{name}: cap {number(epsilon)}{was}, spent {number(spent)}, {left}")
    for other in elsewhere:
        say(
            f"beside epsilon {number(other.epsilon)} that account {other.name} of {other.home} "
            f"has spent for the same rows, as is stated now"
        )


def state_other_file(name: str, path: Path) -> None:
    """State that a file is not the one that the account paid for when that had its device and
    inode.

    Raises:
        ParameterError: there is no such file.
        LedgerError: there is no such account.
        PrivacyError: the account pays for that file, or never paid for one of this inode.
    """
    if not path.exists():
        raise ParameterError("other-file", path.name, "a file or folder that is there")
    with open_ledger(Settings.from_environment()) as ledger:
        ledger.other_file(name, path)
    say(f"{name}: {path.name} is stated to be another file; an account of its own may pay for it")
