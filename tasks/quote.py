"""What a run would spend, known from contracts and ledger before any private byte is read.

A release that was bought before under the same parameters is free if the data have not
changed, and is counted as free here; that is checked again, by content, when it is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpicl.accounting.guarantee import Guarantee
from dpicl.accounting.ledger import Account, Ledger, Quote
from dpicl.accounting.ledger.keys import canonical
from dpicl.errors import BudgetError
from dpicl.lm.models import ModelSpec
from dpicl.pipeline import Unit
from tasks.models import fingerprint
from tasks.releases import WRITING, account_of, costs_of, open_ledger, parameters_of
from tasks.settings import Settings

Named = tuple[str, str]
"""A release but for its data: mechanism, and parameters in canonical form."""


@dataclass(frozen=True)
class AccountQuote:
    """What one account would be asked for."""

    account: str
    releases: int
    bought_before: int
    quote: Quote


def quote_units(units: Iterable[Unit], settings: Settings, writing_model: ModelSpec) -> list[AccountQuote]:
    """One line per account that the units spend from; opens accounts, spends nothing.

    Args:
        writing_model: the model that reads private rows, where a method has one do that.

    Raises:
        LedgerRefusedError: the ledger was edited or rolled back; told before anything is read.
    """
    with open_ledger(settings) as ledger:
        ledger.verify()
        return [_quote(ledger, account, asked) for account, asked in charges(units, settings, writing_model)]


def charges(units: Iterable[Unit], settings: Settings, writing_model: ModelSpec) -> list[tuple[Account, dict[Named, Guarantee]]]:
    """What the units would be charged on new data, by account: every release once, by mechanism and parameters."""
    chosen = list(units)
    writer = fingerprint(writing_model, settings) if any(unit.method in WRITING for unit in chosen) else ""
    found: dict[str, tuple[Account, dict[Named, Guarantee]]] = {}
    for unit in chosen:
        contract = settings.declared(unit.dataset)
        account = account_of(contract, unit.method)
        _, asked = found.setdefault(account.name, (account, {}))
        for cell, cost in costs_of(contract, unit).items():  # by name: what several cells are made from is charged once
            asked[unit.method, canonical(parameters_of(contract, unit, cell, writer))] = cost.charged
    return [found[name] for name in sorted(found)]


def _quote(ledger: Ledger, account: Account, asked: dict[Named, Guarantee]) -> AccountQuote:
    ledger.ensure_account(account)
    bought = {(entry.release.mechanism, canonical(entry.release.parameters)) for entry in ledger.entries(account.name)}
    new = [guarantee for name, guarantee in asked.items() if name not in bought]
    return AccountQuote(account.name, len(asked), len(asked) - len(new), ledger.dry_run(account.name, new))


def accounts_of(units: Iterable[Unit], settings: Settings) -> list[Account]:
    """The accounts that units spend from, each once."""
    return list(dict.fromkeys(account_of(settings.declared(unit.dataset), unit.method) for unit in units))


def unheeded_caps(accounts: Iterable[Account], settings: Settings) -> list[str]:
    """A sentence for each cap that a contract has come to state and that does not count, as another was decided in the ledger.

    Args:
        accounts: as contracts state them; those that are not open, or are a benchmark's, are passed by.
    """
    capped = [account for account in accounts if not account.benchmark]
    if not capped:
        return []
    with open_ledger(settings) as ledger:
        opened = {account.name for account in ledger.accounts()}
        found = ((asked, ledger.unheeded(asked)) for asked in capped if asked.name in opened)
        return [_unheeded(asked, holding) for asked, holding in found if holding is not None]


def _unheeded(asked: Account, holding: Account) -> str:
    """Both numbers, and the command that makes the contract's one count."""
    with_delta = asked.delta_cap != holding.delta_cap
    caps = [f"{one.epsilon_cap:.12g}" + (f" and delta {one.delta_cap:.12g}" if with_delta else "") for one in (asked, holding)]
    command = f"dpicl budget {asked.name} --cap {asked.epsilon_cap:.12g}" + (f" --delta {asked.delta_cap:.12g}" if with_delta else "")
    return (
        f"account {asked.name!r}: its contract now says a cap of epsilon {caps[0]}, which does not count: {caps[1]} was decided in the "
        f"ledger and holds; `{command}` changes it"
    )


def check_budget(units: Iterable[Unit], settings: Settings, writing_model: ModelSpec) -> None:
    """Refuse a run that would pass a cap.

    Raises:
        BudgetError: with what was asked, spent, the cap and what is left.
    """
    for line in quote_units(units, settings, writing_model):
        if not line.quote.allowed:
            quote = line.quote
            raise BudgetError(
                f"account {line.account!r}: {line.releases - line.bought_before} new releases ask epsilon={quote.cost.epsilon:.6g}, "
                f"spent {quote.before.epsilon:.6g} of cap {quote.cap:.6g}, left {max(0.0, (quote.cap or 0) - quote.before.epsilon):.6g}; "
                f"expected fewer seeds, shots or epsilons"
            )
