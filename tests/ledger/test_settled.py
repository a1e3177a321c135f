"""A ledger of before: accounts of the same rows become one, and nobody may spend more than
before.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.accounting.accountant import price
from dpicl.accounting.events import gaussian
from dpicl.accounting.guarantee import Guarantee, Neighbours
from dpicl.accounting.ledger import Account, Ledger, Release
from dpicl.accounting.ledger.keys import keyed_hash
from dpicl.errors import BudgetError, PrivacyError
from tests.ledger.earlier import write_old
from tests.ledger.workload import ADD, KEY, REPLACE, Place, cost, release, sha256

Old = tuple[Sequence[Account], Sequence[tuple[Release, str | None]]]


def old(
    name: str, account: str, guarantee: Guarantee, version: str = "v1", **parameters: str
) -> Release:
    """A release whose name held a version of the rows."""
    return Release(
        keyed_hash(KEY, "old", name), account, "noisy-mean", parameters, guarantee, version
    )


def local(epsilon: float) -> Guarantee:
    return cost(epsilon, REPLACE, "client")


SHOP, CLIENTS = Account("shop", "row", ADD, 4.0), Account("shop-clients", "client", REPLACE, 3.0)


@pytest.mark.quick("sqlite")
def test_an_account_and_that_of_its_clients_become_one(place: Place) -> None:
    """The smaller cap; what was paid for added rows counts twice for exchanged ones."""
    write_old(
        place,
        [CLIENTS, SHOP],
        [(old("a", "shop", cost(0.5)), sha256("a")), (old("b", "shop-clients", local(1.0)), None)],
    )
    with place.ledger() as ledger:
        assert ledger.accounts() == [Account("shop", "row", REPLACE, 3.0)]
        assert ledger.spent("shop").epsilon == 2.0 and ledger.payer("shop-clients") == "shop"
        assert [entry.release.account for entry in ledger.entries("shop")] == [
            "shop",
            "shop-clients",
        ]
        assert [reading.total.epsilon for reading in ledger.odometer("shop")] == [1.0, 2.0]
        assert (
            ledger.ensure_account(Account("shop", "row", REPLACE, 4.0), ["file:/shop"]).epsilon_cap
            == 3.0
        )
        assert (
            ledger.ensure_account(Account("shop-clients", "row", REPLACE, 4.0), ["file:/shop"]).name
            == "shop"
        )
        with pytest.raises(PrivacyError, match="neighbours=replace-one, not add-or-remove-one"):
            ledger.ensure_account(Account("shop", "row", ADD, 4.0), ["file:/shop"])
        ledger.reserve(release("new", cost(1.0, REPLACE)))
        with pytest.raises(BudgetError, match="spent 3 of cap 3"):
            ledger.reserve(release("more", cost(0.001, REPLACE)))
        with pytest.raises(PrivacyError, match="account 'shop' pays for its rows"):
            ledger.reserve(release("there", cost(0.5, REPLACE, "client"), account="shop-clients"))
        ledger.verify()


@pytest.mark.quick("sqlite")
def test_clients_alone_take_the_unit_of_their_contract(place: Place) -> None:
    write_old(place, [CLIENTS], [(old("b", "shop-clients", local(1.0)), None)])
    with place.ledger() as ledger:
        asked = Account("shop", "person", REPLACE, 3.0)
        assert ledger.ensure_account(asked, ["file:/shop"]) == asked
        ledger.reserve(release("new", cost(1.5, REPLACE, "person")))
        assert ledger.spent("shop").epsilon == 2.5 and ledger.verify() == 6
    with place.ledger() as ledger:
        assert ledger.spent("shop").epsilon == ledger.odometer("shop")[-1].total.epsilon == 2.5


def test_renamed_copies_of_the_same_rows_become_one(place: Place) -> None:
    """They have released under one version of the rows; a third one is joined through the
    second.
    """
    accounts = [
        Account(name, "row", ADD, cap)
        for name, cap in (("one", 5.0), ("two", 2.0), ("three", 9.0), ("apart", 1.0))
    ]
    charged = [
        ("a", "one", "v1"),
        ("b", "two", "v1"),
        ("c", "two", "v2"),
        ("d", "three", "v2"),
        ("e", "apart", "v3"),
    ]
    write_old(
        place,
        accounts,
        [(old(name, account, cost(0.25), version), None) for name, account, version in charged],
    )
    with place.ledger() as ledger:
        assert {account.name: account.epsilon_cap for account in ledger.accounts()} == {
            "one": 2.0,
            "apart": 1.0,
        }
        assert (ledger.spent("one").epsilon, ledger.spent("apart").epsilon) == (1.0, 0.25)
        assert {ledger.payer(name) for name in ("one", "two", "three")} == {"one"}


@pytest.mark.parametrize("case", ["two units", "no curve"])
def test_where_there_is_no_total_nothing_more_is_charged(place: Place, case: str) -> None:
    accounts = [
        Account("one", "row", ADD, 5.0),
        Account("two", "person" if case == "two units" else "row", ADD, 5.0),
    ]
    odd = cost(1.0, ADD, "person") if case == "two units" else cost(1.0, ADD, "household")
    write_old(place, accounts, [(old("a", "one", cost(1.0)), None), (old("b", "two", odd), None)])
    with place.ledger() as ledger:
        assert [(account.name, account.epsilon_cap) for account in ledger.accounts()] == [
            ("one", 0.0)
        ]
        assert len(ledger.odometer("one")) == 2
        assert (
            ledger.ensure_account(Account("one", "row", ADD, 5.0), ["file:/x"]).epsilon_cap == 0.0
        )
        with pytest.raises(BudgetError):
            ledger.reserve(release("new", cost(0.001), account="one"))
        ledger.verify()


def test_an_account_of_which_nothing_was_charged_keeps_following_its_contract(place: Place) -> None:
    write_old(place, [Account("shop", "row", ADD, 5.0)], [])
    with place.ledger() as ledger:
        assert ledger.ensure_account(Account("shop", "row", REPLACE, 7.0), ["file:/x"]) == Account(
            "shop", "row", REPLACE, 7.0
        )


def test_of_releases_of_before_nobody_knows_whether_they_began(place: Place) -> None:
    write_old(place, [SHOP], [(old("a", "shop", cost(1.0), writer="one"), None)])
    with place.ledger() as ledger:
        assert not ledger.take_up(
            Release("f" * 64, "shop", "noisy-mean", {"writer": "two"}, cost(1.0)),
            differing=["writer"],
        )


def test_accounts_of_before_are_bound_before_another_contract_takes_their_rows(
    place: Place,
) -> None:
    write_old(
        place,
        [SHOP, CLIENTS],
        [(old("a", "shop", cost(1.0)), None), (old("b", "shop-clients", local(0.5)), None)],
    )
    with place.ledger() as ledger:
        assert ledger.unplaced() == {"shop": ["shop", "shop-clients"]}
        ledger.bind("shop", ["file:/rows"])
        assert ledger.unplaced() == {}
        assert (
            ledger.ensure_account(Account("copy", "row", REPLACE, 50.0), ["file:/rows"]).name
            == "shop"
        )
        ledger.bind("shop", ["file:/rows/part"])
        assert ledger.addresses("shop") == ["account:shop-clients", "file:/rows"], (
            "bound to it already"
        )


names = st.sampled_from(["a", "a-clients", "b", "b-clients", "c"])
amounts = st.sampled_from([0.0, 0.125, 0.5, 1.0, 2.5])


@st.composite
def ledgers(draw: st.DrawFn) -> Old:
    chosen = draw(st.lists(names, min_size=1, unique=True))
    accounts, charged = [], []
    for name in chosen:
        is_local = name.endswith("-clients")
        unit = "client" if is_local else draw(st.sampled_from(["row", "row", "row", "person"]))
        neighbours = REPLACE if is_local else draw(st.sampled_from([ADD, REPLACE]))
        delta = draw(st.sampled_from([0.0, 1e-5, 1e-6]))
        accounts.append(
            Account(name, unit, neighbours, draw(st.sampled_from([0.5, 1.0, 4.0, 20.0])), delta)
        )
        for number in range(draw(st.integers(0, 3))):
            guarantee = cost(draw(amounts), neighbours, unit)
            if delta and not is_local and draw(st.booleans()):
                guarantee = price(gaussian(sigma=5.0), neighbours=neighbours, unit=unit, delta=1e-6)
            charged.append(
                (
                    old(
                        f"{name}-{number}",
                        name,
                        guarantee,
                        draw(st.sampled_from(["v1", "v2", "v3", ""])),
                    ),
                    None,
                )
            )
    return accounts, charged


@settings(max_examples=25)
@given(ledgers())
def test_nobody_may_spend_more_than_before(content: Old) -> None:
    """The cap of no account grows, what is left of it does not either, and all of a group spend it
    together.
    """
    accounts, charged = content
    with tempfile.TemporaryDirectory() as folder:
        place = Place(f"sqlite:///{folder}/ledger.db", Path(folder))
        write_old(place, accounts, charged)
        with place.ledger() as ledger:
            now = {account.name: account for account in ledger.accounts()}
            for account in accounts:
                payer = now[ledger.payer(account.name)]
                assert (
                    payer.epsilon_cap is not None
                    and account.epsilon_cap is not None
                    and payer.epsilon_cap <= account.epsilon_cap
                )
                assert payer.delta_cap <= account.delta_cap or not account.delta_cap
                pure = sum(
                    one.guarantee.epsilon
                    for one, _ in charged
                    if one.account == account.name and not one.guarantee.delta
                )
                assert _left(ledger, payer) <= max(0.0, account.epsilon_cap - pure), account
            _check_shared(ledger, now, charged)
            assert ledger.verify() == len(accounts) + len(charged) + 1


def _left(ledger: Ledger, account: Account) -> float:
    assert account.epsilon_cap is not None
    return (
        0.0
        if account.epsilon_cap == 0
        else max(0.0, account.epsilon_cap - ledger.spent(account.name).epsilon)
    )


def _check_shared(
    ledger: Ledger, now: dict[str, Account], charged: Sequence[tuple[Release, str | None]]
) -> None:
    """What was charged under one version of the rows, or one name, is in one account, at its price
    or twice it.
    """
    payers: dict[str, set[str]] = {}
    for one, _ in charged:
        for mark in (
            one.account.removesuffix("-clients"),
            *([one.content_version] if one.content_version else []),
        ):
            payers.setdefault(mark, set()).add(ledger.payer(one.account))
    assert all(len(found) == 1 for found in payers.values())
    for name, account in now.items():
        mine = [
            one
            for one, _ in charged
            if ledger.payer(one.account) == name and not one.guarantee.delta
        ]
        twice = account.neighbours is Neighbours.REPLACE_ONE
        owed = sum(
            one.guarantee.epsilon * (2 if twice and one.guarantee.neighbours is ADD else 1)
            for one in mine
        )
        assert account.epsilon_cap == 0 or ledger.spent(name).epsilon >= owed - 1e-9
