"""What accounts have spent, have left and would be charged, and their caps."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from dpicl.cli.answers import (
    ChargedRelease,
    LoweredCap,
    PlannedCharge,
    SpentAccount,
    SpentByUser,
    answer_of,
)
from dpicl.cli.terminal import console, errors, new_table, note, number, say, show, table_of
from dpicl.ground.errors import ParameterError
from dpicl.home.accounts import (
    declared_accounts,
    differing_caps,
    open_ledger,
    refused_contracts,
    state_cap,
)
from dpicl.home.settings import Settings
from dpicl.ledger import Account, Ledger

if TYPE_CHECKING:
    from dpicl.release.releases import AccountQuote


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
    accounts: list[SpentAccount] = []
    sentences: list[str] = []
    settings = Settings.from_environment()
    with open_ledger(settings) as ledger:
        records = ledger.verify()
        place = ledger.place
        for account in ledger.accounts():
            spent = ledger.spent(account.name).epsilon
            cap = account.epsilon_cap
            lowering, sentence = ledger.lowering(account.name)
            users = _by_users(ledger, account.name)
            sentences += [f"{account.name}: {sentence}"] if sentence else []
            sentences += [
                f"{account.name}: {by.user} has charged {number(by.epsilon_spent)} of a share of "
                f"{number(by.epsilon_share)}"
                for by in users
                if by.epsilon_share is not None
            ]
            accounts.append(
                answer_of(
                    SpentAccount,
                    account,
                    account=account.name,
                    neighbours=account.neighbours.value,
                    epsilon_spent=spent,
                    epsilon_left=None if cap is None else max(0.0, cap - spent),
                    releases=len(ledger.entries(account.name)),
                    users=users,
                    lowered=None
                    if lowering is None
                    else LoweredCap(lowering.contract, lowering.epsilon_cap, lowering.delta_cap),
                )
            )
    note(*(f"warning: {sentence}" for sentence in refused_contracts(settings)), to=errors)
    to = show(accounts, [table_of(SpentAccount, accounts)], as_json=as_json)
    if not as_json:
        say(*sentences)
        note(f"{records} records, chain intact")
    _warn_of_declared(settings, to)
    if not as_json:
        note(f"ledger: {place}")


def print_account(name: str, *, as_json: bool) -> None:
    """Every entry of one account: what was released, what it cost, and the running total; then who
    spent how much.
    """
    settings = Settings.from_environment()
    with open_ledger(settings) as ledger:
        releases = [
            ChargedRelease(
                release=charge.release_id,
                mechanism=charge.mechanism,
                parameters=dict(charge.parameters),
                charged_utc=reading.entry.reserved_utc,
                user=reading.entry.by.user,
                command=reading.entry.by.command,
                state=reading.entry.state,
                epsilon=charge.guarantee.epsilon,
                delta=charge.guarantee.delta,
                epsilon_total=reading.total.epsilon,
            )
            for reading in ledger.odometer(name)
            for charge in [reading.entry.release]
        ]
        users = _by_users(ledger, name)
        _, sentence = ledger.lowering(name)
    text: list[str | Table] = [table_of(ChargedRelease, releases)]
    text += ["", table_of(SpentByUser, users)] if users else []
    text += [f"{name}: {sentence}"] if sentence else []
    to = show(releases, text, as_json=as_json)
    _warn_of_declared(settings, to, name)


def _by_users(ledger: Ledger, account: str) -> list[SpentByUser]:
    return [
        SpentByUser(
            by.user,
            by.releases,
            by.epsilon,
            by.share,
            None if by.share is None else max(0.0, by.share - by.epsilon),
        )
        for by in ledger.spent_by_users(account)
    ]


def print_quotes(quotes: Iterable[AccountQuote], *, as_json: bool) -> None:
    """What accounts would be charged, also where a cap refuses it."""
    charges = [
        answer_of(
            PlannedCharge,
            line,
            epsilon=line.quote.cost.epsilon,
            delta=line.quote.cost.delta,
            epsilon_spent=line.quote.before.epsilon,
            epsilon_cap=line.quote.cap,
            epsilon_left=line.quote.left,
            epsilon_left_of_share=line.share_left,
            allowed=line.quote.allowed,
        )
        for line in quotes
    ]
    shared = any(charge.epsilon_left_of_share is not None for charge in charges)
    table = new_table(*PlannedCharge.heads, *["left of your share"] * shared)
    for charge in charges:
        table.add_row(*charge.row())
    to = show(charges, [table], as_json=as_json)
    note("a release is charged once per period, even if the rows change", to=to)


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
        state_cap(ledger, name, epsilon, delta, settings)
        spent = ledger.spent(name).epsilon
        elsewhere = ledger.spent_elsewhere(name)
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


def change_share(name: str, stated: str) -> None:
    """Change a user's share of an account's cap, stated as USER=EPSILON; from now on the ledger's
    share holds, not the contract's.

    Raises:
        ParameterError: it states no user, or no finite number.
        LedgerError: there is no such account.
        PrivacyError: it is a public benchmark's.
    """
    user, _, share = stated.rpartition("=")
    try:
        epsilon = float(share)
    except ValueError:
        epsilon = math.nan
    if not user or not 0 <= epsilon < math.inf:
        raise ParameterError("share", repr(stated[:60]), "USER=EPSILON, a finite number >= 0")
    with open_ledger(Settings.from_environment()) as ledger:
        ledger.set_share(name, user, epsilon)
        spent = {by.user: by.epsilon for by in ledger.spent_by_users(name)}[user]
    left = "nothing left to charge" if spent >= epsilon else f"left {number(epsilon - spent)}"
    say(f"{name}: share of {user} {number(epsilon)}, charged {number(spent)}, {left}")


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
