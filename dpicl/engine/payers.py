"""Which account pays for a method on a contract's rows: a local method's releases of a benchmark
have one of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dpicl.accounting.guarantee import Neighbours
from dpicl.accounting.ledger import Account, Ledger
from dpicl.contract.declared import Declared
from dpicl.engine.accounts import bind_account, stated_account
from dpicl.engine.open_ledger import open_ledger
from dpicl.engine.settings import Settings
from dpicl.errors import PrivacyError
from dpicl.methods import METHODS

CLIENTS = "-clients"
"""After a benchmark's name: the account of its local releases, on which nothing is at stake
either.
"""


def account_of(contract: Declared, method: str) -> Account:
    """The account as a contract speaks of it: unit, relation and caps; its name counts where the
    rows have no account yet. A local method on rows that may come and go is a PrivacyError.
    """
    privacy, budget, local = (
        contract.privacy,
        contract.privacy.budget,
        METHODS[method].trust == "local",
    )
    if local and budget.benchmark:
        return Account(
            contract.name + CLIENTS,
            "client",
            Neighbours.REPLACE_ONE,
            delta_cap=budget.delta,
            benchmark=True,
        )
    if local and Neighbours(privacy.neighbours) is not Neighbours.REPLACE_ONE:
        raise PrivacyError(
            f"{contract.name}: every client's report is published, so that anybody can count the "
            f"rows; expected `neighbours: replace-one` "
            f"in the contract's privacy, which says that their number is public"
        )
    return stated_account(contract)


def open_account(ledger: Ledger, contract: Declared, method: str, settings: Settings) -> Account:
    """The account that pays, as `bind_account` opens it. A PrivacyError as of `account_of`."""
    return bind_account(ledger, account_of(contract, method), contract, settings)


def accounts_of(used: Iterable[tuple[str, str]], settings: Settings) -> list[Account]:
    """The accounts that pairs of data set and method spend from, as contracts speak of them, each
    under the ledger's name.
    """
    with open_ledger(settings) as ledger:
        return list(
            dict.fromkeys(
                _payer(ledger, settings.declared(dataset), method, settings)
                for dataset, method in used
            )
        )


def _payer(ledger: Ledger, contract: Declared, method: str, settings: Settings) -> Account:
    return replace(
        account_of(contract, method), name=open_account(ledger, contract, method, settings).name
    )
