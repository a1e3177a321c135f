"""After an upgrade the ledger names what an advisory is about, and says "none" where there is
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpicl.accounting.guarantee import Guarantee
from dpicl.accounting.ledger import Account, Release, earlier_release_id
from dpicl.contract.load import contract_digest
from dpicl.engine.affected import affected
from dpicl.engine.open_ledger import ledger_key, open_ledger
from dpicl.engine.settings import Settings
from tests.harness import Place, new_place, said, shop
from tests.ledger import workload
from tests.ledger.earlier import write_old
from tests.ledger.workload import ADD, REPLACE, cost


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """An installation with a private contract that has a random split."""
    found = new_place(tmp_path / "place")
    install(found)
    with found.entered():
        yield found


def install(place: Place, **split: Any) -> None:
    contract = shop()
    contract["privacy"] = {**contract["privacy"], "budget": {"epsilon": 1000}}
    contract["split"] = split or {"test_fraction": 0.25, "evaluation_epsilon": 1.0}
    contract.pop("queries", None)
    (place.root / "contracts" / "shop.yaml").write_text(yaml.safe_dump(contract))


def old(
    settings: Settings,
    account: str,
    method: str,
    guarantee: Guarantee,
    version: str,
    **parameters: Any,
) -> Release:
    """A release as it was named."""
    given = {
        "account": account,
        "content_version": version,
        "mechanism": method,
        "parameters": {"shots": 1, **parameters},
        "neighbours": guarantee.neighbours,
    }
    name = earlier_release_id(
        ledger_key(settings),
        mechanism_version=1,
        contract_digest=contract_digest(settings.declared("shop")),
        **given,
    )
    return Release(name, account, method, given["parameters"], guarantee, version)


def written(accounts: list[Account], releases: list[Release]) -> None:
    settings = Settings.from_environment()
    write_old(
        workload.Place(
            f"sqlite:///{settings.home / 'ledger.db'}",
            settings.home,
            "ledger.anchor.json",
            ledger_key(settings),
        ),
        accounts,
        [(one, None) for one in releases],
    )


SHOP = Account("shop", "row", ADD, 4.0)


def test_a_new_installation_has_none(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    with open_ledger(Settings.from_environment()) as ledger:
        ledger.ensure_account(SHOP, ["file:/x"])
        ledger.reserve(workload.release("new"))
    told = said(capsys, "ledger", "affected")
    assert [line.rsplit(": ", 1)[1] for line in told.splitlines()] == ["none"] * 3


def test_releases_of_a_random_split_are_named(place: Place) -> None:
    settings = Settings.from_environment()
    split, exchanged, local = (
        old(settings, "shop", "mst_tabicl", cost(1.0), "v", epsilon=1),
        old(settings, "other", "mst_tabicl", cost(1.0, REPLACE), "v2", epsilon=1),
        old(settings, "shop-clients", "ldp_tabicl", cost(1.0, REPLACE, "client"), "v", epsilon=1),
    )
    accounts = [
        SHOP,
        Account("other", "row", REPLACE, 4.0),
        Account("shop-clients", "client", REPLACE, 4.0),
    ]
    written(accounts, [split, exchanged, local])
    (told,) = affected(settings)["1, the random split"]
    assert (
        split.release_id[:12] in told
        and "protects less than its epsilon says" in told
        and "another contract" not in told
    )


def test_of_a_contract_that_has_changed_it_is_said(place: Place) -> None:
    settings = Settings.from_environment()
    made = old(settings, "shop", "gdp_tabicl", cost(1.0), "v", epsilon=1)
    install(place, test_fraction=0.5, evaluation_epsilon=1.0)
    written([SHOP], [made])
    (told,) = affected(settings)["1, the random split"]
    assert made.release_id[:12] in told and "made under another contract than today's" in told


def test_accounts_of_several_states_and_accounts_that_were_joined_are_named(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings.from_environment()
    accounts = [SHOP, Account("shop-clients", "client", REPLACE, 3.0)]
    releases = [
        old(settings, "shop", "gdp_tabicl", cost(0.5), "v", epsilon=1),
        old(settings, "shop", "gdp_tabicl", cost(0.5), "v2", epsilon=1),
        old(settings, "shop-clients", "ldp_tabicl", cost(1.0, REPLACE, "client"), "v", epsilon=1),
    ]
    written(accounts, releases)
    told = said(capsys, "ledger", "affected")
    assert "account shop: has 3 releases of 2 states of its rows" in told
    assert "its rows had 2 accounts (shop spent 1 of cap 4; shop-clients spent 1 of cap 3)" in told
    assert "together they have spent 3, and the cap is 3 now" in told
