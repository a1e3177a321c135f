"""`dpicl ledger affected` names what was released before this version and told more than stated, by account."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, text

from dpicl.accounting.guarantee import Neighbours
from dpicl.accounting.ledger import Account, Release
from tasks.affected import affected
from tasks.releases import address_of, open_ledger
from tasks.settings import Settings
from tests.harness import install, new_place, shop, shop_rows
from tests.ledger.workload import cost

ADD = Neighbours.ADD_OR_REMOVE_ONE


@pytest.fixture
def settings(tmp_path):
    place = new_place(tmp_path / "place")
    contract = shop(private=True)
    contract.pop("queries")
    contract["split"] = {"test_fraction": 0.2}
    install(place, contract, shop_rows(20))
    with place.entered():
        yield Settings.from_environment()


def test_none_where_nothing_was_released_before(settings: Settings) -> None:
    with open_ledger(settings) as ledger:
        ledger.ensure_account(Account("shop", "row", ADD, 5.0))
        ledger.reserve(Release("a" * 64, "shop", "gdp_tabicl", {}, cost(1.0)))
    assert affected(settings) == []


def test_each_hole_is_told_of_the_account_that_it_touched(settings: Settings) -> None:
    with open_ledger(settings) as ledger:
        ledger.ensure_account(Account("shop", "row", ADD, 5.0))
        for name in "ab":
            ledger.reserve(Release(name * 64, "shop", "gdp_tabicl", {}, cost(1.0)))
    engine = create_engine(address_of(settings))  # as a version of before left them: names that held the rows' state
    with engine.begin() as connection:
        connection.execute(text("UPDATE entries SET content_version = release_id"))
    engine.dispose()
    split, names = affected(settings)
    assert split.startswith("account shop: 2 releases of a table whose rows were held out at random")
    assert names.startswith("account shop: 2 releases of 2 states of the rows")
