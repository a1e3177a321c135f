"""Who charged an account is told, and a person's share of its cap holds; neither is part of a
release.
"""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

import pytest

from dpicl.contract.load import contract_digest, parse_contract
from dpicl.ground.errors import BudgetError, DeclarationError
from dpicl.home.settings import Settings
from dpicl.ledger import Ledger, Spender
from tests.ledger.workload import SHOP, Place, cost, release, sha256
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


def test_a_share_is_reached_exactly_and_the_cap_holds_beside_it(place: Place) -> None:
    shares = {"anne": 2.0}
    with by(place, ANNE) as ledger:
        ledger.ensure_account(SHOP)
        ledger.reserve(release("a", cost(1.5)), shares=shares)
        told = (
            r"account 'shop': requested epsilon=1 by 'anne', who has charged 1.5 of a share of 2; "
            r"expected less, another user, or a larger share .*`privacy: {budget: {by: {anne: "
        )
        with pytest.raises(BudgetError, match=told):
            ledger.reserve(release("b", cost(1.0)), shares=shares)
        ledger.reserve(release("c", cost(0.5)), shares=shares)
        # what is paid for stays free, whatever the share
        assert not ledger.reserve(release("a", cost(1.5)), shares={"anne": 0.0}).is_new
    with by(place, NIGHTLY) as ledger:
        assert ledger.reserve(release("b", cost(1.0)), shares=shares).is_new
        with pytest.raises(BudgetError, match="of cap 5, left 2"):
            ledger.reserve(release("d", cost(2.5)), shares=shares)
        assert ledger.spent("shop").epsilon == 3
    with by(place, ANNE) as ledger:
        # others' charges stay free for everybody
        assert not ledger.reserve(release("b", cost(1.0)), shares=shares).is_new


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
    "budget", [{"benchmark": True, "by": {"anne": 1}}, {"epsilon": 5, "by": {"anne": -1}}]
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
