"""Whoever has the database and no key gains no budget and no second draw: what is trusted is
checked in the transaction that spends.
"""

from __future__ import annotations

import multiprocessing
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from dpicl.accounting.filters import Spent
from dpicl.ground.errors import BudgetError, LedgerError, LedgerRefusedError, PrivacyError
from dpicl.ledger import Account, Ledger, chain
from dpicl.ledger.keys import canonical
from tests.ledger.workload import ADD, REPLACE, Place, cost, release, sha256

TINY = Account("shop", "row", ADD, epsilon_cap=2.0)
OTHER = Account("other", "row", ADD, epsilon_cap=100.0)
AT = "file:/data/people.csv"
NOTHING, TWO = (
    canonical(spent.as_json()).replace('"', '\\"')
    for spent in (Spent.nothing(), Spent.nothing().plus(cost(1.0)).plus(cost(1.0)))
)


A, B, NEW = (release(name).release_id for name in ("a", "b", "new"))


def spent_out(place: Place) -> None:
    """Account shop at its cap by a (published) and b (begun), and two others: ten records."""
    with place.ledger() as ledger:
        ledger.ensure_account(TINY, [AT])
        ledger.ensure_account(OTHER, ["file:/data/other.csv"])
        for name in "ab":
            ledger.reserve(release(name))
        ledger.publish(A, sha256("a"))
        ledger.begin_drawing(B)
        ledger.ensure_account(replace(OTHER, name="third"), ["file:/data/third.csv"])


def content(number: int, old: str, new: str) -> str:
    """A statement that edits one record."""
    return (
        f"UPDATE records SET content = replace(content, '{old}', '{new}') WHERE sequence = {number}"
    )


def added(kind: str, written: str) -> str:
    """A statement that adds a record, as of somebody who has no key."""
    return f"INSERT INTO records VALUES (11, '{kind}', '{written}', '{'0' * 64}')"


_PUBLISHED = f'{{"artefact_sha256":"{sha256("x")}","published_utc":"now","release_id":"{B}"}}'
AT_THE_END = {
    "the last record's content": content(10, "third", "other"),
    "the last record's hash": f"UPDATE records SET hash = '{'0' * 64}' WHERE sequence = 10",
    "the last record's kind": "UPDATE records SET kind = 'cap' WHERE sequence = 10",
    "the last record forgotten": "DELETE FROM records WHERE sequence = 10",
    "the last records forgotten": "DELETE FROM records WHERE sequence > 5",
    "all records forgotten": "DELETE FROM records",
    "the record before the last": f"UPDATE records SET hash = '{'0' * 64}' WHERE sequence = 9",
    "the record before the last forgotten": "DELETE FROM records WHERE sequence = 9",
    "a higher cap added": added("cap", '{"account":"shop","delta_cap":0,"epsilon_cap":50}'),
    "a publication added": added("published", _PUBLISHED),
    "a beginning added": added("drawing", f'{{"release_id":"{A}"}}'),
    "a charge added": f"INSERT INTO records SELECT 11, kind, replace(content, '{B}', '{NEW}'), "
    "hash FROM records WHERE sequence = 6",
    "a charge added again": "INSERT INTO records SELECT 11, kind, content, hash FROM records WHERE "
    "sequence = 6",
}


@pytest.mark.quick(
    "sqlite-new-the last record forgotten",
    "sqlite-known-the last record's content",
    "sqlite-known-a publication added",
    "sqlite-new-a higher cap added",
)
@pytest.mark.parametrize("edit", AT_THE_END)
@pytest.mark.parametrize("asked", ["new", "known"])
def test_reserve_itself_refuses_every_edit_of_the_chains_end(
    place: Place, edit: str, asked: str
) -> None:
    """Between opening and spending, for a release that is new and for one that is charged; nothing
    is written.
    """
    spent_out(place)
    with place.ledger() as ledger:
        place.execute(AT_THE_END[edit])
        before = place.execute("SELECT * FROM records ORDER BY sequence")
        wanted = release("new", account="other") if asked == "new" else release("a")
        asks: tuple[Callable[[], object], ...] = (
            lambda: ledger.reserve(wanted),
            lambda: ledger.begin_drawing(B),
            lambda: ledger.publish(B, sha256("second")),
            lambda: ledger.set_cap("shop", 50.0),
            ledger.verify,
        )
        for ask in asks:
            with pytest.raises(LedgerRefusedError, match="edited|rolled back"):
                ask()
        assert place.execute("SELECT * FROM records ORDER BY sequence") == before
    with pytest.raises(LedgerRefusedError, match="edited|rolled back"):
        place.ledger().__enter__()


BEHIND = {
    "a higher cap": content(1, '"epsilon_cap":2', '"epsilon_cap":50'),
    "a higher delta": content(1, '"delta_cap":0', '"delta_cap":0.5'),
    "a benchmark": content(1, '"benchmark":false', '"benchmark":true'),
    "another unit": content(3, '"row"', '"person"'),
    "another relation": content(3, "add-or-remove-one", "replace-one"),
    "an account forgotten": "DELETE FROM records WHERE sequence = 1",
    "an address of another account": content(2, '"shop"', '"other"'),
    "an address elsewhere": content(2, AT, "file:/x"),
    "an address forgotten": "DELETE FROM records WHERE sequence = 2",
    "a lower total": f"UPDATE records SET content = replace(content, '{TWO}', '{NOTHING}') WHERE "
    "sequence = 6",
    "cheaper": content(6, '"epsilon":1', '"epsilon":0'),
    "charged to another account": content(6, '"account":"shop"', '"account":"other"'),
    "charged under another name": content(6, B, NEW),
    "not charged": "DELETE FROM records WHERE sequence = 6",
    "not published": "DELETE FROM records WHERE sequence = 7",
    "another artefact": content(7, sha256("a"), sha256("x")),
    "published for another": content(7, A, B),
    "not begun": "UPDATE records SET kind = 'bound' WHERE sequence = 8",
    "begun for another": content(8, B, A),
    "an older record again": "DELETE FROM records WHERE sequence = 6; "
    "INSERT INTO records SELECT 6, kind, content, hash FROM records WHERE sequence = 5",
    "two records exchanged": "UPDATE records SET sequence = -6 WHERE sequence = 5; "
    "UPDATE records SET sequence = 5 WHERE sequence = 6; "
    "UPDATE records SET sequence = 6 WHERE sequence = -6",
}


@pytest.mark.quick(
    "sqlite-a higher cap",
    "sqlite-not published",
    "sqlite-not begun",
    "sqlite-an older record again",
)
@pytest.mark.parametrize("edit", BEHIND)
def test_an_edit_behind_the_end_is_not_believed_and_refused_by_the_next_opening(
    place: Place, edit: str
) -> None:
    """What an open ledger has checked it does not read again."""
    spent_out(place)
    with place.ledger() as ledger:
        for statement in BEHIND[edit].split(";"):
            place.execute(statement)
        with pytest.raises(BudgetError, match="spent 2 of cap 2"):
            ledger.reserve(release("new"))
        assert ledger.reserve(release("a")).artefact_sha256 == sha256("a")
        assert not ledger.reserve(release("b")).is_new
        assert ledger.publish(A, sha256("second")) == sha256("a")
        assert not ledger.take_up(release("other", writer="x"), differing=["writer"])
        assert ledger.ensure_account(replace(TINY, epsilon_cap=1000.0), [AT]).epsilon_cap == 2.0
        with pytest.raises(LedgerRefusedError, match="edited"):
            ledger.verify()
    with place.ledger() as again:
        assert again.reserve(release("a")).artefact_sha256 == sha256("a")
    chain._followed_before.clear()  # as in another process
    with pytest.raises(LedgerRefusedError, match="edited"):
        place.ledger().__enter__()


PARTS = {
    "a part's content": "UPDATE folded SET content = replace(content, 'shop', 'shop2')",
    "a part of nothing": "UPDATE folded SET content = '[{}, {}, {}, [], [], []]'",
    "a part's code": f"UPDATE folded SET code = '{'0' * 64}' WHERE sequence = 8",
    "a part forgotten between others": "DELETE FROM folded WHERE sequence = 4",
    "a part of another place": "UPDATE folded SET content = (SELECT content FROM folded WHERE "
    "sequence = 4), code = (SELECT code FROM folded WHERE sequence = 4) WHERE sequence = 8",
    "a part of a later record": "UPDATE folded SET sequence = 9 WHERE sequence = 8",
    "a part of another record": f"UPDATE folded SET hash = '{'0' * 64}' WHERE sequence = 8",
    "a part invented": f"INSERT INTO folded VALUES (9, '{'0' * 64}', '[]', '{'0' * 64}')",
}


@pytest.mark.parametrize("edit", PARTS)
def test_what_is_stored_of_the_records_is_trusted_only_as_the_key_has_it(
    place: Place, edit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain, "PART", 4)
    spent_out(place)
    parts = place.execute("SELECT * FROM folded ORDER BY sequence")
    assert [part.sequence for part in parts] == [4, 8]
    with place.ledger() as ledger:
        assert ledger.reserve(release("a")).artefact_sha256 == sha256("a")
        place.execute(PARTS[edit])
        with pytest.raises(LedgerRefusedError, match="edited"):
            ledger.verify()
    chain._followed_before.clear()  # as in another process
    with pytest.raises(LedgerRefusedError, match="edited"):
        place.ledger().__enter__()


@pytest.mark.parametrize("left", [0, 1, 2])
def test_records_stand_where_what_is_stored_of_them_is_lost(
    place: Place, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last parts, or all: they are a cache. None is stored again over what is not known."""
    monkeypatch.setattr(chain, "PART", 4)
    spent_out(place)
    with place.ledger() as ledger, place.ledger() as other:
        place.execute(f"DELETE FROM folded WHERE sequence > {4 * left}")
        for number in range(5):
            for asked in (ledger, other):
                asked.reserve(release(f"{asked is other}-{number}", account="other"))
        ledger.verify()
    chain._followed_before.clear()  # as in another process
    with place.ledger() as ledger:
        assert ledger.spent("other").epsilon == 10
        assert ledger.reserve(release("a")).artefact_sha256 == sha256("a")
        with pytest.raises(BudgetError, match="spent 2 of cap 2"):
            ledger.reserve(release("new"))


def test_ledgers_that_are_open_at_once_store_parts_that_follow_each_other(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has followed the other's records, and knows not what it has stored."""
    monkeypatch.setattr(chain, "PART", 5)
    draws = random.Random(7)
    with place.ledger() as first, place.ledger() as second:
        first.ensure_account(OTHER)
        for number in range(60):
            ledger, name = draws.choice([first, second]), f"{number}"
            ledger.reserve(release(name, account="other", writer=name))
            if draws.random() < 0.5:
                ledger.begin_drawing(release(name, account="other").release_id)
            if draws.random() < 0.5:
                ledger.publish(release(name, account="other").release_id, sha256(name))
            if draws.random() < 0.3:
                wanted = release(f"late {name}", account="other", writer="late")
                ledger.take_up(wanted, differing=["writer"])
            if number % 10 == 0:
                ledger.verify()
                chain._followed_before.clear()  # as in another process
                with place.ledger() as third:
                    assert third.entries("other") == first.entries("other")
        assert len(place.execute("SELECT * FROM folded")) > 10


def test_a_release_that_was_taken_up_does_not_come_back(place: Place) -> None:
    """Its record is a true one, and stands in the chain for ever."""
    with place.ledger() as ledger:
        ledger.ensure_account(TINY)
        ledger.reserve(release("old", writer="one"))
        assert ledger.take_up(release("new", writer="two"), differing=["writer"])
        place.execute("DELETE FROM records WHERE sequence = 3")
        with pytest.raises(LedgerRefusedError, match="rolled back"):
            ledger.reserve(release("old", writer="one"))


def test_nobody_writes_between_a_check_and_the_record_that_rests_on_it(place: Place) -> None:
    """Else the record would follow one that is no longer there."""
    at_once = (
        "SET lock_timeout = '100ms'"
        if place.url.startswith("postgresql")
        else "PRAGMA busy_timeout = 100"
    )
    with place.ledger() as ledger:
        ledger.ensure_account(OTHER)
        with ledger._chain.changing() as change:
            change.append("cap", {"account": "other", "epsilon_cap": 1.0, "delta_cap": 0.0})
            with pytest.raises(OperationalError, match="lock"), place.behind() as connection:
                connection.execute(text(at_once))
                connection.execute(text("UPDATE records SET kind = 'bound'"))
        assert ledger.verify() == 2


def test_another_ledger_at_the_same_address_is_followed_anew(tmp_path: Path) -> None:
    """In a process that has closed the one that was there before, as long as this one."""
    place = Place(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path)
    for name in ("shop", "other"):
        for file in (*tmp_path.glob("ledger.db*"), *tmp_path.glob("anchor*")):
            file.unlink()
        with place.ledger() as ledger:
            ledger.ensure_account(replace(TINY, name=name))
            assert [account.name for account in ledger.accounts()] == [name]
            assert ledger.reserve(release("a", account=name)).is_new and ledger.verify() == 2


def test_what_was_not_committed_was_never_said(place: Place) -> None:
    with place.ledger() as ledger:
        ledger.ensure_account(TINY)
        with pytest.raises(BudgetError):  # the contract's cap goes with the charge
            ledger.reserve(release("dear", cost(9.0)), stated=replace(TINY, epsilon_cap=1.0))
        assert [account.epsilon_cap for account in ledger.accounts()] == [2.0]
        assert ledger.reserve(release("a")).is_new and ledger.verify() == 2


WAYS: dict[str, tuple[Account, list[str]]] = {
    "a second contract": (replace(TINY, name="copy", epsilon_cap=9.0), [AT]),
    "a folder around it": (replace(TINY, name="folder"), ["file:/data"]),
    "the root": (replace(TINY, name="root"), ["file:/"]),
    "its own name on rows of another": (TINY, ["file:/data/other.csv"]),
    "one address of two": (replace(TINY, name="both"), ["s3://new/place", AT]),
    "its own name elsewhere": (TINY, ["file:/elsewhere"]),
}


TO_TWO_ACCOUNTS = ("a folder around it", "the root", "its own name on rows of another")


@pytest.mark.parametrize("way", [way for way in WAYS if way not in TO_TWO_ACCOUNTS])
def test_every_way_to_the_same_rows_pays_from_one_account(place: Place, way: str) -> None:
    spent_out(place)
    asked, addresses = WAYS[way]
    with place.ledger() as ledger:
        account = ledger.ensure_account(asked, addresses)
        assert (account.name, account.epsilon_cap) == ("shop", 2.0)
        with pytest.raises(PrivacyError, match="left 0"):
            ledger.reserve(release(way, account=account.name))
        assert set(addresses) <= set(ledger.addresses("shop"))
        # what was bound stays bound
        assert ledger.ensure_account(replace(asked, name="third"), addresses).name == "shop"
        ledger.verify()


@pytest.mark.parametrize("way", TO_TWO_ACCOUNTS)
def test_a_place_that_holds_rows_of_two_accounts_is_refused(place: Place, way: str) -> None:
    spent_out(place)
    with (
        place.ledger() as ledger,
        pytest.raises(PrivacyError, match="belong to several accounts, 'other', 'shop'"),
    ):
        ledger.ensure_account(*WAYS[way])


@pytest.mark.parametrize(
    ("bound", "asked", "same"),
    [
        ("file:/data", "file:/data/people.csv", True),
        ("file:/data/people.csv", "file:/data", True),
        ("file:/", "file:/data/people.csv", True),
        ("s3://bucket/people", "s3://bucket/people/part-1.parquet", True),
        ("s3://bucket", "s3://bucket/people", True),
        ("file:/data/people", "file:/data/people2", False),
        ("s3://bucket/people", "s3://bucket/people2", False),
        ("postgresql://h:1/db", "postgresql://h:1/db2", False),
        ("bundled:a", "bundled:a/b", False),
    ],
)
def test_places_in_each_other_are_one_asset(
    place: Place, bound: str, asked: str, same: bool
) -> None:
    with place.ledger() as ledger:
        ledger.ensure_account(TINY, [bound])
        assert (
            ledger.ensure_account(replace(OTHER, name="second"), [asked]).name == "shop"
        ) == same


def test_a_named_account_is_shared_and_takes_no_rows_of_others(place: Place) -> None:
    spent_out(place)
    with place.ledger() as ledger:
        assert ledger.ensure_account(TINY, ["s3://a/b"], named=True).name == "shop"
        assert ledger.ensure_account(replace(TINY, name="free"), ["s3://a/b"]).name == "shop"
        with pytest.raises(
            PrivacyError, match="its rows belong to account 'shop'; expected `account: shop`"
        ):
            ledger.ensure_account(replace(TINY, name="fresh"), [AT], named=True)
        with pytest.raises(PrivacyError, match="its rows belong to account 'shop'"):
            ledger.ensure_account(OTHER, [AT], named=True)


def test_what_was_ever_charged_is_no_benchmark(place: Place) -> None:
    spent_out(place)
    public = Account("public", "row", ADD, benchmark=True)
    with place.ledger() as ledger:
        for addresses in ([AT], ["file:/data"], ["s3://x/y", AT]):
            with pytest.raises(
                PrivacyError,
                match="were charged to account 'shop'; what was ever charged is no benchmark",
            ):
                ledger.ensure_account(public, addresses)
        with pytest.raises(PrivacyError, match="benchmark=False, not True"):
            ledger.ensure_account(replace(public, name="shop"))
        # nothing was charged there
        assert ledger.ensure_account(public, ["file:/data/other.csv"]).benchmark


def test_contracts_lower_a_cap_by_what_they_charge_and_never_raise_it(place: Place) -> None:
    with place.ledger() as ledger:
        ledger.ensure_account(replace(TINY, epsilon_cap=4.0, delta_cap=1e-5), [AT])
        ledger.reserve(release("a"))
        for stated, held in {
            (9.0, 1e-3): (4.0, 1e-5),
            (3.0, 1e-5): (3.0, 1e-5),
            (8.0, 0.0): (3.0, 1e-5),
            (3.0, 1e-6): (3.0, 1e-6),
            (2.5, 0.5): (2.5, 1e-6),
        }.items():
            other = Account("any", "row", ADD, *stated)
            (before,) = ledger.accounts()
            assert ledger.ensure_account(other, [AT]) == before
            foreseen = ledger.trial().ensure_account(other, [AT])
            assert ledger.accounts() == [before]
            ledger.reserve(release(f"{stated}", cost(0.1)), stated=other)
            assert ledger.accounts() == [foreseen]
            assert (foreseen.epsilon_cap, foreseen.delta_cap) == held
        ledger.verify()


def test_a_refused_call_lowers_no_cap_and_a_charge_says_which_contract_did(place: Place) -> None:
    second = replace(TINY, name="second", epsilon_cap=1.0)
    told = r"spent 0.6 of cap 1, .*; the contract 'second' lowers the cap from 2 to 1$"
    with place.ledger() as ledger:
        ledger.ensure_account(TINY, [AT])
        ledger.reserve(release("a", cost(0.6)), stated=TINY)
        trial = ledger.trial()
        trial.ensure_account(second, [AT], contract="second")
        quote = trial.dry_run("shop", [cost(0.5)])
        assert (quote.cap, quote.allowed) == (1, False)
        assert quote.cap_reason == "; the contract 'second' lowers the cap from 2 to 1"
        for _ in range(2):
            with pytest.raises(BudgetError, match=told):
                ledger.reserve(release("b", cost(0.5)), stated=second, contract="second")
        # nor does what is free, since it was charged before
        ledger.reserve(release("a", cost(0.6)), stated=second, contract="second")
        assert ledger.accounts() == [TINY] and ledger.lowering("shop") == (None, "")
        # the first contract is held to its cap alone
        ledger.reserve(release("c", cost(1.2)), stated=TINY)


def test_a_lowered_cap_is_told_until_a_command_decides_on_another(place: Place) -> None:
    # a delta of 0 says nothing of that of the account
    second = Account("second", "row", ADD, 1.0)
    open_ = replace(TINY, epsilon_cap=3.0, delta_cap=1e-5)
    with place.ledger() as ledger:
        ledger.ensure_account(open_, [AT])
        ledger.reserve(release("a", cost(0.6)), stated=open_)
        ledger.reserve(release("b", cost(0.3)), stated=second, contract="second")
    with place.ledger() as ledger:
        ledger.verify()
        assert ledger.accounts() == [replace(open_, epsilon_cap=1.0)]
        lowered, sentence = ledger.lowering("shop")
        assert lowered == (3.0, 1e-5, "second")
        assert sentence == "the contract 'second' lowers the cap from 3 to 1"
        with pytest.raises(BudgetError, match="the contract 'second' lowers the cap from 3 to 1$"):
            ledger.reserve(release("c", cost(0.3)), stated=open_, contract="first")
        # the first contract's cap holds no more, and it is not silent
        assert ledger.with_other_caps(open_) == replace(open_, epsilon_cap=1.0)
        ledger.set_cap("shop", 2.0, 1e-5)
        assert ledger.lowering("shop") == (None, "")
        # decided over both contracts
        ledger.reserve(release("c", cost(0.3)), stated=second, contract="second")
        assert ledger.accounts() == [replace(open_, epsilon_cap=2.0)]
        ledger.verify()


def test_relation_and_unit_are_the_accounts_from_its_first_charge(place: Place) -> None:
    spent_out(place)
    with place.ledger() as ledger:
        for asked in (
            replace(TINY, name="copy", neighbours=REPLACE),
            replace(TINY, name="copy", unit="person"),
        ):
            with pytest.raises(
                PrivacyError,
                match="all contracts on the same rows share one account, one unit and one relation",
            ):
                ledger.ensure_account(asked, [AT])


def _take_up(ledger: Ledger, name: str) -> bool:
    return ledger.take_up(release(name, cost(1.0), writer=name), differing=["writer"])


def test_a_release_whose_model_failed_is_taken_up_once_and_never_after_it_began(
    place: Place,
) -> None:
    with place.ledger() as ledger:
        ledger.ensure_account(TINY)
        ledger.reserve(release("one", writer="one"))
        assert not ledger.take_up(release("dear", cost(2.0), writer="two"), differing=["writer"])
        assert not ledger.take_up(release("two", writer="two", shots=9), differing=["writer"])
        assert _take_up(ledger, "two")
        # it is charged
        assert _take_up(ledger, "two") is False
        assert ledger.find(release("one").release_id) is None and ledger.spent("shop").epsilon == 1
        with pytest.raises(
            LedgerError, match="is not charged; expected reserve before a row is read"
        ):
            ledger.begin_drawing(release("one").release_id)
        with pytest.raises(LedgerError, match="never reserved"):
            ledger.publish(release("one").release_id, sha256("late"))
        ledger.begin_drawing(release("two").release_id)
        assert not _take_up(ledger, "three")
        assert ledger.reserve(release("one", writer="one")).is_new  # charged again
        assert ledger.spent("shop").epsilon == 2
        ledger.publish(release("one").release_id, sha256("one"))
        assert not _take_up(ledger, "three")
        ledger.verify()


@pytest.mark.quick("sqlite-0")
@pytest.mark.parametrize("turn", range(4))
def test_threads_that_begin_and_take_up_one_release_agree(place: Place, turn: int) -> None:
    """Either it began, and nobody took it up, or it was taken up (and so, perhaps, was what took it
    up), and it never began.
    """
    began, took = [], []
    together = threading.Barrier(8)
    with place.ledger() as ledger:
        ledger.ensure_account(TINY)
        ledger.reserve(release("one", writer="one"))

        def begin() -> None:
            together.wait()
            with suppress(LedgerError):
                ledger.begin_drawing(release("one").release_id)
                began.append("one")

        def take(name: str) -> None:
            together.wait()
            if _take_up(ledger, name):
                took.append(name)

        threads = [threading.Thread(target=begin) for _ in range(4)]
        threads += [
            threading.Thread(target=take, args=(f"writer-{turn}-{number}",)) for number in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(began) == 4 and not took) or (took and not began)
        assert len(ledger.entries("shop")) == 1 and ledger.spent("shop").epsilon == 1
        ledger.verify()


def test_of_many_processes_one_takes_up_each_release(place: Place) -> None:
    with place.ledger() as ledger:
        ledger.ensure_account(TINY)
        for name in ("one", "two"):
            ledger.reserve(release(name, writer=name, n=0))
    with multiprocessing.get_context("forkserver").Pool(6) as pool:
        taken = pool.starmap(
            _take_any, [(place, f"w{number}") for number in range(12)], chunksize=1
        )
    with place.ledger() as ledger:
        assert sum(taken) == 12
        assert len(ledger.entries("shop")) == ledger.spent("shop").epsilon == 2
        ledger.verify()


def _take_any(place: Place, name: str) -> bool:
    """A release that was taken up may itself be taken up, as long as it has not begun."""
    with place.ledger() as ledger:
        return ledger.take_up(release(name, writer=name, n=0), differing=["writer"])
