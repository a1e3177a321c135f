"""Rows for which another ledger of the same user was charged, as its witness says: nothing more is
charged for them here until a person has stated what may be, knowing of that.

Guarantee   a state home that is begun anew, or beside another one, gives rows no second budget
            unseen. A statement holds for what the other ledger had spent by then; once that is
            charged again, it is asked for again.
"""

from __future__ import annotations

from collections.abc import Iterable

from dpicl.accounting.ledger import assets
from dpicl.accounting.ledger.fold import ELSEWHERE, Fold
from dpicl.accounting.ledger.witness import WitnessedAccount
from dpicl.errors import LedgerRefusedError


def spent_elsewhere(
    fold: Fold, name: str, others: Iterable[WitnessedAccount]
) -> list[WitnessedAccount]:
    """Of accounts of other ledgers those that have spent something for rows of this account."""
    mine = assets.bound_to(fold, name)
    return [
        other for other in others if assets.are_same_rows(mine, other.addresses) and other.epsilon
    ]


def check(fold: Fold, name: str, others: Iterable[WitnessedAccount]) -> None:
    """Raises LedgerRefusedError: another ledger has spent for the account's rows more than a person
    has stated to know of.
    """
    state = fold.account(name)
    if state.row["benchmark"]:
        return
    stated = state.elsewhere
    for other in spent_elsewhere(fold, name, others):
        if other.epsilon > stated.get(other.key, 0.0):
            raise LedgerRefusedError(
                f"account {name!r}: epsilon={other.epsilon:.6g} was charged for its rows "
                f"in another ledger of yours, account "
                f"{other.name!r} of the state home {other.home}; expected DPICL_HOME to name that "
                f"one, `dpicl state restore` with its backup, or "
                f"`dpicl budget {name} --cap CAP`, which states what may be spent here "
                f"beside it"
            )


def statement(spenders: Iterable[WitnessedAccount]) -> dict[str, dict[str, float]]:
    """What the record of a cap says of them."""
    known = {other.key: other.epsilon for other in spenders}
    return {ELSEWHERE: known} if known else {}
