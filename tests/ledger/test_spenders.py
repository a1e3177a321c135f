"""Who charged an account is told, and a person's share of its cap holds; neither is part of a
release.
"""

from __future__ import annotations

import getpass
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpicl.contract.load import contract_digest, parse_contract
from dpicl.ground.errors import (
    BudgetError,
    DeclarationError,
    LedgerError,
    ParameterError,
    PrivacyError,
)
from dpicl.home.settings import Settings
from dpicl.ledger import Account, Ledger, Spender
from dpicl.ledger.budget import UserSpent
from dpicl.ledger.fold import account_row
from tests.ledger.workload import ADD, SHOP, Place, cost, release, sha256
from tests.library.examples import tree

NIGHTLY, ANNE = Spender("nightly", "dpicl serve"), Spender("anne", "python")


def by(place: Place, spender: Spender) -> Any:
    return Ledger.open(place.url, place.key, place.anchor, by=spender)


def test_who_charged_stays_known_to_all_who_read_the_ledger(place: Place) -> None:
    with by(place, NIGHTLY) as ledger:
        ledger.ensure_account(SHOP)
        ledger.reserve(release("a"))
    with by(place, ANNE) as ledger:
        assert not ledger.reserve(release("a")).is_new
        ledger.reserve(release("b"))
        ledger.publish(release("b").release_id, sha256("b"))
    with place.ledger() as ledger:
        ledger.verify()
        assert [entry.by for entry in ledger.entries("shop")] == [NIGHTLY, ANNE]


def shared(**shares: float) -> Account:
    """The account by a contract that states these shares."""
    return replace(SHOP, shares=tuple(sorted(shares.items())))


def test_a_share_is_reached_exactly_and_the_cap_holds_beside_it(place: Place) -> None:
    stated = shared(anne=2.0)
    with by(place, ANNE) as ledger:
        ledger.ensure_account(stated)
        ledger.reserve(release("a", cost(1.5)), stated=stated)
        told = (
            r"account 'shop': requested epsilon=1 by 'anne', who has charged 1.5 of a share of 2; "
            r"expected less, another user, or a larger share by `dpicl budget shop --share "
            "anne=EPSILON`$"
        )
        with pytest.raises(BudgetError, match=told):
            ledger.reserve(release("b", cost(1.0)), stated=stated)
        ledger.reserve(release("c", cost(0.5)), stated=stated)
        # what is paid for stays free, whatever the share
        assert not ledger.reserve(release("a", cost(1.5)), stated=shared(anne=0.0)).is_new
    with by(place, NIGHTLY) as ledger:
        assert ledger.reserve(release("b", cost(1.0)), stated=stated).is_new
        with pytest.raises(BudgetError, match="of cap 5, left 2"):
            ledger.reserve(release("d", cost(2.5)), stated=stated)
        assert ledger.spent("shop").epsilon == 3
        assert ledger.spent_by_users("shop") == [
            UserSpent("anne", 2, 2.0, 2.0),
            UserSpent("nightly", 1, 1.0, None),
        ]
    with by(place, ANNE) as ledger:
        # others' charges stay free for everybody, and what costs nothing for her
        assert not ledger.reserve(release("b", cost(1.0)), stated=stated).is_new
        ledger.set_share("shop", "anne", 0.5)
        assert ledger.reserve(release("free", cost(0.0)), stated=stated).is_new


@pytest.mark.parametrize("stated", [None, SHOP, shared(anne=4.0), shared(nightly=1.0)])
def test_a_share_holds_whichever_contract_charges(place: Place, stated: Account | None) -> None:
    """Also in a ledger that was open before the share was stated."""
    told = "'anne', who has charged 0 of a share of 0.5"
    with by(place, ANNE) as twin, by(place, NIGHTLY) as first:
        first.ensure_account(shared(anne=0.5))
        first.reserve(release("a"), stated=shared(anne=0.5))
        with pytest.raises(BudgetError, match=told):
            twin.check_share("shop", [cost(0.6)])
        with pytest.raises(BudgetError, match=told):
            twin.reserve(release("b", cost(0.6)), stated=stated)
        assert dict(twin.accounts()[0].shares) == {"anne": 0.5}
        assert twin.reserve(release("b", cost(0.5)), stated=stated).is_new


def test_a_share_is_lowered_by_a_charge_alone_and_raised_by_a_command_alone(place: Place) -> None:
    with by(place, ANNE) as ledger:
        ledger.ensure_account(shared(anne=2.0))
        ledger.reserve(release("a", cost(0.4)), stated=shared(anne=2.0))
        # a refused charge changes nothing; a trial foresees it
        trial = ledger.trial()
        trial.ensure_account(shared(anne=0.5))
        with pytest.raises(BudgetError, match="of a share of 0.5"):
            trial.check_share("shop", [cost(0.2)])
        with pytest.raises(BudgetError, match="of a share of 0.5"):
            ledger.reserve(release("b", cost(0.2)), stated=shared(anne=0.5))
        ledger.ensure_account(shared(anne=0.5))
        assert ledger.accounts() == [shared(anne=2.0)]
        ledger.reserve(release("b", cost(0.1)), stated=shared(anne=0.5))
        ledger.reserve(release("c", cost(0.0)), stated=shared(anne=2.0))
        assert ledger.accounts() == [shared(anne=0.5)]
        ledger.set_share("shop", "anne", 1.0)
    with by(place, ANNE) as ledger:
        # decided over contracts that said this
        ledger.reserve(release("d", cost(0.1)), stated=shared(anne=0.5))
        assert ledger.accounts() == [shared(anne=1.0)]
        ledger.reserve(release("e", cost(0.1)), stated=shared(anne=0.8, nightly=3.0))
        assert ledger.accounts() == [shared(anne=0.8, nightly=3.0)]
        ledger.verify()


def test_a_share_that_a_command_cannot_set_is_refused(place: Place) -> None:
    with by(place, ANNE) as ledger:
        ledger.ensure_account(SHOP)
        ledger.ensure_account(Account("public", "row", ADD, benchmark=True))
        for share in (-1.0, math.nan, math.inf):
            with pytest.raises(ParameterError, match="a finite number >= 0"):
                ledger.set_share("shop", "anne", share)
        with pytest.raises(LedgerError, match="account 'nobody' is not open"):
            ledger.set_share("nobody", "anne", 1.0)
        with pytest.raises(PrivacyError, match="has no cap to share"):
            ledger.set_share("public", "anne", 1.0)
        assert ledger.spent_by_users("public") == []


def test_neither_user_nor_share_is_part_of_what_a_release_is(tmp_path: Path) -> None:
    def digest(content: dict[str, Any], version: int) -> str:
        return contract_digest(parse_contract(content | {"version": version}, "a.yaml"))

    content = tree()
    privacy = content["privacy"] | {"budget": {"epsilon": 5.0}}
    shared = content["privacy"] | {"budget": {"epsilon": 5.0, "by": {"analytics": 2.0}}}
    for version in (1, 2):
        assert digest(content | {"privacy": privacy}, version) == digest(
            content | {"privacy": shared}, version
        )


@pytest.mark.parametrize(
    "budget",
    [
        {"benchmark": True, "by": {"anne": 1}},
        {"epsilon": 5, "by": {"anne": -1}},
        {"epsilon": 3, "by": {"nightly": 3, "anne": 5}},
    ],
)
def test_a_share_that_shares_nothing_is_refused(budget: dict[str, Any]) -> None:
    content = tree()
    with pytest.raises(DeclarationError, match="by"):
        parse_contract(
            content | {"privacy": content["privacy"] | {"budget": budget}, "version": 2}, "a.yaml"
        )


def test_the_user_is_whom_the_environment_names_or_the_machine_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["/bin/dpicl", "-q", "protect", "patients-of-dr-smith"])
    monkeypatch.delenv("DPICL_USER", raising=False)
    settings = Settings.from_environment()
    assert (settings.user, settings.command) == (getpass.getuser(), "dpicl protect")
    for typed, command in (
        (["/lib/dpicl/__main__.py", "synth"], "dpicl synth"),
        (["/lib/tool/__main__.py", "patient-17.csv"], "tool"),
        (["-c", "patient-17.csv"], "python"),
        ([""], "python"),
    ):
        monkeypatch.setattr("sys.argv", typed)
        assert Settings.from_environment().command == command
    monkeypatch.setenv("DPICL_USER", "analytics")
    assert Settings.from_environment().user == "analytics"


def test_an_account_of_a_program_that_knew_no_shares_is_read_and_takes_some(place: Place) -> None:
    row = account_row(SHOP)
    del row["shares"]
    with by(place, ANNE) as ledger:
        with ledger._chain.changing() as change:
            change.append("opened", row)
        assert ledger.accounts() == [SHOP]
        ledger.reserve(release("a"), stated=shared(anne=1.5))
        assert ledger.accounts() == [shared(anne=1.5)]
        with pytest.raises(BudgetError, match="of a share of 1.5"):
            ledger.reserve(release("b"), stated=SHOP)
    with place.ledger() as ledger:
        ledger.verify()
