"""What an account has spent, and what fits beside it.

Guarantee   the caller's transaction decides what is seen; `reserve` composes under lock. Releases
            are chosen one after another, each perhaps after looking at those before it, so that an
            account with a cap goes by a privacy filter (`filters`). Distributions of privacy loss
            price what is fixed beforehand: a release by itself, and the entries of benchmarks, on
            which nothing is at stake. Where another ledger of the same user was charged for the
            same rows, as its witness says, nothing more is charged until a person has stated what
            may be, knowing of what that one had spent by then.

Parts of a horizon: each period of a series is a release of its own, and costs nothing beside the
horizon that was charged with all of them.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from shlex import quote as quote_word

from dpicl.accounting.accountant import Cost, compose, compose_checked, pure_sum
from dpicl.accounting.events import (
    HORIZON_PART,
    PERIODS,
    guarantee_as_json,
    guarantee_from_json,
    horizon_part,
)
from dpicl.accounting.filters import Spent
from dpicl.accounting.guarantee import Guarantee, Neighbours, to_replace_one
from dpicl.ground.errors import (
    BudgetError,
    ChargedElsewhereError,
    LedgerRefusedError,
    PrivacyError,
)
from dpicl.ledger import accounts
from dpicl.ledger.fold import Account, AccountState, Charge, Fold, Quote, ReleaseCharge
from dpicl.ledger.keys import canonical
from dpicl.ledger.witness import WitnessedAccount

CLIENT = "client"
"""Unit of local releases: the client who reports owns the row, or is the person of it."""


def as_paid(guarantee: Guarantee, account: Account) -> Guarantee:
    """A guarantee as an account states it: a client's for the row or person that reports, one for
    added rows twice under replace-one. Raises PrivacyError: it protects something else.
    """
    same_unit = replace(guarantee, unit=account.unit) if guarantee.unit == CLIENT else guarantee
    paid = to_replace_one(same_unit) if account.neighbours is Neighbours.REPLACE_ONE else same_unit
    check_relation(account, paid)
    return paid


def check_relation(account: Account, guarantee: Guarantee) -> None:
    """Refuse an entry that protects something else than its account."""
    if (guarantee.unit, guarantee.neighbours) != (account.unit, account.neighbours):
        raise PrivacyError(
            f"account {account.name!r} protects {account.neighbours} of one {account.unit}; "
            f"got a guarantee for {guarantee.neighbours} of one {guarantee.unit}"
        )


def quote(fold: Fold, name: str, extra: Sequence[Guarantee]) -> Quote:
    """An account's total before and after `extra`, and what that costs alone."""
    account = fold.account(name).account
    for guarantee in extra:
        check_relation(account, guarantee)
    return Quote(
        compose(extra, delta=account.delta_cap),
        total(fold, name),
        total(fold, name, extra),
        account.epsilon_cap,
        _cap_reason(fold, name),
    )


def total(fold: Fold, name: str, extra: Sequence[Guarantee] = ()) -> Cost:
    """What an account has spent, and `extra`."""
    state = fold.account(name)
    account = state.account
    spent = state.total
    if not account.benchmark:
        for guarantee in extra:
            spent = spent.plus(guarantee)
        return spent.cost(account.delta_cap)
    # All entries composed as if they had been fixed beforehand; pure ones are summed without
    # reading their events.
    charges = [charge for charge in fold.charges.values() if charge.account == name]
    costs = [(charge.epsilon, charge.delta) for charge in charges]
    costs += [(guarantee.epsilon, guarantee.delta) for guarantee in extra]
    if not any(delta for _, delta in costs):
        return pure_sum(list(Counter(epsilon for epsilon, _ in costs).items()))
    written = Counter(charge.guarantee for charge in charges)
    counts = Counter(
        {guarantee_from_json(json.loads(text)): count for text, count in written.items()}
    )
    return compose_checked(counts + Counter(extra), delta=account.delta_cap)


def _cap_reason(fold: Fold, name: str) -> str:
    """Why the cap is what it is, to be said where something is refused: what closed an account, a
    restore or a lost charge, unless a command has set its cap since; or which contract lowers it.
    """
    state = fold.accounts[name]
    _, taken_utc = fold.restored
    # a contract opens nothing
    if state.row["epsilon_cap"] != 0 or state.capped_by[1] > fold.anew.sequence:
        return f"; {sentence}" if (sentence := lowering_sentence(state)) else ""
    if taken_utc:
        return f"; closed by the restore of a backup of {taken_utc}"
    return "; closed since a charge is lost, perhaps one of its own" if fold.is_incomplete else ""


def lowering_sentence(state: AccountState) -> str:
    """Which contract lowers the caps of an account, and from what; empty where none does."""
    lowering = state.lowering
    if lowering is None:
        return ""
    account = state.account
    with_delta = lowering.delta_cap != account.delta_cap
    before, after = (
        caps_text(caps.epsilon_cap, caps.delta_cap, with_delta=with_delta)
        for caps in (lowering, account)
    )
    return f"the contract {lowering.contract!r} lowers the cap from {before} to {after}"


def caps_text(epsilon: float | None, delta: float, *, with_delta: bool) -> str:
    """Caps in a sentence."""
    return f"{epsilon:.12g}" + (f" and delta {delta:.12g}" if with_delta else "")


def check_cap(fold: Fold, name: str, guarantee: Guarantee) -> Spent | None:
    """Refuse what does not fit; gives the account's total with it, None on a benchmark.
    Raises PrivacyError: unit or neighbours differ from the account's; BudgetError: with what was
    requested, spent, the cap and what is left.
    """
    state = fold.account(name)
    account = state.account
    check_relation(account, guarantee)
    cap = account.epsilon_cap
    if cap is None:
        return None
    spent = state.total.plus(guarantee)
    # a cap of 0 admits nothing else, not even what costs a delta alone
    is_free = not (guarantee.epsilon or guarantee.delta)
    if (cap or is_free) and spent.cost(account.delta_cap).epsilon <= cap:
        return spent
    quoted = quote(fold, name, [guarantee])
    delta = f" at delta={account.delta_cap:g}" if account.delta_cap else ""
    raise BudgetError(
        f"account {account.name!r}: requested epsilon={quoted.cost.epsilon:.6g}{delta}, spent "
        f"{quoted.before.epsilon:.6g} of cap {cap:.6g}, left "
        f"{max(0.0, cap - quoted.before.epsilon):.6g}; the total would be "
        f"{quoted.after.epsilon:.6g} ({quoted.after.method}){quoted.cap_reason}"
    )


@dataclass(frozen=True)
class UserSpent:
    """What a user has charged to an account: how many releases, what they cost together, and the
    user's share of the cap, None where there is none.
    """

    user: str
    releases: int
    epsilon: float
    share: float | None


def spent_by_users(fold: Fold, name: str) -> list[UserSpent]:
    """What each user has charged to an account with a cap, or has a share of, by name. Of Gaussian
    releases the users' totals are more together than the account's.
    """
    state = fold.account(name)
    if state.row["benchmark"]:
        return []
    charged = Counter(charge.user for charge in fold.charges_of(name))
    return [
        UserSpent(user, charged[user], _epsilon_by(fold, name, user), state.shares.get(user))
        for user in sorted({*charged, *state.shares})
    ]


def _epsilon_by(fold: Fold, name: str, user: str) -> float:
    try:
        return _spent_by(fold, name, user).cost(fold.account(name).account.delta_cap).epsilon
    except PrivacyError:  # as of two chains that were made one
        return math.inf


def _spent_by(fold: Fold, name: str, user: str, extra: Iterable[Guarantee] = ()) -> Spent:
    """What a user has charged, and what comes to it."""
    spent = Spent.nothing()
    for charge in fold.charges_of(name):
        if charge.user == user:
            spent = spent.plus(guarantee_from_json(json.loads(charge.guarantee)))
    for guarantee in extra:
        spent = spent.plus(guarantee)
    return spent


def check_share(fold: Fold, name: str, extra: Sequence[Guarantee], user: str) -> None:
    """Refuse what does not fit into a user's share of an account. What was charged by anybody, and
    what costs nothing, stays free. Raises BudgetError: with what the user has charged and the
    share.
    """
    state = fold.account(name)
    share = state.shares.get(user)
    if share is None or not any(guarantee.epsilon or guarantee.delta for guarantee in extra):
        return
    delta = state.account.delta_cap
    if _spent_by(fold, name, user, extra).cost(delta).epsilon > share:
        requested = compose(extra, delta=delta)
        before = _spent_by(fold, name, user).cost(delta)
        raise BudgetError(
            f"account {name!r}: requested epsilon={requested.epsilon:.6g} by {user!r}, who has "
            f"charged {before.epsilon:.6g} of a share of {share:.6g}; expected less, another user, "
            f"or a larger share by `dpicl budget {name} --share {quote_word(user)}=EPSILON`"
        )


def share_left(fold: Fold, name: str, extra: Sequence[Guarantee], user: str) -> float | None:
    """Epsilon that a user may charge to an account after these; None without a share."""
    state = fold.account(name)
    share = state.shares.get(user)
    if share is None:
        return None
    after = _spent_by(fold, name, user, extra).cost(state.account.delta_cap)
    return max(0.0, share - after.epsilon)


def spent_elsewhere(
    fold: Fold, name: str, others: Iterable[WitnessedAccount]
) -> list[WitnessedAccount]:
    """Of accounts of other ledgers those that have spent something for rows of this account."""
    mine = fold.addresses_of(name)
    return [
        other for other in others if accounts.are_same_rows(mine, other.addresses) and other.epsilon
    ]


def check_elsewhere(fold: Fold, name: str, others: Iterable[WitnessedAccount]) -> None:
    """Raises ChargedElsewhereError: another ledger has spent for the account's rows more than a
    person has stated to know of.
    """
    state = fold.account(name)
    if state.row["benchmark"]:
        return
    stated = state.elsewhere
    for other in spent_elsewhere(fold, name, others):
        # infinity is a text in a record
        if other.epsilon > float(stated.get(other.key, 0.0)):
            raise ChargedElsewhereError(
                f"account {name!r}: epsilon={other.epsilon:.6g} was charged for its rows in "
                f"another ledger of yours, account {other.name!r} of the state home {other.home}; "
                "expected DPICL_HOME to name that one, `dpicl state restore` with its backup, or "
                f"`dpicl budget {name} --cap CAP`, which states what may be spent here beside it"
            )


def check_part(fold: Fold, account: Account, release: ReleaseCharge) -> Spent:
    """What the account has spent, which a part leaves as it is.
    Raises LedgerRefusedError: the part belongs to no horizon of the account that can go on;
    PrivacyError: it protects something else.
    """
    check_relation(account, release.guarantee)
    horizon = check_goes_on(fold, account, release)
    index = dict(release.guarantee.event.parameters).get("index")
    periods = json.loads(horizon.parameters).get(PERIODS)
    if type(periods) is not int or type(index) is not int or not 1 <= index <= periods:
        raise LedgerRefusedError(
            f"account {account.name!r}: period {index} of a horizon of {periods}; expected 1 to "
            f"{periods}"
        )
    if release.guarantee.event != horizon_part(horizon.release_id, index):
        raise LedgerRefusedError(
            f"account {account.name!r}: period {index} of this horizon says more than which one it "
            f"is; expected a part that costs nothing beside the horizon"
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


def check_goes_on(fold: Fold, account: Account, release: ReleaseCharge) -> Charge:
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
            "after this horizon had begun, and which of its periods were drawn since is not known; "
            "what stands can be used, and a new horizon (`releases.first`) is a new charge"
        )
