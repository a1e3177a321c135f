"""A part of the tree of seals that has grown too large is parted by one more digit, and is trusted
no less.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpicl.accounting.ledger import Account, Ledger, Release, seals
from dpicl.errors import LedgerRefusedError
from tests.ledger.workload import ADD, Place, release, sha256

BUSY = Account("shop", "row", ADD, epsilon_cap=1e6)
FIRST = "abc"
LARGEST = seals._LARGEST


def beside(number: int) -> Release:
    """Releases whose names begin alike, and go on with each digit."""
    made = release(str(number))
    return replace(made, release_id=f"{FIRST}{number % 16:x}{made.release_id[4:]}")


def charge(ledger: Ledger, numbers: range) -> None:
    for number in numbers:
        ledger.reserve(beside(number))


def lengths(place: Place) -> set[int]:
    return {len(prefix) for (prefix,) in place.execute("SELECT prefix FROM seals")}


def test_a_leaf_is_parted_by_the_charge_that_makes_it_too_large(place: Place) -> None:
    with place.ledger() as ledger:
        ledger.ensure_account(BUSY)
        charge(ledger, range(LARGEST))
        assert lengths(place) == {0, 1, 2, 3}
        charge(ledger, range(LARGEST, LARGEST + 1))
        assert (
            lengths(place) == {0, 1, 2, 3, 4}
            and len(place.execute("SELECT 1 FROM seals")) == 3 + 1 + 16
        )
        ledger.verify()
        for number in range(0, LARGEST + 1, 16):
            ledger.begin_drawing(beside(number).release_id)
            ledger.publish(beside(number).release_id, sha256("a"))
        assert not ledger.reserve(beside(16)).is_new and ledger.reserve(beside(16 * LARGEST)).is_new
        ledger.verify()


OF_ALL = f"SELECT digest FROM seals WHERE prefix = '{FIRST}'"


def test_the_tree_that_grows_is_the_one_that_is_made_at_once_however_deep(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parted by several digits at once, with rows taken from a leaf, and down to the last depth."""
    with place.ledger() as ledger:
        ledger.ensure_account(BUSY)
        deep = [
            replace(beside(number), release_id=f"abcde{number // 6:x}{number:058x}")
            for number in range(12)
        ]
        monkeypatch.setattr(seals, "_LARGEST", 4)
        for one in deep:
            ledger.reserve(one)
        assert lengths(place) == {*range(7)}
        ledger.begin_drawing(deep[0].release_id)
        monkeypatch.setattr(seals, "_LARGEST", 1)
        for number, one in enumerate(deep[1:5]):
            taken = replace(
                one,
                release_id=f"{'abcdef'[: number + 1]:0<64}",
                parameters={"shots": 2, "writer": "other"},
            )
            assert ledger.take_up(taken, differing=["writer"])
            ledger.verify()
        assert not ledger.reserve(deep[7]).is_new


EDITS = {
    "another entry of its leaf": f"UPDATE entries SET number = -1 WHERE release_id = '{beside(19).release_id}'",  # noqa: E501
    "what is below taken away": f"DELETE FROM seals WHERE prefix LIKE '{FIRST}_'",
    "another leaf forgotten": f"DELETE FROM seals WHERE prefix = '{FIRST}4'",
    "another leaf of another digest": f"UPDATE seals SET digest = ({OF_ALL}) WHERE prefix = '{FIRST}4'",  # noqa: E501
    "something below the leaf": f"INSERT INTO seals SELECT '{FIRST}3f', digest FROM seals WHERE prefix = '{FIRST}3'",  # noqa: E501
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_is_parted_is_trusted_only_as_the_chain_has_it(place: Place, edit: str) -> None:
    with place.ledger() as ledger:
        ledger.ensure_account(BUSY)
        charge(ledger, range(LARGEST + 1))
        place.execute(EDITS[edit])
        for number in (3, 3 + 16 * LARGEST):
            with pytest.raises(LedgerRefusedError, match="edited"):
                ledger.reserve(beside(number))
        with pytest.raises(LedgerRefusedError, match="edited"):
            ledger.verify()


def test_a_tree_of_another_shape_is_refused(place: Place) -> None:
    """Every digest fits, but the root is not the chain's."""
    with place.ledger() as ledger:
        ledger.ensure_account(BUSY)
        charge(ledger, range(LARGEST + 1))
        with place.behind() as connection:
            flat = seals.expected(connection, [])
            connection.execute(seals.seals.delete())
            connection.execute(
                seals.seals.insert(),
                [{"prefix": prefix, "digest": digest} for prefix, digest in flat.items()],
            )
        for ask in (lambda: ledger.reserve(beside(3)), ledger.verify):
            with pytest.raises(LedgerRefusedError, match="edited"):
                ask()
