"""Caps that contracts state, beside those that the ledger holds."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from dpicl.accounting.ledger import Account
from dpicl.engine.accounts import bind_account, stated_account
from dpicl.engine.open_ledger import open_ledger
from dpicl.engine.settings import Settings
from dpicl.errors import DeclarationError, DpiclError, SourceError


def declared_accounts(settings: Settings) -> tuple[list[Account], list[str]]:
    """Open accounts, as the contracts that can be read declare them; and a sentence for each
    contract whose account cannot be told, since no database answers.
    """
    accounts: list[Account] = []
    unknown: list[str] = []
    with open_ledger(settings) as ledger:
        opened = {account.name for account in ledger.accounts() if not account.benchmark}
        for name in (*settings.contract_names(), *settings.text_names()) if opened else ():
            with suppress(DpiclError):  # a contract that breaks a rule is reported where it is used
                contract = settings.declared(name)
                if (contract.account or contract.name) in opened:
                    stated = stated_account(contract)
                    try:
                        accounts.append(
                            replace(
                                stated, name=bind_account(ledger, stated, contract, settings).name
                            )
                        )
                    except SourceError as error:
                        unknown.append(f"{error}; its cap is compared with no account's")
    return accounts, unknown


def refused_contracts(settings: Settings) -> list[str]:
    """A sentence for each of the user's contracts that breaks a rule, so that nothing else is said
    of it.
    """
    refused = []
    for name in settings.own_names():
        try:
            settings.declared(name)
        except DeclarationError as error:
            refused.append(f"a contract is left out: {error}")
    return refused


def differing_caps(accounts: Iterable[Account], settings: Settings) -> list[str]:
    """A sentence for each cap in a contract that differs from the ledger's, which holds; of open
    accounts that are no benchmark's.
    """
    capped = [account for account in accounts if not account.benchmark]
    if not capped:
        return []
    with open_ledger(settings) as ledger:
        opened = {account.name for account in ledger.accounts()}
        restored = ledger.restored_from
        pairs = [
            (stated, ledger.with_other_caps(stated)) for stated in capped if stated.name in opened
        ]
    less = "" if restored is None else f", less what was released since the backup of {restored},"
    sentences = []
    for stated, current in ((stated, current) for stated, current in pairs if current is not None):
        with_delta = stated.delta_cap != current.delta_cap
        caps = [
            f"{one.epsilon_cap:.12g}" + (f" and delta {one.delta_cap:.12g}" if with_delta else "")
            for one in (stated, current)
        ]
        delta = f" --delta {stated.delta_cap:.12g}" if with_delta else ""
        sentences.append(
            f"account {stated.name!r}: the cap in the contract, epsilon {caps[0]}, differs from "
            f"the ledger's, {caps[1]}, which holds; "
            f"`dpicl budget {stated.name} --cap {stated.epsilon_cap:.12g}{delta}`{less} changes it"
        )
    return sentences
