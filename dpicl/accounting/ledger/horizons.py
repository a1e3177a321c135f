"""Parts of a horizon: each period of a series is a release of its own, and costs nothing beside the
horizon that was charged with all of them.

Guarantee   a part is accepted only where its horizon is charged to the same account, is whole by
            the chain, has a period of that number that no other release is, and was charged in this
            ledger: of one that a backup or receipts have brought back nobody knows which periods
            were drawn since, so that another draw of one might be a second one. `reserve` checks
            this in the transaction that notes the part.
"""

from __future__ import annotations

import json

from dpicl.accounting.events import HORIZON_PART, PERIODS, guarantee_as_json
from dpicl.accounting.filters import Spent
from dpicl.accounting.ledger.budget import check_relation
from dpicl.accounting.ledger.fold import Charge, Fold
from dpicl.accounting.ledger.keys import canonical
from dpicl.accounting.ledger.values import Account, Release
from dpicl.errors import LedgerRefusedError


def check_part(fold: Fold, account: Account, release: Release) -> Spent:
    """What the account has spent, which a part leaves as it is.
    Raises LedgerRefusedError: the part belongs to no horizon of the account that can go on;
    PrivacyError: it protects something else.
    """
    check_relation(account, release.guarantee)
    horizon = check_goes_on(fold, account, release)
    index, periods = (
        dict(release.guarantee.event.parameters).get("index"),
        json.loads(horizon.parameters).get(PERIODS),
    )
    if type(periods) is not int or type(index) is not int or not 1 <= index <= periods:
        raise LedgerRefusedError(
            f"account {account.name!r}: period {index} of a horizon of {periods}; expected 1 to "
            f"{periods}"
        )
    event = json.loads(canonical(guarantee_as_json(release.guarantee)))["event"]
    for charge in fold.charges_of(account.name):
        named = horizon.release_id in charge.guarantee
        if named and json.loads(charge.guarantee)["event"] == event:
            raise LedgerRefusedError(
                f"account {account.name!r}: period {index} of this horizon is charged under "
                f"another name; it is drawn once"
            )
    return fold.accounts[account.name].total


def check_goes_on(fold: Fold, account: Account, release: Release) -> Charge:
    """The charge of a part's horizon. Raises LedgerRefusedError: there is none on the account, or
    it is not known to have drawn no more than is here.
    """
    guarantee = release.guarantee
    horizon = dict(guarantee.event.parameters).get("horizon")
    is_free = not guarantee.epsilon and not guarantee.delta and guarantee.event.kind == HORIZON_PART
    charge = fold.charges.get(str(horizon)) if is_free else None
    if (
        account.benchmark
        or charge is None
        or (charge.account, charge.mechanism) != (account.name, release.mechanism)
    ):
        raise LedgerRefusedError(
            f"account {account.name!r}: a part of a horizon that is not charged to it; expected "
            f"the horizon's charge first"
        )
    check_kept(fold, charge)
    return charge


def check_kept(fold: Fold, horizon: Charge) -> None:
    """Raises LedgerRefusedError: the ledger came back after this horizon was charged."""
    if horizon.number < fold.anew.sequence:
        raise LedgerRefusedError(
            f"account {horizon.account!r}: its ledger came back from a backup or from receipts "
            f"after this horizon had begun, and which of its "
            f"periods were drawn since is not known; what stands can be used, and a new horizon "
            f"(`releases.first`) is a new charge"
        )
