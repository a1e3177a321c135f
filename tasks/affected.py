"""Which releases of an installation the advisory of this version is about; reads the ledger and contracts, and no row.

split      a table's rows were held out by a permutation, so that one row more moved others: the release told more than stated
names      releases of an account were drawn from several states of the rows, and their names told which were the same
accounts   budgets of the same rows were kept apart, and spent apart
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from dpicl.accounting.ledger import Account, Entry, Ledger
from dpicl.contract import Contract
from dpicl.errors import DpiclError
from dpicl.methods import METHODS
from tasks.releases import open_ledger
from tasks.settings import Settings


def affected(settings: Settings) -> list[str]:
    """One sentence for each account and hole; none where nothing was released before this version."""
    with open_ledger(settings) as ledger:
        split = _split_at_random(ledger, settings)
        return [
            sentence
            for account in ledger.accounts()
            if not account.benchmark
            for sentence in _of_account(ledger, account, account.name in split)
        ]


def _of_account(ledger: Ledger, account: Account, by_permutation: bool) -> Iterator[str]:
    entries = [entry for entry in ledger.entries(account.name) if entry.release.content_version]
    tables = [entry for entry in entries if METHODS[entry.release.mechanism].DATA == "table"]
    if tables and by_permutation:
        yield (
            f"account {account.name}: {_count(tables)} of a table whose rows were held out at random; one row more moved others too, so that "
            f"epsilon was larger than stated"
        )
    states = len({entry.release.content_version for entry in entries})
    if states > 1:
        yield (
            f"account {account.name}: {_count(entries)} of {states} states of the rows; which of them are of the same rows could be told from "
            f"their names and bytes"
        )
    apart = sorted({entry.release.account for entry in entries} - {account.name})
    if apart:
        yield (
            f"account {account.name}: now pays for {', '.join(apart)} too, which are of the same rows: together epsilon "
            f"{ledger.spent(account.name).epsilon:.4g} of a cap of {account.epsilon_cap:.4g}"
        )


def _count(entries: list[Entry]) -> str:
    return "1 release" if len(entries) == 1 else f"{len(entries)} releases"


def _split_at_random(ledger: Ledger, settings: Settings) -> set[str]:
    """Accounts of tables that protect rows and hold some out at random, as contracts say it now."""
    found = set()
    for name in settings.contract_names():
        with suppress(DpiclError):  # a contract that breaks a rule is told of where it is used
            contract = settings.declared(name)
            if isinstance(contract, Contract) and contract.privacy.unit == "row" and contract.split and contract.split.test_fraction:
                found.add(ledger.payer(contract.account or contract.name))
    return found
