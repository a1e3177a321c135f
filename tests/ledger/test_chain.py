"""An edited ledger, a ledger from a backup, and a ledger under another key are all noticed."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from dpicl.ground.errors import LedgerError, LedgerRefusedError
from dpicl.ledger.chain import link
from dpicl.ledger.keys import Anchor, Head
from tests.ledger.workload import SHOP, Place, cost, release, sha256


def filled(place: Place) -> None:
    """Account shop, releases a to c, one of them published: five records."""
    with place.ledger() as ledger:
        ledger.ensure_account(SHOP)
        for name in "abc":
            ledger.reserve(release(name))
        ledger.publish(release("b").release_id, sha256("b"))
        assert ledger.verify() == 5


EDITS = {
    "a record's content": (
        "UPDATE records SET content = replace(content, 'row', 'owl') WHERE sequence = 1",
        "record 1 does not follow",
    ),
    "a record's kind": (
        "UPDATE records SET kind = 'cap' WHERE sequence = 3",
        "record 3 does not follow record 2",
    ),
    "a record's hash": (
        f"UPDATE records SET hash = '{'0' * 64}' WHERE sequence = 2",
        "record 2 does not follow record 1",
    ),
    "a record cut out": (
        "DELETE FROM records WHERE sequence = 2",
        "record 3 does not follow record 1",
    ),
}


@pytest.mark.quick("sqlite-a record's kind", "sqlite-a record cut out")
@pytest.mark.parametrize("edit", EDITS)
def test_every_edit_is_found(place: Place, edit: str) -> None:
    filled(place)
    statement, expected = EDITS[edit]
    with place.ledger() as ledger:
        place.execute(statement)
        with pytest.raises(LedgerRefusedError, match=expected):
            ledger.verify()


def test_another_key_is_refused_on_opening(place: Place) -> None:
    filled(place)
    with pytest.raises(
        LedgerError,
        match="record 5, the ledger's last, does not fit: it was edited, or the key is another one",
    ):
        place.ledger(key=bytes(32)).__enter__()


def cut_to(place: Place, sequence: int) -> None:
    """What a backup of an earlier time holds."""
    place.execute("DELETE FROM records WHERE sequence > :end", end=sequence)


def test_a_restored_backup_is_consistent_but_the_anchor_has_seen_more(
    place: Place, tmp_path: Path
) -> None:
    filled(place)
    cut_to(place, 3)
    with place.ledger(anchor=tmp_path / "fresh.json") as ledger:
        assert ledger.verify() == 3  # nothing in the database betrays it
    with pytest.raises(
        LedgerError,
        match="rolled back: it ends at record 3, but this host has seen record 5; expected the "
        "newer database",
    ):
        place.ledger().__enter__()


def test_a_backup_that_went_on_is_found_by_the_anchors_record(place: Place, tmp_path: Path) -> None:
    filled(place)
    cut_to(place, 3)
    with place.ledger(anchor=tmp_path / "fresh.json") as ledger:
        for name in "xy":
            ledger.reserve(release(name))
    for more in ("", "z"):
        if more:
            with place.ledger(anchor=tmp_path / "fresh.json") as ledger:
                ledger.publish(release("x").release_id, sha256("x"))
        with pytest.raises(
            LedgerError, match="its record 5 is not the one that this host has seen"
        ):
            place.ledger().__enter__()


def test_an_emptied_ledger_is_found(tmp_path: Path) -> None:
    place = Place(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path)
    filled(place)
    for file in tmp_path.glob("ledger.db*"):
        file.unlink()
    with pytest.raises(
        LedgerError, match="rolled back: it ends at record 0, but this host has seen record 5"
    ):
        place.ledger().__enter__()


def test_every_host_keeps_an_anchor_that_only_moves_forward(place: Place, tmp_path: Path) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    with place.ledger(anchor=one) as first, place.ledger(anchor=two) as second:
        first.ensure_account(SHOP)
        for number in range(3):
            first.reserve(release(f"a{number}", cost(0.1)))
            second.reserve(release(f"b{number}", cost(0.1)))
            assert (Anchor(one).read().sequence, Anchor(two).read().sequence) == (
                2 * number + 2,
                2 * number + 3,
            )
        assert first.verify() == second.verify() == 7
    assert Anchor(one).read() == Anchor(two).read()


def test_an_anchor_behind_the_database_catches_up_on_opening(place: Place) -> None:
    """This is what a crash between commit and anchor leaves."""
    filled(place)
    record = place.execute("SELECT sequence, hash FROM records WHERE sequence = 2")[0]
    place.anchor.write_text(json.dumps({"sequence": record.sequence, "hash": record.hash}))
    with place.ledger():
        assert Anchor(place.anchor).read().sequence == 5


def test_a_record_of_another_past_is_another_record() -> None:
    after = {link(bytes(32), Head(4, past), "bound", "{}") for past in ("", "a", "b")}
    assert len(after) == 3 and {head.sequence for head in after} == {5}


def test_an_anchor_never_moves_back(tmp_path: Path) -> None:
    anchor = Anchor(tmp_path / "anchor.json")
    for head in (Head(3, "c"), Head(2, "b"), Head(3, "other")):
        anchor.advance(head)
        assert anchor.read() == Head(3, "c")


@pytest.mark.parametrize("count", [4, 5])
@pytest.mark.parametrize("spoiled", [bytes(40), b"9" * 40, b'{"sequence": 9}'])
def test_a_write_that_a_power_cut_spoils_leaves_the_head_before_it(
    tmp_path: Path, count: int, spoiled: bytes
) -> None:
    """The newest head stands in one of two blocks, the one before it in the other."""
    anchor = Anchor(tmp_path / "anchor.json")
    heads = [Head(number, f"{number}" * 64) for number in range(1, count + 1)]
    for head in heads:
        anchor.advance(head)
    content = bytearray(anchor.path.read_bytes())
    start = content.index(b'"sequence": %d,' % count) + len('"sequence": ')
    content[start : start + len(spoiled)] = spoiled
    anchor.path.write_bytes(content)
    assert anchor.read() == heads[-2]
    anchor.advance(heads[-1])
    assert anchor.read() == heads[-1]


def test_an_anchor_is_read_while_it_is_written(tmp_path: Path) -> None:
    """Who reads without the lock gets one of the heads, and never an earlier one again."""
    anchor = Anchor(tmp_path / "anchor.json")
    heads = {number: Head(number, f"{number:064x}") for number in range(1, 400)}

    def write() -> None:
        for head in heads.values():
            anchor.advance(head)

    writer = threading.Thread(target=write)
    writer.start()
    seen = Head()
    while writer.is_alive():
        read = anchor.read()
        assert read.sequence >= seen.sequence and read == heads.get(read.sequence, Head())
        seen = read
    writer.join()
    assert anchor.read() == heads[399]


def test_an_anchor_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    anchor = Anchor(tmp_path / "anchor.json")
    anchor.path.write_text(json.dumps({"sequence": 7, "hash": "a"}))
    assert anchor.read() == Head(7, "a")
    for head in (Head(8, "b"), Head(9, "c")):
        anchor.advance(head)
        assert anchor.read() == head


@pytest.mark.quick("sqlite-[1]", "sqlite-")
@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"sequence": "x", "hash": ""}'])
def test_a_damaged_anchor_is_named(place: Place, content: str) -> None:
    filled(place)
    place.anchor.write_text(content)
    with pytest.raises(
        LedgerError, match="anchor.json: not an anchor; expected JSON with sequence and hash"
    ):
        place.ledger().__enter__()
