"""A ledger that was lost is not made anew over releases that stand, and comes back from receipts
with no larger budget than before.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from dpicl.ground.errors import BudgetError, LedgerRefusedError
from dpicl.home.accounts import (
    adopted_of,
    artefact_of,
    newest,
    open_ledger,
    receipt_of,
    write_adopted,
    write_cap,
    write_receipt,
)
from dpicl.home.settings import Settings
from dpicl.installation.restore import adopt
from dpicl.ledger import Account, Ledger
from tests.harness import new_place, shop
from tests.ledger.workload import ADD, cost, release, sha256

SHOP = Account("shop", "row", ADD, epsilon_cap=4.0)
OTHER = Account("other", "row", ADD, epsilon_cap=2.0)
AT = "file:/somewhere/people.csv"


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    place = new_place(tmp_path / "place")
    (place.root / "contracts" / "shop.yaml").write_text(yaml.safe_dump(shop(private=True)))
    with place.entered():
        yield Settings.from_environment()


def draw(
    ledger: Ledger, settings: Settings, name: str, *, account: str = "shop", publish: bool = True
) -> None:
    """What `NamedRelease` does, without rows."""
    one = release(name, account=account)
    ledger.reserve(one)
    write_receipt(ledger, one, settings)
    if publish:
        path = artefact_of(settings, one)
        path.write_bytes(name.encode())
        ledger.publish(one.release_id, sha256(name))
        write_receipt(ledger, one, settings)


def receipt(settings: Settings, name: str, account: str = "shop") -> Path:
    """Where a release's is."""
    return receipt_of(settings, account, release(name, account=account).release_id)


def charged(settings: Settings) -> None:
    """Accounts shop (a, b published, c reserved; 3 of 4) and other (d; 1 of 2)."""
    with open_ledger(settings) as ledger:
        ledger.ensure_account(SHOP, [AT])
        ledger.ensure_account(OTHER, ["file:/other"])
        for name in "ab":
            draw(ledger, settings, name)
        draw(ledger, settings, "c", publish=False)
        draw(ledger, settings, "d", account="other")


def lose(settings: Settings, *, anchor: bool = True) -> None:
    for path in settings.home.glob("ledger.db*"):
        path.unlink()
    if anchor:
        (settings.home / "ledger.anchor.json").unlink()


@pytest.mark.parametrize("anchor", [True, False], ids=["with its anchor", "alone"])
def test_a_lost_ledger_is_not_made_anew_over_releases_that_stand(
    settings: Settings, anchor: bool
) -> None:
    charged(settings)
    lose(settings, anchor=anchor)
    for _ in range(2):
        with pytest.raises(
            LedgerRefusedError,
            match="releases stand in released/.*restore the ledger from a backup, or `dpicl ledger "
            "adopt`",
        ):
            open_ledger(settings).__enter__()
    shutil.rmtree(settings.home / "keys")
    with pytest.raises(LedgerRefusedError):
        open_ledger(settings).__enter__()


def test_receipts_bring_back_who_may_charge_how_much(settings: Settings) -> None:
    """What a command has decided on shares since the newest charge comes back with the next."""
    stated = replace(SHOP, shares=(("anne", 1.5),))
    with open_ledger(replace(settings, user="anne")) as ledger:
        ledger.ensure_account(stated, [AT])
        draw(ledger, settings, "a")
    lose(settings)
    adopt(settings)
    with open_ledger(replace(settings, user="anne")) as ledger:
        assert ledger.accounts() == [stated]
        with pytest.raises(BudgetError, match="'anne', who has charged 1 of a share of 1.5"):
            ledger.reserve(release("b"), stated=SHOP)
        ledger.verify()


@pytest.mark.parametrize("anchor", [True, False], ids=["with its anchor", "alone"])
def test_receipts_bring_back_totals_caps_addresses_entries_and_what_was_published(
    settings: Settings, anchor: bool
) -> None:
    charged(settings)
    with open_ledger(settings) as ledger:
        before = (
            ledger.accounts(),
            [ledger.spent(name) for name in ("shop", "other")],
            ledger.entries("shop"),
            ledger.addresses("shop"),
        )
    lose(settings, anchor=anchor)
    assert adopt(settings) == (4, [])
    with open_ledger(settings) as ledger:
        assert before == (
            ledger.accounts(),
            [ledger.spent(name) for name in ("shop", "other")],
            ledger.entries("shop"),
            ledger.addresses("shop"),
        )
        assert ledger.published(release("a").release_id) == sha256("a")
        assert not ledger.reserve(release("a")).is_new and not ledger.reserve(release("c")).is_new
        # c counts as begun
        assert not ledger.take_up(release("e", writer="x"), differing=["writer"])
        assert ledger.ensure_account(Account("copy", "row", ADD, 50.0), [AT]).name == "shop"
        draw(ledger, settings, "e")
        with pytest.raises(BudgetError, match="spent 4 of cap 4"):
            ledger.reserve(release("f"))
        ledger.verify()
    with (
        open_ledger(settings) as ledger,
        pytest.raises(LedgerRefusedError, match="only an empty one is made anew"),
    ):
        ledger.verify()
        adopt(settings)


def _harm(settings: Settings, name: str, change: Callable[[str], str]) -> None:
    path = receipt(settings, name)
    path.write_text(change(path.read_text()))


def _swap(settings: Settings) -> None:
    receipt(settings, "b").write_bytes(receipt(settings, "a").read_bytes())


def _older(settings: Settings) -> None:
    """Without what was charged last."""
    receipt(settings, "c").unlink()
    receipt(settings, "d", "other").unlink()
    (settings.home / "released" / "other" / release("d", account="other").release_id).unlink()


HARMS: dict[str, Callable[[Settings], None]] = {
    "missing": lambda settings: receipt(settings, "b").unlink(),
    "truncated": lambda settings: _harm(settings, "b", lambda text: text[: len(text) // 2]),
    "emptied": lambda settings: _harm(settings, "b", lambda text: "[]"),
    "cheaper": lambda settings: _harm(
        settings, "b", lambda text: text.replace('\\"epsilon\\":1', '\\"epsilon\\":0')
    ),
    "of a higher cap": lambda settings: _harm(
        settings, "b", lambda text: text.replace('\\"epsilon_cap\\":4', '\\"epsilon_cap\\":9')
    ),
    "of another number": lambda settings: _harm(
        settings, "b", lambda text: text.replace('"sequence": ', '"sequence": 1')
    ),
    "no record at all": lambda settings: _harm(
        settings, "b", lambda text: '[{"sequence": "x"}, {}]'
    ),
    "of another release": _swap,
    "lost with the artefacts that came last": _older,
    "none of any": lambda settings: (
        [path.unlink() for path in (settings.home / "released" / "shop").glob("*.receipt")] and None
    ),
}


def test_a_charge_that_is_lost_before_one_of_another_account_exhausts_whom_it_may_concern(
    settings: Settings,
) -> None:
    """The newest receipt of all is there, and no witness says what the account had spent."""
    charged(settings)
    receipt(settings, "c").unlink()
    for witness in (settings.witnesses or settings.home).glob("*.json"):
        witness.unlink()
    lose(settings)
    assert adopt(settings) == (3, ["shop"])
    with open_ledger(settings) as ledger:
        assert [one.epsilon_cap for one in ledger.accounts()] == [2.0, 0.0]
        draw(ledger, settings, "e", account="other")


def test_an_account_of_which_nothing_is_left_is_opened_with_a_cap_of_0(settings: Settings) -> None:
    """A later charge of another account names the one that is lost."""
    charged(settings)
    with open_ledger(settings) as ledger:
        draw(ledger, settings, "e")
    shutil.rmtree(settings.home / "released" / "other")
    shutil.rmtree(settings.witnesses or settings.home)
    for name in ("other", "third"):  # what is lost stays lost when the ledger is lost again
        lose(settings)
        assert adopt(settings) == (4, [])
        with open_ledger(settings) as ledger:
            assert ledger.verify() and ledger.find_account(SHOP, [AT]) == SHOP
            opened = ledger.ensure_account(replace(OTHER, name=name), [f"file:/{name}"])
            assert opened.epsilon_cap == 0
            with pytest.raises(BudgetError, match="cap 0.*closed since a charge is lost"):
                ledger.reserve(release("f", account=name), stated=replace(OTHER, name=name))


def test_a_charge_to_a_benchmark_that_is_lost_exhausts_nobody(settings: Settings) -> None:
    with open_ledger(settings) as ledger:
        ledger.ensure_account(SHOP, [AT])
        ledger.ensure_account(Account("public", "row", ADD, benchmark=True))
        draw(ledger, settings, "a")
        draw(ledger, settings, "p", account="public")
        draw(ledger, settings, "b")
    shutil.rmtree(settings.home / "released" / "public")
    lose(settings)
    assert adopt(settings) == (2, [])
    with open_ledger(settings) as ledger:
        assert ledger.ensure_account(OTHER, ["file:/other"]) == OTHER


def test_without_the_mark_of_the_newest_receipt_nothing_is_proved(settings: Settings) -> None:
    """The last receipt of an account may be lost with it."""
    charged(settings)
    (settings.home / "released" / "newest.json").unlink()
    lose(settings)
    assert adopt(settings) == (4, ["other", "shop"])


def test_a_cap_of_an_account_that_was_never_charged_exhausts_no_other(settings: Settings) -> None:
    charged(settings)
    with open_ledger(settings) as ledger:
        ledger.ensure_account(replace(OTHER, name="third"), ["file:/third"])
        ledger.set_cap("third", 1.0)
        write_cap(ledger, "third", settings)
    lose(settings)
    assert adopt(settings) == (4, ["third"])


@pytest.mark.parametrize("killed", [False, True])
def test_a_benchmark_without_a_receipt_is_not_said_to_be_exhausted(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    """Nothing of it is closed; and a rebuild that is finished later says the same."""
    with open_ledger(settings) as ledger:
        ledger.ensure_account(SHOP, [AT])
        ledger.ensure_account(OTHER, ["file:/other"])
        ledger.set_cap("other", 0.0)
        ledger.ensure_account(Account("public", "row", ADD, benchmark=True))
        draw(ledger, settings, "a")
        draw(ledger, settings, "p", account="public")
        draw(ledger, settings, "q", account="public")
        draw(ledger, settings, "b")
    receipt(settings, "p", "public").unlink()
    lose(settings)
    if killed:
        with monkeypatch.context() as patched:
            patched.setattr("dpicl.installation.restore.write_adopted", _killed)
            with pytest.raises(KeyboardInterrupt):
                adopt(settings)
    assert adopt(settings) == (3, [])


@pytest.mark.parametrize("harm", HARMS)
def test_an_account_that_receipts_do_not_prove_is_exhausted(settings: Settings, harm: str) -> None:
    charged(settings)
    HARMS[harm](settings)
    lose(settings)
    _, exhausted = adopt(settings)
    assert "shop" in exhausted
    with open_ledger(settings) as ledger:
        account = ledger.ensure_account(SHOP, [AT] if harm != "none of any" else [])
        # no contract gives it a cap again
        assert (account.name, account.epsilon_cap) == ("shop", 0.0)
        with pytest.raises(BudgetError):
            ledger.reserve(release("new", cost(0.001)))
        ledger.set_cap("shop", 9.0)  # a person's decision
        ledger.verify()


def test_rows_of_an_account_without_receipts_are_found_by_its_contract(settings: Settings) -> None:
    """Else a second contract would open another account on them."""
    charged(settings)
    HARMS["none of any"](settings)
    lose(settings)
    adopt(settings)
    assert settings.data is not None
    with open_ledger(settings) as ledger:
        assert f"file:{settings.data / 'shop.csv'}" in ledger.addresses("shop")


def test_another_key_proves_nothing(settings: Settings) -> None:
    charged(settings)
    lose(settings)
    shutil.rmtree(settings.home / "keys")
    with pytest.raises(LedgerRefusedError):
        adopt(settings)


def test_a_cap_that_somebody_lowered_last_comes_back(settings: Settings) -> None:
    charged(settings)
    with open_ledger(settings) as ledger:
        ledger.set_cap("shop", 3.5)
        write_cap(ledger, "shop", settings)
    lose(settings)
    assert adopt(settings) == (4, [])
    with open_ledger(settings) as ledger:
        assert ledger.ensure_account(SHOP, [AT]).epsilon_cap == 3.5
    (settings.home / "released" / "shop" / "cap.json").write_text("{}")
    lose(settings)
    assert adopt(settings)[1] == ["shop"]


@pytest.mark.parametrize("left", ["artefact", "draft"])
def test_what_stands_without_a_record_of_its_publication_is_published(
    settings: Settings, left: str
) -> None:
    """Killed between publishing and its receipt: a second draw would be a second look at the
    rows.
    """
    with open_ledger(settings) as ledger:
        ledger.ensure_account(SHOP, [AT])
        draw(ledger, settings, "a", publish=False)
        path = artefact_of(settings, release("a"))
        path = path if left == "artefact" else path.with_name(f"{path.name}.{sha256('a')}.draft")
        path.write_bytes(b"a")
        ledger.publish(release("a").release_id, sha256("a"))
    lose(settings)
    assert adopt(settings) == (1, [])
    with open_ledger(settings) as ledger:
        assert ledger.reserve(release("a")).artefact_sha256 == sha256("a")
        assert ledger.publish(release("a").release_id, sha256("second")) == sha256("a")


def test_what_was_taken_up_does_not_come_back_as_two(settings: Settings) -> None:
    with open_ledger(settings) as ledger:
        ledger.ensure_account(SHOP, [AT])
        for name in ("old", "other"):
            ledger.reserve(release(name, writer=name))
            write_receipt(ledger, release(name, writer=name), settings)
        assert ledger.take_up(release("new", writer="new"), differing=["writer"])
        write_receipt(ledger, release("new", writer="new"), settings)
    lose(settings)
    assert adopt(settings) == (2, [])
    with open_ledger(settings) as ledger:
        assert ledger.find(release("old").release_id) is None
        assert ledger.find(release("new").release_id) is not None
        assert ledger.spent("shop").epsilon == 2


def test_killed_before_it_is_written_down_adoption_is_finished_the_next_time(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged(settings)
    lose(settings)
    with monkeypatch.context() as patched:
        patched.setattr("dpicl.installation.restore.write_adopted", _killed)
        with pytest.raises(KeyboardInterrupt):
            adopt(settings)
    with pytest.raises(LedgerRefusedError, match="dpicl ledger adopt"):
        open_ledger(settings).__enter__()
    assert adopt(settings) == (4, [])
    with open_ledger(settings) as ledger:
        assert ledger.verify() == ledger.adopted_record()["sequence"]
        assert adopted_of(settings).exists()
        write_adopted(ledger, settings)


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_ledger_from_a_backup_beside_newer_receipts_is_refused(
    settings: Settings, goes_on: bool
) -> None:
    """Even where its anchor is gone, and where it has grown as long as the one that was lost; by
    the receipts alone.
    """
    settings = replace(settings, witnesses=None)
    with open_ledger(settings) as ledger:
        ledger.ensure_account(SHOP, [AT])
        draw(ledger, settings, "a")
    shutil.copy(settings.home / "ledger.db", settings.home / "backup")
    with open_ledger(settings) as ledger:
        draw(ledger, settings, "b")
    lose(settings)
    (settings.home / "backup").rename(settings.home / "ledger.db")
    if goes_on:
        key = (settings.home / "keys" / "ledger.key").read_bytes()
        with Ledger.open(
            f"sqlite:///{settings.home / 'ledger.db'}", key, settings.home / "ledger.anchor.json"
        ) as ledger:
            for name in "xyz":
                ledger.reserve(release(name, cost(0.1)))
    with pytest.raises(LedgerRefusedError, match="releases stand in released/"):
        open_ledger(settings).__enter__()


def test_a_receipt_stands_before_anything_is_drawn_and_says_what_was_spent(
    settings: Settings,
) -> None:
    with open_ledger(settings) as ledger:
        ledger.ensure_account(SHOP, [AT])
        draw(ledger, settings, "a", publish=False)
        (record,) = json.loads(receipt(settings, "a").read_text())
        said = json.loads(record["content"])
        assert (record["kind"], said["account_row"]["epsilon_cap"], said["addresses"]) == (
            "reserved",
            4,
            [AT],
        )
        assert json.loads(said["spent"])["count"] == 1
        assert newest(settings).read().sequence == record["sequence"]
        assert receipt(settings, "a").stat().st_mode & 0o777 == 0o600
