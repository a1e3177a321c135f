"""A user whose ledger is on a server, or shall be: a refusal names the ledger that was read, by
what it was named, and the way to move it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dpicl.ground.errors import LedgerRefusedError
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.installation.check import findings
from dpicl.installation.restore import adopt
from dpicl.ledger import Account
from tests.harness import new_place
from tests.ledger.postgres import Server
from tests.ledger.workload import ADD
from tests.tasks.test_adopt import draw

SHOP = Account("shop", "row", ADD, epsilon_cap=4.0)
NEW = "if that is a new database, `dpicl ledger adopt` rebuilds there what was spent"
FORGOTTEN = "as DPICL_LEDGER is not set"


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    """An installation with two releases, in the file of its state home."""
    with new_place(tmp_path / "place").entered():
        settings = Settings.from_environment()
        with open_ledger(settings) as ledger:
            ledger.ensure_account(SHOP, ["file:/somewhere/people.csv"])
            for name in "ab":
                draw(ledger, settings, name)
        yield settings


def refusal(settings: Settings) -> str:
    with pytest.raises(LedgerRefusedError) as refused, open_ledger(settings):
        pass
    return str(refused.value)


def test_an_empty_database_is_named_with_the_way_to_move_there(
    settings: Settings, postgres: Server
) -> None:
    """Without its password, whether anchor, witness or receipts know better."""
    moved = replace(settings, ledger=postgres.emptied())
    place = f"postgresql://dpicl:***@{postgres.host}:{postgres.port}/postgres"
    sentence = refusal(moved)
    assert f"{place} was read, as DPICL_LEDGER says; {NEW}" in sentence
    assert postgres.password not in sentence
    told = [one for one in findings(moved) if one.is_fault and NEW in one.do]
    assert told and not any(postgres.password in repr(one) for one in told)
    (settings.home / "ledger.anchor.json").unlink()
    assert place in refusal(moved) and "`dpicl ledger adopt`" in refusal(moved)


def test_a_ledger_that_has_moved_is_not_read_where_its_name_is_forgotten(
    settings: Settings, postgres: Server
) -> None:
    """As in a line of cron: the file of before is told, be it there or put aside."""
    moved = replace(settings, ledger=postgres.emptied())
    assert adopt(moved) == (2, [])
    with open_ledger(moved) as ledger:
        assert ledger.spent("shop").epsilon == 2.0
        draw(ledger, moved, "c")
    file = settings.home / "ledger.db"
    assert "rolled back" in refusal(settings)
    assert f"{file} was read, {FORGOTTEN}" in refusal(settings)
    for path in settings.home.glob("ledger.db*"):
        path.unlink()
    assert f"{file} is not there, and was looked for, {FORGOTTEN}" in refusal(settings)
