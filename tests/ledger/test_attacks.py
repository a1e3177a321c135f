"""Whoever has the database and no key gains no budget and no second draw: what is trusted is
checked in the transaction that spends.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from dpicl.accounting.filters import Spent
from dpicl.accounting.ledger import Account, Ledger, seals
from dpicl.accounting.ledger.keys import canonical
from dpicl.errors import LedgerError, LedgerRefusedError, PrivacyError
from tests.ledger.workload import ADD, REPLACE, Place, cost, release, seal_again, sha256

TINY = Account("shop", "row", ADD, epsilon_cap=2.0)
OTHER = Account("other", "row", ADD, epsilon_cap=100.0)
AT = "file:/data/people.csv"
NOTHING = canonical(Spent.nothing().as_json())


def spent_out(place: Place) -> None:
    """Account shop at its cap by a (published) and b (begun), an empty account beside it."""
    with place.ledger() as ledger:
        ledger.ensure_account(TINY, [AT])
        ledger.ensure_account(OTHER, ["file:/data/other.csv"])
        for name in "ab":
            ledger.reserve(release(name))
        ledger.publish(release("a").release_id, sha256("a"))
        ledger.begin_drawing(release("b").release_id)


A, B, NEW = (release(name).release_id for name in ("a", "b", "new"))
EDITS = {
    "a higher cap": "UPDATE accounts SET epsilon_cap = 50 WHERE name = 'shop'",
    "a higher delta": "UPDATE accounts SET delta_cap = 0.5 WHERE name = 'shop'",
    "a benchmark": "UPDATE accounts SET benchmark = TRUE, epsilon_cap = NULL WHERE name = 'shop'",
    "another unit": "UPDATE accounts SET unit = 'person' WHERE name = 'other'",
    "another relation": "UPDATE accounts SET neighbours = 'replace-one' WHERE name = 'other'",
    "an account invented": "INSERT INTO accounts SELECT 'more', unit, neighbours, 9, delta_cap, benchmark, "  # noqa: E501
    "opened_utc FROM accounts WHERE name='shop'",
    "a lower total": "UPDATE totals SET spent = :nothing",
    "a total forgotten": "DELETE FROM totals",
    "a total of another account": "UPDATE totals SET account = 'other'",
    "an address of another account": f"UPDATE assets SET account = 'other' WHERE address = '{AT}'",
    "an address elsewhere": f"UPDATE assets SET address = 'file:/x' WHERE address = '{AT}'",
    "an address forgotten": f"DELETE FROM assets WHERE address = '{AT}'",
    "an address invented": "INSERT INTO assets VALUES ('account:shop', 'other')",
    "a head set back": "UPDATE head SET sequence = 4, hash = (SELECT hash FROM records WHERE sequence = 4)",  # noqa: E501
    "a head of another hash": f"UPDATE head SET hash = '{'0' * 64}'",
    "no head": "DELETE FROM head",
    "the last record's content": "UPDATE records SET content = replace(content, 'state', 'stale') WHERE sequence = (SELECT "  # noqa: E501
    "max(sequence) FROM records)",
    "the last record's hash": f"UPDATE records SET hash = '{'0' * 64}' WHERE sequence = (SELECT max(sequence) FROM "  # noqa: E501
    f"records)",
    "the last record forgotten": "DELETE FROM records WHERE sequence = (SELECT max(sequence) FROM records)",  # noqa: E501
    "a root of its own": f"UPDATE seals SET digest = '{'0' * 64}' WHERE prefix = ''",
    "no seals": "DELETE FROM seals",
}


@pytest.mark.quick(
    "sqlite-new-an address elsewhere",
    "sqlite-new-the last record forgotten",
    "sqlite-new-an address of another account",
    "sqlite-known-no seals",
    "sqlite-new-a head set back",
    "sqlite-known-the last record forgotten",
    "sqlite-new-no seals",
    "sqlite-known-a lower total",
    "sqlite-new-a root of its own",
    "sqlite-known-a root of its own",
)
@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("asked", ["new", "known"])
def test_reserve_itself_refuses_every_edit_of_what_it_goes_by(
    place: Place, edit: str, asked: str
) -> None:
    """Between opening and spending, for a release that is new and for one that is charged; nothing
    is written.
    """
    spent_out(place)
    with place.ledger() as ledger:
        place.execute(EDITS[edit], **({"nothing": NOTHING} if ":nothing" in EDITS[edit] else {}))
        before = place.execute("SELECT count(*) FROM entries")
        with pytest.raises(LedgerRefusedError, match="edited|rolled back"):
            ledger.reserve(release("new", account="other") if asked == "new" else release("a"))
        assert place.execute("SELECT count(*) FROM entries") == before


_COPIED = (
    f"INSERT INTO entries SELECT '{NEW}', number + 100, account, mechanism, "
    f"parameters, guarantee, epsilon, delta, "
    f"reserved_utc, artefact_sha256, published_utc FROM entries WHERE release_id = '{B}'"
)
ENTRY_EDITS: dict[str, tuple[str, str]] = {
    "not published": (
        f"UPDATE entries SET artefact_sha256 = NULL, published_utc = NULL WHERE release_id = '{A}'",
        "a",
    ),
    "another artefact": (
        f"UPDATE entries SET artefact_sha256 = '{sha256('x')}' WHERE release_id = '{A}'",
        "a",
    ),
    "published": (
        (
            f"UPDATE entries SET artefact_sha256 = '{sha256('x')}', published_utc = 'now' WHERE "
            f"release_id = '{B}'"
        ),
        "b",
    ),
    "charged, under another's entry": (
        f"UPDATE entries SET release_id = '{NEW}' WHERE release_id = '{B}'",
        "new",
    ),
    "charged, beside another's entry": (_COPIED, "new"),
    "not charged": (f"DELETE FROM entries WHERE release_id = '{B}'", "b"),
    "charged to another account": (
        f"UPDATE entries SET account = 'other' WHERE release_id = '{B}'",
        "b",
    ),
    "cheaper": (f"UPDATE entries SET epsilon = 0.1 WHERE release_id = '{B}'", "b"),
    "of another record": (f"UPDATE entries SET number = 1 WHERE release_id = '{B}'", "b"),
    "not begun": (f"DELETE FROM drawings WHERE release_id = '{B}'", "b"),
    "begun": (f"INSERT INTO drawings VALUES ('{A}')", "a"),
}


@pytest.mark.quick(
    "sqlite-not begun-plainly",
    "sqlite-begun-plainly",
    "sqlite-of another record-plainly",
    "sqlite-begun-with seals that fit",
)
@pytest.mark.parametrize("sealed", [False, True], ids=["plainly", "with seals that fit"])
@pytest.mark.parametrize("edit", ENTRY_EDITS)
def test_a_release_is_trusted_only_as_the_chain_has_it(
    place: Place, edit: str, sealed: bool
) -> None:
    spent_out(place)
    statement, name = ENTRY_EDITS[edit]
    with place.ledger() as ledger:
        place.execute(statement)
        if sealed:
            seal_again(place)
        asks: tuple[Callable[[], object], ...] = (
            lambda: ledger.reserve(release(name)),
            lambda: ledger.begin_drawing(release(name).release_id),
            lambda: ledger.publish(release(name).release_id, sha256("second")),
            lambda: ledger.take_up(release(name), differing=["writer"]),
        )
        for ask in asks:
            with pytest.raises(LedgerRefusedError, match="edited"):
                ask()
        with pytest.raises(LedgerRefusedError, match="edited"):
            ledger.verify()


@pytest.mark.parametrize("beginning", ["", "abc"])
def test_a_row_that_lies_in_no_leaf_is_not_taken_up(place: Place, beginning: str) -> None:
    """A charge that nobody paid, under a name behind all others."""
    forged = beginning.ljust(64, "z")
    with place.ledger() as ledger:
        ledger.ensure_account(OTHER)
        wanted = replace(release("new", account="other"), parameters={"shots": 2, "writer": "mine"})
        ledger.reserve(wanted)
        place.execute(
            f"INSERT INTO entries SELECT '{forged}', number + 100, account, "
            f"mechanism, parameters, guarantee, epsilon, delta, "
            f"reserved_utc, artefact_sha256, published_utc FROM entries WHERE release_id = "
            f"'{wanted.release_id}'"
        )
        ledger.publish(wanted.release_id, sha256("x"))
        another = replace(release("b", account="other"), parameters={"shots": 2, "writer": "other"})
        before = ledger.spent("other")
        with pytest.raises(LedgerRefusedError, match="64 hexadecimal digits"):
            ledger.take_up(another, differing=["writer"])
        assert ledger.spent("other") == before
        with pytest.raises(LedgerRefusedError, match="edited"):
            ledger.verify()


def test_nobody_writes_between_a_check_and_the_record_that_rests_on_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the record would sign what was changed in between."""
    tried = list[str]()

    def seal(*arguments: Any) -> None:
        at_once = (
            "SET lock_timeout = '100ms'"
            if place.url.startswith("postgresql")
            else "PRAGMA busy_timeout = 100"
        )
        try:
            with place.behind() as connection:
                connection.execute(text(at_once))
                connection.execute(text("UPDATE accounts SET epsilon_cap = 50"))
        except OperationalError as error:
            tried.append(str(error.orig))
        real(*arguments)

    with place.ledger() as ledger:
        ledger.ensure_account(OTHER)
        ledger.reserve(release("a", account="other"))
        real = seals.seal
        monkeypatch.setattr(seals, "seal", seal)
        ledger.reserve(release("b", account="other"))
        monkeypatch.undo()
        assert len(tried) == 1 and "lock" in tried[0]
        assert [account.epsilon_cap for account in ledger.accounts()] == [OTHER.epsilon_cap]
        ledger.verify()


def test_a_release_that_was_taken_up_does_not_come_back_with_its_old_row(place: Place) -> None:
    """Its record is a true one, and stands in the chain for ever."""
    with place.ledger() as ledger:
        ledger.ensure_account(TINY)
        ledger.reserve(release("old", writer="one"))
        (old,) = place.execute("SELECT * FROM entries")
        assert ledger.take_up(release("new", writer="two"), differing=["writer"])
        place.execute(
            f"UPDATE entries SET release_id = '{old.release_id}', number = {old.number}, "
            f"parameters = :parameters",
            parameters=old.parameters,
        )
        seal_again(place)
        with pytest.raises(LedgerRefusedError, match="edited"):
            ledger.reserve(release("old", writer="one"))


def test_no_entry_that_is_forgotten_makes_an_account_unused(place: Place) -> None:
    """Where nothing was charged a contract may say another cap."""
    spent_out(place)
    with place.ledger() as ledger:
        place.execute("UPDATE entries SET account = 'other'")
        assert ledger.ensure_account(replace(TINY, epsilon_cap=1000.0), [AT]).epsilon_cap == 2.0
        assert (
            ledger.ensure_account(
                replace(TINY, epsilon_cap=1000.0), [AT, "file:/data/more.csv"]
            ).epsilon_cap
            == 2.0
        )


def test_a_cap_that_no_contract_stated_is_not_made_a_known_one(place: Place) -> None:
    spent_out(place)
    with place.ledger() as ledger:
        old, new = '"epsilon_cap":2', '"epsilon_cap":1'
        place.execute(
            "UPDATE records SET content = replace(content, :old, :new) WHERE sequence = 1",
            old=old,
            new=new,
        )
        with pytest.raises(LedgerRefusedError, match="record 1 does not fit"):
            ledger.ensure_account(replace(TINY, epsilon_cap=1.0), [AT])


WAYS: dict[str, tuple[Account, list[str]]] = {
    "a second contract": (replace(TINY, name="copy", epsilon_cap=9.0), [AT]),
    "a folder around it": (replace(TINY, name="folder"), ["file:/data"]),
    "the root": (replace(TINY, name="root"), ["file:/"]),
    "one address of two": (replace(TINY, name="both"), ["s3://new/place", AT]),
    "its own name elsewhere": (TINY, ["file:/elsewhere"]),
}


@pytest.mark.parametrize(
    "way", [way for way in WAYS if way not in ("a folder around it", "the root")]
)
def test_every_way_to_the_same_rows_pays_from_one_account(place: Place, way: str) -> None:
    spent_out(place)
    asked, addresses = WAYS[way]
    with place.ledger() as ledger:
        account = ledger.ensure_account(asked, addresses)
        assert (account.name, account.epsilon_cap) == ("shop", 2.0)
        with pytest.raises(PrivacyError, match="left 0"):
            ledger.reserve(release(way, account=account.name))
        assert set(addresses) <= set(ledger.addresses("shop"))
        assert ledger.ensure_account(replace(asked, name="third"), addresses).name == "shop", (
            "what was bound stays bound"
        )
        ledger.verify()


@pytest.mark.parametrize("way", ["a folder around it", "the root"])
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


def test_a_charged_account_does_not_move_to_rows_of_another(place: Place) -> None:
    """Its own contract, after another one has opened an account on its rows."""
    spent_out(place)
    with (
        place.ledger() as ledger,
        pytest.raises(PrivacyError, match="belong to several accounts, 'other', 'shop'"),
    ):
        ledger.ensure_account(TINY, ["file:/data/other.csv"])


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
        assert ledger.ensure_account(public, ["file:/data/other.csv"]).benchmark, (
            "nothing was charged there"
        )


def test_contracts_lower_a_cap_and_never_raise_it(place: Place) -> None:
    with place.ledger() as ledger:
        ledger.ensure_account(replace(TINY, epsilon_cap=4.0, delta_cap=1e-5), [AT])
        ledger.reserve(release("a"))
        held = []
        for epsilon, delta in (
            (9.0, 1e-3),
            (3.0, 1e-5),
            (8.0, 0.0),
            (3.0, 1e-6),
            (4.0, 1e-5),
            (2.5, 0.5),
        ):
            held.append(ledger.ensure_account(Account("any", "row", ADD, epsilon, delta), [AT]))
        assert [(one.epsilon_cap, one.delta_cap) for one in held] == [
            (4.0, 1e-5),
            (3.0, 1e-5),
            (3.0, 1e-5),
            (3.0, 1e-6),
            (3.0, 1e-6),
            (2.5, 1e-6),
        ]
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
        assert _take_up(ledger, "two") is False, "it is charged"
        assert ledger.find(release("one").release_id) is None and ledger.spent("shop").epsilon == 1
        with pytest.raises(
            LedgerError, match="is not charged; expected reserve before a row is read"
        ):
            ledger.begin_drawing(release("one").release_id)
        with pytest.raises(LedgerError, match="never reserved"):
            ledger.publish(release("one").release_id, sha256("late"))
        ledger.begin_drawing(release("two").release_id)
        assert not _take_up(ledger, "three")
        assert (
            ledger.reserve(release("one", writer="one")).is_new
            and ledger.spent("shop").epsilon == 2
        ), "charged again"
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
        assert (
            sum(taken) == 12
            and len(ledger.entries("shop")) == 2
            and ledger.spent("shop").epsilon == 2
        )
        ledger.verify()


def _take_any(place: Place, name: str) -> bool:
    """A release that was taken up may itself be taken up, as long as it has not begun."""
    with place.ledger() as ledger:
        return ledger.take_up(release(name, writer=name, n=0), differing=["writer"])
