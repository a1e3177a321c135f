"""A file or folder has one account, by whichever of its paths it is reached; what became of one
that is gone is stated, not guessed.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from dpicl.accounting.guarantee import Neighbours
from dpicl.ground import files
from dpicl.ground.errors import PrivacyError
from dpicl.ground.files import inode_address
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.ledger import Account, Ledger
from dpicl.ledger import accounts as assets
from dpicl.release.names import accounts_of
from tests.harness import Place, install_texts, letters, said, shop_rows

from .asset_tools import ROWS, accounts, contract, dry, payer, refusal, spend

Capture = pytest.CaptureFixture[str]
OTHERS = shop_rows(80, seed=1)
SHOP = Account("first", "row", Neighbours.ADD_OR_REMOVE_ONE, 1.0)


def data(place: Place, name: str) -> Path:
    return place.root / "data" / name


def first(place: Place) -> None:
    """The account `first` pays for `a.csv`."""
    data(place, "a.csv").write_text(ROWS)
    assert payer(contract(place, "first", {"file": "a.csv"})) == "first"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(
        f"sqlite:///{tmp_path / 'ledger.db'}", b"k" * 32, tmp_path / "anchor.json"
    ) as ledger:
        yield ledger


def hard_link(place: Place) -> str:
    os.link(data(place, "a.csv"), data(place, "b.csv"))
    return "b.csv"


def hard_link_below(place: Place) -> str:
    data(place, "deep/er").mkdir(parents=True)
    os.link(data(place, "a.csv"), data(place, "deep/er/c.csv"))
    return "deep/er/c.csv"


def link_to_hard_link(place: Place) -> str:
    data(place, "soft.csv").symlink_to(data(place, hard_link(place)))
    return "soft.csv"


def hard_link_by_link(place: Place) -> str:
    data(place, "soft.csv").symlink_to("a.csv")
    os.link(data(place, "soft.csv"), data(place, "b.csv"), follow_symlinks=True)
    return "b.csv"


def symbolic_link(place: Place) -> str:
    data(place, "soft.csv").symlink_to("a.csv")
    return "soft.csv"


def roundabout(place: Place) -> str:
    data(place, "deep").mkdir()
    return "deep/../a.csv"


def linked_folder(place: Place) -> str:
    data(place, "soft").symlink_to(place.root / "data")
    return "soft/a.csv"


def link_of_a_link(place: Place) -> str:
    os.link(data(place, hard_link(place)), data(place, "c.csv"))
    data(place, "b.csv").unlink()
    return "c.csv"


def appended(place: Place) -> str:
    name = hard_link(place)
    with data(place, "a.csv").open("a") as file:
        file.write(ROWS.splitlines()[1] + "\n")
    return name


SECOND = [
    hard_link,
    hard_link_below,
    link_to_hard_link,
    hard_link_by_link,
    symbolic_link,
    roundabout,
    linked_folder,
    link_of_a_link,
    appended,
]


@pytest.mark.parametrize("way", SECOND)
def test_a_second_path_of_a_file_pays_from_its_account(
    place: Place, capsys: Capture, way: Callable[[Place], str]
) -> None:
    first(place)
    assert payer(contract(place, "second", {"file": way(place)})) == "first"


def test_what_was_bound_before_inodes_were_is_found_as_well(
    place: Place, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(assets, "inode_address", lambda path: None)
        first(place)
    assert payer(contract(place, "second", {"file": hard_link(place)})) == "first"


def test_a_hard_link_spends_nothing_beside_the_file(place: Place, capsys: Capture) -> None:
    first(place)
    code, sentence = spend(place, capsys, "first")
    assert code == 0, sentence
    code, sentence = spend(
        place, capsys, contract(place, "second", {"file": hard_link(place), "title": "Others"})
    )
    assert code == 2 and "a new release costs epsilon=1, spent 1 of cap 1" in sentence, sentence
    assert accounts(capsys) == {"first": 1.0}


def test_an_sqlite_file_is_one_by_all_its_names(
    place: Place, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite3.connect(data(place, "shop.db")) as connection:
        pd.read_csv(StringIO(ROWS)).to_sql("shop", connection)
    os.link(data(place, "shop.db"), data(place, "hard.db"))
    data(place, "soft.db").symlink_to("hard.db")
    spellings = [
        f"sqlite:///{place.root}/data/{name}"
        for name in ("shop.db", "hard.db", "soft.db", "../data/hard.db", "./shop.db")
    ]
    spellings += [f"sqlite+pysqlite:///{os.path.relpath(data(place, 'hard.db'))}"]
    refused = [
        f"sqlite:///file:{place.root}/data/shop.db?mode=ro&uri=true",
        f"sqlite:///{place.root}/data/shop.db?mode=ro",
        "sqlite://",
    ]
    for number, url in enumerate(spellings + refused):
        monkeypatch.setenv(f"DB_{number}", url)
        name = contract(
            place,
            f"db{number}",
            {
                "query": {
                    "url_env": f"DB_{number}",
                    "sql": "SELECT age, spent, colour, member, bought FROM shop",
                }
            },
        )
        if url in refused:
            assert "names no file alone" in dry(name)
        else:
            assert payer(name) == "db0", url


# Files that are replaced, moved, and whose inodes are used again


def replaced(path: Path, rows: str = ROWS) -> None:
    """As rsync and all who write safely do it: the path stays, its inode does not."""
    draft = path.with_name("draft")
    draft.write_text(rows)
    draft.replace(path)


def test_a_file_that_is_replaced_every_night_stays_the_asset(place: Place, capsys: Capture) -> None:
    first(place)
    kept = []
    for night in range(4):
        kept.append(data(place, "a.csv").open())  # so that no inode is used again
        replaced(data(place, "a.csv"), shop_rows(100 + night))
        assert payer("first") == "first"
    assert payer(contract(place, "second", {"file": hard_link(place)})) == "first", (
        "of tonight's file"
    )
    for file in kept:
        file.close()


def test_two_files_that_are_replaced_in_turn_may_swap_their_inodes(
    place: Place, capsys: Capture
) -> None:
    first(place)
    data(place, "b.csv").write_text(ROWS)
    assert payer(contract(place, "second", {"file": "b.csv"})) == "second"
    for one, other in (("a.csv", "b.csv"), ("b.csv", "a.csv")) * 2:
        data(place, one).rename(data(place, "aside"))
        data(place, other).rename(data(place, one))
        data(place, "aside").rename(data(place, other))
        assert (payer("first"), payer("second")) == ("first", "second")


def test_yesterdays_file_that_a_backup_links_to_is_asked_about(
    place: Place, capsys: Capture
) -> None:
    """`rsync --link-dest` and `cp -al` leave earlier nights under other names."""
    first(place)
    os.link(data(place, "a.csv"), data(place, "yesterday.csv"))
    replaced(data(place, "a.csv"))
    assert payer("first") == "first"
    assert "dpicl budget first --other-file" in dry(
        contract(place, "second", {"file": "yesterday.csv"})
    )


def gone_and_renamed(place: Place) -> str:
    data(place, "a.csv").rename(data(place, "b.csv"))
    return "b.csv"


def gone_and_linked(place: Place) -> str:
    name = hard_link(place)
    data(place, "a.csv").unlink()
    return name


def rotated(place: Place) -> str:
    data(place, "a.csv").rename(data(place, "a.csv.csv"))
    data(place, "a.csv").write_text(shop_rows(50))
    return "a.csv.csv"


def moved_into_a_folder(place: Place) -> str:
    data(place, "old").mkdir()
    data(place, "a.csv").rename(data(place, "old/a.csv"))
    return "old/a.csv"


def used_again(place: Place) -> str:
    """The inode is given to a really different file."""
    wanted = data(place, "a.csv").stat().st_ino
    data(place, "a.csv").unlink()
    for number in range(2000):
        data(place, f"n{number}.csv").touch()
        if data(place, f"n{number}.csv").stat().st_ino == wanted:
            data(place, f"n{number}.csv").write_text(OTHERS)
            return f"n{number}.csv"
    pytest.skip("this file system does not use an inode again at once")


GONE = [gone_and_renamed, gone_and_linked, rotated, moved_into_a_folder, used_again]


@pytest.mark.parametrize("way", GONE)
def test_an_inode_without_a_living_path_is_refused_with_the_command_that_states_what_it_is(
    place: Place, capsys: Capture, way: Callable[[Place], str]
) -> None:
    first(place)
    name = way(place)
    sentence = dry(contract(place, "second", {"file": name}))
    assert "moved_from" in sentence and "account: first" in sentence
    _, _, command = sentence.partition("`dpicl ")[2].partition("`dpicl ")
    command = command or sentence.split("`dpicl ")[1]
    command = command.split("`")[0]
    assert command == f"budget first --other-file {data(place, name).resolve()}"
    for source, account in (
        ({"file": name, "moved_from": "a.csv"}, None),
        ({"file": name}, "first"),
    ):
        more = {} if account is None else {"account": account}
        assert payer(contract(place, "moved", source, **more)) == "first", (
            "the same rows, at another place"
        )


FIRST = [{"file": "f/a.parquet"}, {"folder": "f"}]
AFTER: dict[str, tuple[tuple[str, str], dict[str, str]]] = {
    "to a folder": (("f/a.parquet", "g/a.parquet"), {"folder": "g"}),
    "to a file elsewhere": (("f/a.parquet", "b.parquet"), {"file": "b.parquet"}),
    "to another name": (("f/a.parquet", "f/b.parquet"), {"file": "f/b.parquet"}),
    "with its folder": (("f", "h"), {"folder": "h"}),
    "with its folder, as a file": (("f", "h"), {"file": "h/a.parquet"}),
    "below": (("f/a.parquet", "f/old/a.parquet"), {"folder": "f/old"}),
}


@pytest.mark.parametrize("stated", FIRST, ids=str)
@pytest.mark.parametrize("name", AFTER)
def test_a_file_that_is_moved_into_a_folder_or_out_of_one_is_the_same_rows(
    place: Place, stated: dict[str, str], name: str
) -> None:
    for folder in ("f", "g", "f/old"):
        data(place, folder).mkdir()
    pd.read_csv(StringIO(ROWS)).to_parquet(data(place, "f/a.parquet"))
    assert (
        payer(
            contract(place, "first", {**stated, **({"file": None} if "folder" in stated else {})})
        )
        == "first"
    )
    (old, new), source = AFTER[name]
    data(place, old).rename(data(place, new))
    second = contract(place, "second", {"file": None, **source})
    try:
        assert payer(second) == "first", "it lies in what is known still"
    except PrivacyError as refused:
        assert "that account 'first' paid for" in str(refused)


def test_a_delivery_that_was_archived_is_known_for_as_many_nights_as_inodes_are(
    place: Place,
) -> None:
    data(place, "nights").mkdir()
    data(place, "kept").mkdir()
    known = contract(place, "first", {"file": None, "folder": "nights"})
    for night in range(assets.MOST_INODES - 4):
        pd.read_csv(StringIO(ROWS)).to_parquet(data(place, f"nights/{night}.parquet"))
        assert payer(known) == "first"
        if night:
            data(place, f"nights/{night - 1}.parquet").rename(
                data(place, f"kept/{night - 1}.parquet")
            )
    for night in (0, 7):
        assert "that account 'first' paid for" in dry(
            contract(place, f"archived{night}", {"file": f"kept/{night}.parquet"})
        )


@pytest.mark.quick("gone_and_renamed", "used_again")
@pytest.mark.parametrize("way", GONE)
def test_what_is_stated_to_be_another_file_has_an_account_of_its_own(
    place: Place, capsys: Capture, way: Callable[[Place], str]
) -> None:
    first(place)
    name = contract(place, "second", {"file": (path := way(place))})
    dry(name)
    assert "another file" in said(capsys, "budget", "first", "--other-file", str(data(place, path)))
    assert payer(name) == "second"
    assert set(accounts(capsys)) >= {"first", "second"}, (
        "and the chain, which keeps the statement, is intact"
    )
    assert "nothing to state" in refusal(
        capsys, "budget", "first", "--other-file", str(data(place, path))
    )


def test_a_living_path_cannot_be_stated_to_be_another_file(place: Place, capsys: Capture) -> None:
    first(place)
    link = str(data(place, hard_link(place)))
    for path in (str(data(place, "a.csv")), link):
        assert "account 'first'" in refusal(capsys, "budget", "first", "--other-file", path)
    assert "has paid for no file" in refusal(capsys, "budget", "first", "--other-file", __file__)
    assert "expected a file" in refusal(
        capsys, "budget", "first", "--other-file", str(data(place, "none.csv"))
    )
    assert "not open" in refusal(capsys, "budget", "nobody", "--other-file", link)
    assert "stands alone" in refusal(capsys, "budget", "first", "--other-file", link, "--cap", "3")
    assert "needs an account" in refusal(capsys, "budget", "--other-file", link)
    assert payer(contract(place, "second", {"file": "b.csv"})) == "first"


def test_a_set_of_texts_is_one_by_all_its_names(place: Place) -> None:
    for name in ("letters", "linked"):
        install_texts(
            place, letters(name, private=True), b'{"text": "made up", "label": "no"}\n', b""
        )
    data(place, "linked/train.jsonl").unlink()
    os.link(data(place, "letters/train.jsonl"), data(place, "linked/train.jsonl"))
    paying = accounts_of([("letters", "dp_icl"), ("linked", "dp_icl")], Settings.current())
    assert {account.name for account in paying} == {"letters"}


def test_an_inode_that_two_accounts_had_leaves_both_their_budgets_when_a_lost_ledger_is_made_anew(
    place: Place, capsys: Capture
) -> None:
    first(place)
    data(place, "b.csv").write_text(ROWS)
    assert payer(contract(place, "second", {"file": "b.csv"})) == "second"
    assert spend(place, capsys, "first")[0] == 0
    for one, other in (("a.csv", "aside"), ("b.csv", "a.csv"), ("aside", "b.csv")):
        data(place, one).rename(data(place, other))
    # its receipt names the inode that the first one's names
    assert spend(place, capsys, "second")[0] == 0
    (place.home / "ledger.db").unlink()
    said(capsys, "ledger", "adopt")
    assert accounts(capsys) == {"first": 1.0, "second": 1.0}
    assert (payer("first"), payer("second")) == ("first", "second")
    with open_ledger(Settings.current()) as ledger:
        assert {account.epsilon_cap for account in ledger.accounts()} == {1.0}, (
            "neither is closed for want of proof"
        )


# Folders


@pytest.fixture
def folder(place: Place, capsys: Capture) -> Iterator[Path]:
    """An account `first` of a folder of two files."""
    path = data(place, "parts")
    path.mkdir()
    for name in ("p0.parquet", "p1.parquet"):
        pd.read_csv(StringIO(ROWS)).to_parquet(path / name)
    assert payer(contract(place, "first", {"folder": "parts"})) == "first"
    yield path


def part_alone(place: Place, folder: Path) -> dict[str, str]:
    os.link(folder / "p0.parquet", data(place, "b.parquet"))
    return {"file": "b.parquet"}


def folder_of_links(place: Place, folder: Path) -> dict[str, str]:
    """`cp -al`"""
    data(place, "copy").mkdir()
    for path in folder.iterdir():
        os.link(path, data(place, "copy") / path.name)
    return {"folder": "copy"}


def folder_with_one_link(place: Place, folder: Path) -> dict[str, str]:
    data(place, "copy").mkdir()
    pd.read_csv(StringIO(ROWS)).to_parquet(data(place, "copy/q.parquet"))
    os.link(folder / "p1.parquet", data(place, "copy/r.parquet"))
    return {"folder": "copy"}


def linked(place: Place, folder: Path) -> dict[str, str]:
    data(place, "soft").symlink_to(folder)
    return {"folder": "soft/"}


def file_below_a_link(place: Place, folder: Path) -> dict[str, str]:
    linked(place, folder)
    return {"file": "soft/p1.parquet"}


@pytest.mark.parametrize(
    "way", [part_alone, folder_of_links, folder_with_one_link, linked, file_below_a_link]
)
def test_what_shares_a_file_with_a_folder_pays_from_its_account(
    place: Place, capsys: Capture, folder: Path, way: Callable[[Place, Path], dict[str, str]]
) -> None:
    assert payer(contract(place, "second", way(place, folder))) == "first"


def test_a_folder_that_is_renamed_is_asked_about(
    place: Place, capsys: Capture, folder: Path
) -> None:
    folder.rename(data(place, "renamed"))
    assert "--other-file" in dry(contract(place, "second", {"folder": "renamed"}))
    assert payer(contract(place, "third", {"folder": "renamed", "moved_from": "parts"})) == "first"


def test_a_folder_beside_it_is_another_asset(place: Place, capsys: Capture, folder: Path) -> None:
    data(place, "beside").mkdir()
    pd.read_csv(StringIO(ROWS)).to_parquet(data(place, "beside/p0.parquet"))
    assert payer(contract(place, "second", {"folder": "beside"})) == "second", (
        "a copy is another place"
    )


@pytest.mark.parametrize("source", [{"folder": "bound"}, {"file": "bound/p0.parquet"}])
def test_a_folder_that_is_mounted_twice_is_one(
    place: Place, capsys: Capture, folder: Path, source: dict[str, str]
) -> None:
    data(place, "bound").mkdir()
    if subprocess.run(
        ["mount", "--bind", folder, data(place, "bound")], check=False, capture_output=True
    ).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        assert payer(contract(place, "second", source)) == "first"
    finally:
        subprocess.run(["umount", data(place, "bound")], check=True)


def test_a_file_system_that_ignores_case_has_one_account_for_all_spellings(
    place: Place, capsys: Capture, tmp_path: Path
) -> None:
    image, at = tmp_path / "image", place.root / "data" / "any"
    at.mkdir()
    image.write_bytes(b"\0" * (4 << 20))
    made = subprocess.run(
        ["mkfs.ext4", "-q", "-O", "casefold", image], check=False, capture_output=True
    )
    if (
        made.returncode
        or subprocess.run(
            ["mount", "-o", "loop", image, at], check=False, capture_output=True
        ).returncode
    ):
        pytest.skip("no file system that ignores case can be mounted here")
    try:
        (at / "Folder").mkdir()
        subprocess.run(["chattr", "+F", at / "Folder"], check=True, capture_output=True)
        (at / "Folder/Shop.csv").write_text(ROWS)
        for number, spelt in enumerate(("Shop.csv", "shop.csv", "SHOP.CSV.", "sHOP.csv")):
            name = contract(place, f"case{number}", {"file": f"any/Folder/{spelt.rstrip('.')}"})
            assert payer(name) == "case0", spelt
    finally:
        subprocess.run(["umount", at], check=True)


def test_where_case_is_ignored_in_appearance_alone_the_account_is_one_too(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same on every machine: what the system says of a path does not depend on its case."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "shop.csv").write_text(ROWS)
    for name in ("stat", "statvfs"):
        whatever = getattr(os, name)
        monkeypatch.setattr(
            os,
            name,
            lambda path, *, of=whatever, **how: of(
                str(tmp_path) + str(path).removeprefix(str(tmp_path)).lower(), **how
            ),
        )
    ledger.ensure_account(SHOP, [f"file:{tmp_path}/folder/shop.csv"])
    for number, spelt in enumerate(
        ("folder/Shop.csv", "FOLDER/shop.csv", "Folder/SHOP.CSV", "Folder", "FOLDER")
    ):
        assert (
            ledger.ensure_account(
                replace(SHOP, name=f"other{number}"), [f"file:{tmp_path}/{spelt}"]
            ).name
            == "first"
        ), spelt


# Hosts, and what the ledger keeps


def bound(ledger: Ledger) -> list[str]:
    return [address for address in ledger.addresses("first") if address.startswith("inode:")]


def test_another_host_s_file_of_the_same_device_and_inode_is_another(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("rows")
    ledger.ensure_account(SHOP, [f"file:{tmp_path}/a"])
    (tmp_path / "a").rename(tmp_path / "b")
    monkeypatch.setattr(files, "host", lambda: "f" * 16)
    assert (
        ledger.ensure_account(replace(SHOP, name="second"), [f"file:{tmp_path}/b"]).name == "second"
    )
    assert (
        len(bound(ledger)) == 1
        and len(
            {one.split(":")[1] for one in (*bound(ledger), str(inode_address(f"{tmp_path}/b")))}
        )
        == 2
    )


def test_an_account_remembers_the_newest_inodes_and_its_chain_stays_intact(
    ledger: Ledger, tmp_path: Path
) -> None:
    kept = []
    for night in range(assets.MOST_INODES + 8):
        replaced(tmp_path / "a", str(night))
        kept.append((tmp_path / "a").open())
        ledger.ensure_account(SHOP, [f"file:{tmp_path}/a"])
    assert len(bound(ledger)) == assets.MOST_INODES and inode_address(f"{tmp_path}/a") in bound(
        ledger
    )
    ledger.verify()
    for file in kept:
        file.close()


def test_a_dry_look_at_an_account_changes_nothing_twice(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("rows")
    ledger.ensure_account(SHOP, [f"file:{tmp_path}/a"])
    end = ledger.end
    ledger.ensure_account(SHOP, [f"file:{tmp_path}/a"])
    assert ledger.end == end


# Mutants: each brings a fault back, and the test that is named catches it


def _no_living(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.LivingPaths, "overlap", lambda self, one, other: False)
    monkeypatch.setattr(assets, "inode_address", lambda path: None)


def _no_inodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "inode_address", lambda path: None)


def _no_files_in_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.LivingPaths, "_files_linked", lambda self, path: frozenset())
    monkeypatch.setattr(assets, "MOST_FILES", 0)


def _inode_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a match of inodes alone said that a file is the same."""
    monkeypatch.setattr(assets, "check_doubt", lambda payers, own: None)


@pytest.mark.parametrize(
    ("mutant", "way"),
    [
        (_no_living, hard_link),
        (_no_living, link_to_hard_link),
        (_no_inodes, gone_and_renamed),
        (_inode_decides, rotated),
    ],
)
def test_mutants_open_a_second_budget(
    place: Place,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    mutant: Callable[[pytest.MonkeyPatch], None],
    way: Callable[[Place], str],
) -> None:
    mutant(monkeypatch)
    first(place)
    assert payer(contract(place, "second", {"file": way(place)})) == "second", (
        "the mutant, which the tests above refuse"
    )


def test_a_mutant_that_looks_at_no_file_in_folders_opens_a_second_budget(
    place: Place, capsys: Capture, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    _no_files_in_folders(monkeypatch)
    assert payer(contract(place, "second", folder_of_links(place, folder))) == "second"


def test_another_folder_s_file_is_not_given_the_releases_of_a_contract_s_name(
    place: Place, capsys: Capture
) -> None:
    """Two folders with a contract of one name each, and one state home: rows of the one were handed
    out as those of the other, for nothing.
    """
    for folder, rows in (("one", ROWS), ("two", OTHERS)):
        data(place, folder).mkdir()
        data(place, f"{folder}/rows.csv").write_text(rows)
    contract(place, "shop", {"file": "one/rows.csv"})
    assert spend(place, capsys, "shop")[0] == 0
    contract(place, "shop", {"file": "two/rows.csv"})
    code, told = spend(place, capsys, "shop")
    assert code == 2 and accounts(capsys) == {"shop": 1}
    assert f"account 'shop' has paid for {data(place, 'one/rows.csv')}" in told
    assert "expected `account: shop` in the contract where both are the same asset" in told
    contract(place, "shop", {"file": "two/rows.csv"}, account="shop")
    assert "a new release costs epsilon=1, spent 1 of cap 1" in spend(place, capsys, "shop")[1]


def test_the_next_file_of_an_asset_goes_on_with_its_account(place: Place, capsys: Capture) -> None:
    """A link that is pointed anew each month, and a name with the month in it."""
    data(place, "m1.csv").write_text(ROWS)
    data(place, "m2.csv").write_text(OTHERS)
    data(place, "latest.csv").symlink_to("m1.csv")
    contract(place, "shop", {"file": "latest.csv"})
    assert spend(place, capsys, "shop")[0] == 0
    data(place, "latest.csv").unlink()
    data(place, "latest.csv").symlink_to("m2.csv")
    assert payer("shop") == "shop"
    data(place, "m3.csv").write_text(ROWS)
    contract(place, "shop", {"file": "m3.csv"})
    assert payer("shop") == "shop"


def test_a_file_that_is_gone_goes_on_where_it_is_now(place: Place, capsys: Capture) -> None:
    """As on a host that has the folder elsewhere: nothing there tells that they are others."""
    data(place, "one.csv").write_text(ROWS)
    contract(place, "shop", {"file": "one.csv"})
    assert spend(place, capsys, "shop")[0] == 0
    (place.root / "data" / "elsewhere").mkdir()
    data(place, "elsewhere/one.csv").write_text(ROWS)
    data(place, "one.csv").rename(place.root / "kept.csv")
    contract(place, "shop", {"file": "elsewhere/one.csv"})
    assert payer("shop") == "shop"
