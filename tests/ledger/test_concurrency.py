"""Processes and threads that spend one account at once neither overspend it nor pay twice."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from dpicl.ground.errors import BudgetError, LedgerError
from dpicl.ledger import Account, Reservation, database
from lab.benchmarks.guarantees.spenders import spend_together
from tests.ledger.workload import ADD, KEY, SHOP, Place, release


def test_sixteen_processes_fill_an_account_to_its_cap_and_no_further(place: Place) -> None:
    outcome = spend_together(place.url, KEY, place.anchor, spenders=16, releases=20)
    assert (outcome.overspends, outcome.duplicates, outcome.torn_releases) == (0, 0, 0)
    assert outcome.entries == outcome.charges == outcome.capacity
    assert outcome.spent == outcome.cap
    assert outcome.refusals > 0


@pytest.mark.quick("sqlite")
def test_threads_that_share_a_ledger_charge_one_release_once(place: Place) -> None:
    answers: list[Reservation] = []
    together = threading.Barrier(16)
    with place.ledger() as ledger:
        ledger.ensure_account(SHOP)

        def ask() -> None:
            together.wait()
            answers.append(ledger.reserve(release("a")))

        _in_threads(ask)
        assert sorted(answer.is_new for answer in answers) == [False] * 15 + [True]
        assert ledger.spent("shop").epsilon == 1


def test_a_ledger_that_another_program_holds_is_named_and_works_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_WAIT_SECONDS", 0.1)
    place = Place(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path)
    with place.ledger() as ledger, closing(sqlite3.connect(tmp_path / "ledger.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="ledger.db: database is locked"):
            ledger.ensure_account(SHOP)
        other.rollback()
        ledger.ensure_account(SHOP)
        assert ledger.verify() == 1


def test_threads_on_several_accounts_keep_one_chain(place: Place) -> None:
    """Accounts are locked one by one, the chain for all: no deadlock, no gap."""
    names = [f"account-{number}" for number in range(4)]
    turns = iter(range(16))
    with place.ledger() as ledger:
        for name in names:
            ledger.ensure_account(Account(name, "row", ADD, epsilon_cap=6.0))
        refused = []

        def spend() -> None:
            turn = next(turns)
            for step in range(8):
                try:
                    ledger.reserve(release(f"{turn}-{step}", account=names[(turn + step) % 4]))
                except BudgetError:
                    refused.append(1)

        _in_threads(spend)
        assert [ledger.spent(name).epsilon for name in names] == [6.0] * 4
        assert len(refused) == 16 * 8 - 4 * 6
        assert ledger.verify() == 4 + 4 * 6


def test_a_check_waits_for_no_writer_and_sees_one_state(place: Place) -> None:
    """What is not committed yet is no part of it."""
    with place.ledger() as ledger, place.ledger(anchor=place.folder / "other.json") as watching:
        ledger.ensure_account(SHOP)
        with ledger._chain.changing() as change:
            change.append("cap", {"account": "shop", "epsilon_cap": 1.0, "delta_cap": 0.0})
            assert watching.verify() == 1


def _in_threads(target: object) -> None:
    threads = [threading.Thread(target=target) for _ in range(16)]  # type: ignore[arg-type]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
