"""What an account has spent, and what fits beside it.

Guarantee   the caller's transaction decides what is seen; `reserve` composes under lock. Releases
            are chosen one after another, each perhaps after looking at those before it, so that an
            account with a cap goes by a privacy filter (`filters`). Distributions of privacy loss
            price what is fixed beforehand: a release by itself, and the entries of benchmarks, on
            which nothing is at stake.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, func, select

from dpicl.accounting.accountant import Cost, compose, compose_checked, pure_sum
from dpicl.accounting.events import guarantee_from_json
from dpicl.accounting.filters import Spent
from dpicl.accounting.guarantee import Guarantee, Neighbours, to_replace_one
from dpicl.accounting.ledger.models import entries
from dpicl.accounting.ledger.restoring import closed_by
from dpicl.accounting.ledger.rows import spent_of
from dpicl.accounting.ledger.values import Account, Quote
from dpicl.errors import BudgetError, PrivacyError

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


def quote(connection: Connection, account: Account, extra: Sequence[Guarantee]) -> Quote:
    """The account's total before and after `extra`, and what that costs alone."""
    for guarantee in extra:
        check_relation(account, guarantee)
    alone = compose(extra, delta=account.delta_cap)
    why = closed_by(connection, account)
    return Quote(
        alone,
        total(connection, account),
        total(connection, account, extra),
        account.epsilon_cap,
        why,
    )


def total(connection: Connection, account: Account, extra: Sequence[Guarantee] = ()) -> Cost:
    """What the account has spent, and `extra`."""
    if not account.benchmark:
        spent = spent_of(connection, account.name)
        for guarantee in extra:
            spent = spent.plus(guarantee)
        return spent.cost(account.delta_cap)
    # All entries composed as if they had been fixed beforehand; pure ones are summed without
    # reading their events.
    mine = entries.c.account == account.name
    by_cost = (
        select(entries.c.delta, entries.c.epsilon, func.count())
        .where(mine)
        .group_by(entries.c.delta, entries.c.epsilon)
    )
    costs = [tuple(row) for row in connection.execute(by_cost)]
    if not any(delta for delta, _, _ in costs) and not any(guarantee.delta for guarantee in extra):
        return pure_sum(
            [
                *((epsilon, count) for _, epsilon, count in costs),
                *((guarantee.epsilon, 1) for guarantee in extra),
            ]
        )
    by_event = select(entries.c.guarantee, func.count()).where(mine).group_by(entries.c.guarantee)
    counts = Counter(
        {
            guarantee_from_json(json.loads(written)): count
            for written, count in connection.execute(by_event)
        }
    )
    return compose_checked(counts + Counter(extra), delta=account.delta_cap)


def check_cap(connection: Connection, account: Account, guarantee: Guarantee) -> Spent | None:
    """Refuse what does not fit; gives the account's total with it, None on a benchmark.
    Raises PrivacyError: unit or neighbours differ from the account's; BudgetError: with what was
    requested, spent, the cap and what is left.
    """
    check_relation(account, guarantee)
    cap = account.epsilon_cap
    if cap is None:
        return None
    spent = spent_of(connection, account.name).plus(guarantee)
    # a cap of 0 admits nothing else, not even what costs a delta alone
    is_free = not (guarantee.epsilon or guarantee.delta)
    if (cap or is_free) and spent.cost(account.delta_cap).epsilon <= cap:
        return spent
    quoted = quote(connection, account, [guarantee])
    delta = f" at delta={account.delta_cap:g}" if account.delta_cap else ""
    raise BudgetError(
        f"account {account.name!r}: requested epsilon={quoted.cost.epsilon:.6g}{delta}, spent "
        f"{quoted.before.epsilon:.6g} of cap {cap:.6g}, "
        f"left {max(0.0, cap - quoted.before.epsilon):.6g}; the total would be "
        f"{quoted.after.epsilon:.6g} ({quoted.after.method})"
        f"{quoted.closed_by}"
    )
