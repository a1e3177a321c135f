"""What a run would spend, known from contracts, periods and ledger before any private byte is read:
every release of its units by the account that pays for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from dpicl.accounting.ledger import Account, Ledger, Release, release_id
from dpicl.accounting.ledger.budget import as_paid
from dpicl.contract import Contract
from dpicl.contract.load import contract_digest
from dpicl.contract.periods import ONCE
from dpicl.engine.names import PERIOD, ReleaseFacts
from dpicl.engine.open_ledger import ledger_key, open_ledger
from dpicl.engine.payers import accounts_of, open_account
from dpicl.engine.quote import AccountQuote, quoted
from dpicl.engine.readers import fingerprint
from dpicl.engine.releases import named_releases
from dpicl.engine.run_folder import Plan
from dpicl.engine.settings import Settings
from dpicl.lm.embedding import embedder_fingerprint
from dpicl.methods import METHODS, held_out_evaluation
from dpicl.pipeline import Unit


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
        return [
            quoted(ledger, account.name, releases)
            for account, releases in charges(ledger, plan, settings, units)
        ]


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
    writer = fingerprint(plan.writing_model) if reads else ""
    embedder = embedder_fingerprint(plan.embedder) if reads else ""
    accounts = {account.name: account for account in ledger.accounts()}
    by_account: dict[str, dict[str, Release]] = {}
    for unit in chosen:
        declared = settings.declared(unit.dataset)
        contract, extra = plan.contract_of(unit, declared), plan.fewer_queries(unit, declared)
        facts = ReleaseFacts(plan.period_of(unit.dataset), writer, embedder, extra)
        releases = list(named_releases(ledger, contract, unit, settings, facts).values())
        account = open_account(ledger, contract, unit.method, settings)
        accounts[account.name] = account
        if contract.evaluation == "charged":
            assert isinstance(contract, Contract)
            releases.append(evaluation_of(key, account, contract, unit, releases, plan))
        by_account.setdefault(account.name, {}).update({one.release_id: one for one in releases})
    return [(accounts[name], by_account[name]) for name in sorted(by_account)]


def evaluation_of(
    key: bytes,
    account: Account,
    contract: Contract,
    unit: Unit,
    releases: Iterable[Release],
    plan: Plan,
) -> Release:
    """The release that measures a unit's answers on held-out private rows: of these releases, and a
    plan's period, model and queries.
    """
    assert contract.split is not None
    period = plan.period_of(unit.dataset)
    parameters = {
        "method": unit.method,
        "replicate": unit.seed,
        "model": fingerprint(plan.model),
        "cells": [cell.key for cell in held_out_evaluation.measured_cells(unit)],
        # the same cells then stand for other answers
        **({} if unit.draws == 1 else {"draws": unit.draws}),
        "queries": plan.pipeline.queries,
        "epsilon": contract.split.evaluation_epsilon,
        "releases": sorted({release.release_id for release in releases}),
        **({} if period == ONCE else {PERIOD: period}),
    }
    name = release_id(
        key,
        account=account.name,
        mechanism=held_out_evaluation.MECHANISM,
        mechanism_version=held_out_evaluation.VERSION,
        parameters=parameters,
        contract_digest=contract_digest(contract),
        neighbours=account.neighbours,
        period=period,
    )
    guarantee = as_paid(held_out_evaluation.cost(contract, unit), account)
    return Release(name, account.name, held_out_evaluation.MECHANISM, parameters, guarantee)


def plan_accounts(plan: Plan, settings: Settings) -> list[Account]:
    """The accounts that a plan's units spend from, as `accounts_of` gives them; of clients' reports
    none.
    """
    return (
        []
        if plan.pipeline.reports
        else accounts_of(((unit.dataset, unit.method) for unit in plan.units.values()), settings)
    )
