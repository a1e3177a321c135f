"""A host that was believed lost turns up beside the one that took its place: two chains from one
beginning, and no total of both.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dpicl.ground.errors import BudgetError
from dpicl.home.accounts import open_ledger, write_cap
from dpicl.home.settings import Settings
from dpicl.installation.restore import adopt, back_up, restore
from dpicl.ledger import Account
from tests.harness import new_place
from tests.ledger.workload import ADD, cost, release
from tests.tasks.test_adopt import AT, OTHER, draw, lose

SHOP = Account("shop", "row", ADD, epsilon_cap=10.0)


@pytest.fixture
def lost(tmp_path: Path) -> Iterator[Settings]:
    """A host that has spent 1 of 10 and 1 of 2, and has backups of all it had."""
    with new_place(tmp_path / "place").entered():
        settings = Settings.from_environment()
        with open_ledger(settings) as ledger:
            ledger.ensure_account(SHOP, [AT])
            ledger.ensure_account(OTHER, ["file:/other"])
            draw(ledger, settings, "a")
            draw(ledger, settings, "d", account="other")
        back_up(settings, tmp_path / "backup", tmp_path / "key")
        for name in ("released", "keys"):
            shutil.copytree(settings.home / name, tmp_path / "copied" / name)
        yield settings


def restored(tmp_path: Path, settings: Settings) -> Settings:
    restore(
        home := replace(
            settings, home=tmp_path / "second", witnesses=tmp_path / "of the second host"
        ),
        tmp_path / "backup",
        tmp_path / "key",
    )
    return home


def rebuilt(tmp_path: Path, settings: Settings) -> Settings:
    (
        home := replace(
            settings, home=tmp_path / "second", witnesses=tmp_path / "of the second host"
        )
    ).make_home()
    shutil.copytree(tmp_path / "copied", home.home, dirs_exist_ok=True)
    adopt(home)
    return home


def bring(lost: Settings, home: Settings) -> None:
    """What lies beside each other of the receipts of two hosts; the second one's marks stay."""
    for folder in (lost.home / "released").iterdir():
        if folder.is_dir():
            shutil.copytree(folder, home.home / "released" / folder.name, dirs_exist_ok=True)


def spend(settings: Settings, *names: str) -> None:
    with open_ledger(settings) as ledger:
        for name in names:
            draw(ledger, settings, name)


def state_cap(settings: Settings, cap: float) -> None:
    with open_ledger(settings) as ledger:
        ledger.set_cap("shop", cap)
        write_cap(ledger, "shop", settings)


def is_exhausted(settings: Settings, *others: str) -> None:
    """The account that both have charged; another one is as it was."""
    lose(settings)
    assert adopt(settings)[1] == [*others, "shop"]
    with open_ledger(settings) as ledger:
        assert ledger.verify() and ledger.spent("other").epsilon == 1
        # what stands is free
        assert not ledger.reserve(release("a")).is_new
        with pytest.raises(BudgetError, match="of cap 0"):
            ledger.reserve(release("more", cost(0.1)), stated=replace(SHOP, epsilon_cap=100.0))


@pytest.mark.quick("rebuilt-")
@pytest.mark.parametrize(
    "first_of_both",
    [False, True],
    ids=["", "its only record has the number of the one that says so"],
)
@pytest.mark.parametrize("way", [restored, rebuilt])
def test_an_account_that_two_chains_have_charged_is_exhausted(
    lost: Settings, tmp_path: Path, way: Callable[[Path, Settings], Settings], first_of_both: bool
) -> None:
    home = way(tmp_path, lost)
    state_cap(home, 7.0)
    spend(home, *"xyz")
    spend(lost, *("b" if first_of_both else "bcefghij"))
    bring(lost, home)
    is_exhausted(home)


@pytest.mark.parametrize("lost_last", [False, True], ids=["before another charge", "at the end"])
def test_receipts_of_the_other_chain_do_not_stand_for_a_lost_charge_of_the_same_number(
    lost: Settings, tmp_path: Path, lost_last: bool
) -> None:
    home = rebuilt(tmp_path, lost)
    gone = release("gone", account="other")
    with open_ledger(home) as ledger:
        for name in ("y", "gone") if lost_last else ("gone", "y"):
            draw(ledger, home, name, account="other" if name == "gone" else "shop")
    with open_ledger(lost) as ledger:
        ledger.set_cap("shop", 50.0)
        for number in range(20):  # every number that the rebuilt one used
            draw(ledger, lost, f"b{number}", publish=False)
    for path in (lost.home / "released" / "shop").glob("*.receipt"):
        shutil.copy(path, home.home / "released" / "shop")
    for path in (home.home / "released" / "other").glob(f"{gone.release_id}*"):
        path.unlink()
    shutil.rmtree(home.witnesses or home.home)
    lose(home)
    assert adopt(home)[1] == ["other", "shop"]


def test_the_chain_that_a_cap_is_of_is_told_too(lost: Settings, tmp_path: Path) -> None:
    home = restored(tmp_path, lost)
    spend(lost, *"bcef")
    state_cap(lost, 50.0)
    bring(lost, home)
    for receipt in home.home.glob("released/shop/*.receipt"):
        if receipt.stem != release("a").release_id:
            receipt.unlink()
            receipt.with_suffix("").unlink()
    is_exhausted(home)


def test_lost_again_the_second_chain_is_still_told_from_the_first(
    lost: Settings, tmp_path: Path
) -> None:
    home = restored(tmp_path, lost)
    state_cap(home, 7.0)
    spend(home, *"xy")
    lose(home)
    # its own receipts prove all of it
    assert adopt(home) == (4, [])
    spend(home, *"z")
    spend(lost, *"bcefghij")
    bring(lost, home)
    is_exhausted(home)


def test_receipts_of_the_second_chain_prove_nothing_without_its_beginning(
    lost: Settings, tmp_path: Path
) -> None:
    home = restored(tmp_path, lost)
    state_cap(home, 7.0)
    spend(home, *"xy")
    (home.home / "released" / "adopted.json").unlink()
    is_exhausted(home, "other")


def test_the_mark_of_the_newest_receipt_says_nothing_of_another_chain(
    lost: Settings, tmp_path: Path
) -> None:
    """Charges at the end of its own may be lost."""
    home = restored(tmp_path, lost)
    spend(lost, "b")
    shutil.copytree(lost.home / "released", home.home / "released", dirs_exist_ok=True)
    is_exhausted(home, "other")


def test_rows_that_two_chains_have_bound_to_two_accounts_pay_for_nothing(
    lost: Settings, tmp_path: Path
) -> None:
    home = restored(tmp_path, lost)
    for settings, name in ((lost, "mine"), (home, "yours")):
        with open_ledger(settings) as ledger:
            ledger.ensure_account(Account(name, "row", ADD, 5.0), ["file:/rows"])
            ledger.set_cap(name, 5.0)
            draw(ledger, settings, name, account=name)
    bring(lost, home)
    lose(home)
    assert adopt(home)[1] == ["mine", "yours"]
    with open_ledger(home) as ledger:
        assert (
            ledger.ensure_account(Account("third", "row", ADD, 5.0), ["file:/rows"]).epsilon_cap
            == 0
        )
        ledger.verify()
