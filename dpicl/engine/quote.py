"""What a run would spend, known from contracts, periods and ledger before any private byte is read.

A release that was charged before, in the same period and under the same parameters, is free,
whatever became of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dpicl.accounting.ledger import Account, Ledger, Quote, Release
from dpicl.accounting.ledger.keys import canonical
from dpicl.contract import Contract
from dpicl.engine.models import fingerprint
from dpicl.engine.names import QUERIES, evaluation_of
from dpicl.engine.open_ledger import ledger_key, open_ledger
from dpicl.engine.payers import open_account
from dpicl.engine.releases import named_releases
from dpicl.engine.run_folder import Plan
from dpicl.engine.settings import Settings
from dpicl.lm.embedding import embedder_fingerprint
from dpicl.methods import METHODS
from dpicl.pipeline import Unit


@dataclass(frozen=True)
class AccountQuote:
    """What one account would be charged."""

    account: str
    releases: int
    charged_before: int
    quote: Quote


def quote_plan(
    plan: Plan, settings: Settings, units: Iterable[Unit] | None = None
) -> list[AccountQuote]:
    """One line per account that a plan's units (or some) spend from; opens accounts, spends
    nothing. An edited ledger is refused first, and what another ledger of this user was charged
    for.
    """
    if plan.pipeline.reports is not None:
        return []  # where nothing is charged no ledger is made
    with open_ledger(settings) as ledger:
        ledger.verify()
        quotes = []
        for account, releases in charges(ledger, plan, settings, units):
            charged = [entry.release for entry in ledger.entries(account.name)]
            names = {release.release_id for release in charged}
            described = {
                _described(release) for release in charged if QUERIES in release.parameters
            }
            new = [
                one.guarantee
                for one in releases.values()
                if one.release_id not in names and _described(one) not in described
            ]
            if new:
                ledger.check_elsewhere(account.name)
            quotes.append(
                AccountQuote(
                    account.name,
                    len(releases),
                    len(releases) - len(new),
                    ledger.dry_run(account.name, new),
                )
            )
        return quotes


def charges(
    ledger: Ledger, plan: Plan, settings: Settings, units: Iterable[Unit] | None = None
) -> list[tuple[Account, dict[str, Release]]]:
    """Every release of a plan's units by its name, by the account that pays; what several cells are
    made from is one release. Of clients' reports none pays.
    """
    if plan.pipeline.reports is not None:
        return []
    chosen, key = list(plan.units.values() if units is None else units), ledger_key(settings)
    reads = any(METHODS[unit.method].model_reads_rows for unit in chosen)
    models: dict[str, Any] = (
        {"writer": fingerprint(plan.writing_model), "embedder": embedder_fingerprint(plan.embedder)}
        if reads
        else {}
    )
    accounts = {account.name: account for account in ledger.accounts()}
    by_account: dict[str, dict[str, Release]] = {}
    for unit in chosen:
        declared = settings.declared(unit.dataset)
        contract, extra = plan.contract_of(unit, declared), plan.fewer_queries(unit, declared)
        period = plan.period_of(unit.dataset)
        releases = list(
            named_releases(
                ledger, contract, unit, settings, period=period, extra=extra, **models
            ).values()
        )
        account = open_account(ledger, contract, unit.method, settings)
        accounts[account.name] = account
        if contract.evaluation == "charged":
            assert isinstance(contract, Contract)
            releases.append(evaluation_of(key, account, contract, unit, releases, plan))
        by_account.setdefault(account.name, {}).update({one.release_id: one for one in releases})
    return [(accounts[name], by_account[name]) for name in sorted(by_account)]


def _described(release: Release) -> str:
    """A release whose name holds the queries that it answers, which are not read yet."""
    return canonical(
        [
            release.mechanism,
            {name: value for name, value in release.parameters.items() if name != QUERIES},
        ]
    )
