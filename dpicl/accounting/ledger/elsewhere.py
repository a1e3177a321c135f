"""Rows for which another ledger of the same user was charged, as its witness says: nothing more is
charged for them here until a person has stated what may be, knowing of that.

Guarantee   a state home that is begun anew, or beside another one, gives rows no second budget
            unseen. A statement holds for what the other ledger had spent by then; once that is
            charged again, it is asked for again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, select

from dpicl.accounting.ledger import assets, chain
from dpicl.accounting.ledger.models import records
from dpicl.accounting.ledger.values import Account
from dpicl.accounting.ledger.witness import WitnessedAccount
from dpicl.errors import LedgerRefusedError

ELSEWHERE = "elsewhere"
"""In the record of a cap that a command set: what other ledgers had spent for the same rows, as the
person was told.
"""


def spent_elsewhere(
    connection: Connection, name: str, others: Iterable[WitnessedAccount]
) -> list[WitnessedAccount]:
    """Of accounts of other ledgers those that have spent something for rows of this account."""
    mine = assets.bound_to(connection, name)
    return [
        other for other in others if assets.are_same_rows(mine, other.addresses) and other.epsilon
    ]


def check(
    connection: Connection, key: bytes, account: Account, others: Iterable[WitnessedAccount]
) -> None:
    """Raises LedgerRefusedError: another ledger has spent for the account's rows more than a person
    has stated to know of.
    """
    if account.benchmark or not (spenders := spent_elsewhere(connection, account.name, others)):
        return
    stated = _stated(connection, key, account.name)
    for other in spenders:
        if other.epsilon > stated.get(other.key, 0.0):
            raise LedgerRefusedError(
                f"account {account.name!r}: epsilon={other.epsilon:.6g} was charged for its rows "
                f"in another ledger of yours, account "
                f"{other.name!r} of the state home {other.home}; expected DPICL_HOME to name that "
                f"one, `dpicl state restore` with its backup, or "
                f"`dpicl budget {account.name} --cap CAP`, which states what may be spent here "
                f"beside it"
            )


def statement(spenders: Iterable[WitnessedAccount]) -> dict[str, dict[str, float]]:
    """What the record of a cap says of them."""
    known = {other.key: other.epsilon for other in spenders}
    return {ELSEWHERE: known} if known else {}


def _stated(connection: Connection, key: bytes, name: str) -> Mapping[str, float]:
    """What the last statement on an account says. Raises LedgerRefusedError: it was edited."""
    for row in connection.execute(
        select(records).where(records.c.kind == "cap").order_by(records.c.sequence.desc())
    ):
        content = json.loads(row.content)
        if content["account"] == name and ELSEWHERE in content:
            chain.check_record(connection, key, row.sequence)
            return {other: float(epsilon) for other, epsilon in content[ELSEWHERE].items()}
    return {}
