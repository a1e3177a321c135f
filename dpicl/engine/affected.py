"""Which releases of an installation an advisory is about; reads the ledger and contracts only.

Before accounts belonged to data assets, (1) a random split of a private table moved other rows when
one came or went,
(2) a release's name showed whether rows had changed, and (3) every contract and kind of method had
    a cap of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress

from dpicl.accounting.filters import Spent
from dpicl.accounting.guarantee import Neighbours
from dpicl.accounting.ledger import Entry, Ledger, Release, earlier_release_id
from dpicl.contract import Contract
from dpicl.contract.load import contract_digest
from dpicl.engine.open_ledger import ledger_key, open_ledger
from dpicl.engine.payers import CLIENTS
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError, PrivacyError
from dpicl.methods import METHODS


def affected(settings: Settings) -> dict[str, list[str]]:
    """Sentences by weakness, on releases that were charged before the upgrade to accounts of data
    assets.
    """
    key = ledger_key(settings)
    with open_ledger(settings) as ledger:
        ledger.verify()
        before = {
            account.name: [
                entry for entry in ledger.entries(account.name) if entry.release.content_version
            ]
            for account in ledger.accounts()
            if not account.benchmark
        }
        return {
            "1, the random split": [
                line for entries in before.values() for line in _split(key, entries, settings)
            ],
            "2, names that told whether rows had changed": [
                f"account {name}: has {len(entries)} releases of {count} states of its rows; who "
                f"saw which were made anew, and which came out "
                f"byte for byte again, can tell when rows changed, without any noise"
                for name, entries in before.items()
                if (count := len({entry.release.content_version for entry in entries})) > 1
            ],
            "3, a cap for every contract": [
                line for name, entries in before.items() for line in _joined(ledger, name, entries)
            ],
        }


def _split(key: bytes, entries: Sequence[Entry], settings: Settings) -> Iterator[str]:
    """One sentence for a release; under replace-one the number of rows stays, and so does where the
    others go.
    """
    for one in (entry.release for entry in entries):
        if (
            one.guarantee.neighbours is not Neighbours.ADD_OR_REMOVE_ONE
            or one.guarantee.unit != "row"
            or one.mechanism not in _OF_TABLES
        ):
            continue
        contract, names = None, set()
        with suppress(DpiclError):
            contract = settings.declared(one.account.removesuffix(CLIENTS))
            for version in range(1, METHODS[one.mechanism].draw_version + 1):
                name = earlier_release_id(
                    key,
                    account=one.account,
                    content_version=one.content_version,
                    mechanism=one.mechanism,
                    mechanism_version=version,
                    parameters=one.parameters,
                    contract_digest=contract_digest(
                        contract
                    ),  # today's: the name holds that of the contract it was made under
                    neighbours=one.guarantee.neighbours,
                )
                names.add(name)
        if one.release_id in names:
            if (
                isinstance(contract, Contract)
                and contract.split is not None
                and contract.split.test_fraction is not None
            ):
                yield (
                    f"release {_named(one)}: protects less than its epsilon says, unless its rows "
                    f"were read in batches"
                )
        else:
            yield (
                f"release {_named(one)}: was made under another contract than today's; if that "
                f"one had `test_fraction`, the release protects "
                f"less than its epsilon says, unless its rows were read in batches"
            )


_OF_TABLES = tuple(
    name for name, method in METHODS.items() if method.data == "table" and method.trust == "central"
)


def _joined(ledger: Ledger, name: str, entries: Sequence[Entry]) -> Iterator[str]:
    caps = ledger.caps_before_settling()
    members = [caps[member] for member in ledger.members(name) if member in caps]
    if len(members) < 2:
        return
    spending = []
    for member in members:
        spent, epsilon = Spent.nothing(), math.inf
        with suppress(
            PrivacyError
        ):  # what was charged to it, as it stated it, may have no finite cost
            for entry in entries:
                spent = (
                    spent.plus(entry.release.guarantee)
                    if entry.release.account == member.name
                    else spent
                )
            epsilon = spent.cost(member.delta_cap).epsilon
        spending.append(
            f"{member.name} spent {_amount(epsilon)} of cap {_amount(member.epsilon_cap)}"
        )
    account = next(account for account in ledger.accounts() if account.name == name)
    yield (
        f"account {name}: its rows had {len(members)} accounts ({'; '.join(spending)}); together "
        f"they have spent "
        f"{_amount(ledger.spent(name).epsilon)}, and the cap is {_amount(account.epsilon_cap)} now"
    )


def _named(release: Release) -> str:
    epsilon, shots = release.parameters.get("epsilon"), release.parameters.get("shots")
    return (
        f"{release.release_id[:12]} ({release.account}, {release.mechanism}, epsilon {epsilon}, "
        f"{shots} shots)"
    )


def _amount(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"
