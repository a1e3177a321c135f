"""What a release would cost is asked for nothing: `protect` and `synth` with --dry-run read no row
and write no file.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dpicl.accounting.guarantee import Neighbours
from dpicl.accounting.ledger import Account
from dpicl.engine.open_ledger import open_ledger
from dpicl.engine.settings import Settings
from tests.harness import Place, call_main, complaint, install, said, shop, shop_rows

Capture = pytest.CaptureFixture[str]
GDP = ("--method", "gdp_tabicl", "--shots", "2")


@pytest.fixture
def till(place: Place) -> Place:
    """A private table with a cap of 3."""
    contract = shop("till", private=True)
    contract["privacy"]["budget"] = {"epsilon": 3}
    install(place, contract, shop_rows(60))
    return place


def charged() -> int:
    with open_ledger(Settings.from_environment()) as ledger:
        return sum(len(ledger.entries(account.name)) for account in ledger.accounts())


def test_the_price_is_what_is_charged_then_and_nothing_afterwards(
    till: Place, capsys: Capture
) -> None:
    asked, out = ("protect", "till", *GDP, "--epsilon", "1.5"), till.root / "demos.jsonl"

    def price() -> list[str]:
        (row,) = (
            line.split()
            for line in said(capsys, *asked, "--dry-run").splitlines()
            if line.startswith(" till")
        )
        return row[1:4]

    *counts, cost = price()
    assert charged() == 0 and not out.exists() and counts == ["1", "0"]
    said(capsys, *asked, "--out", str(out))
    with open_ledger(Settings.from_environment()) as ledger:
        assert float(cost) == pytest.approx(ledger.spent("till").epsilon, rel=1e-3)
    assert price() == ["1", "1", "0"] and charged() == 1


def test_a_new_cap_on_epsilon_leaves_that_on_delta(till: Place, capsys: Capture) -> None:
    nights = Account("nights", "row", Neighbours.ADD_OR_REMOVE_ONE, 3.0, 1e-5)
    with open_ledger(Settings.from_environment()) as ledger:
        ledger.ensure_account(nights)
    for stated, delta in (((), 1e-5), (("--delta", "1e-6"), 1e-6), ((), 1e-6)):
        said(capsys, "budget", "nights", "--cap", "2", *stated)
        with open_ledger(Settings.from_environment()) as ledger:
            assert ledger.accounts() == [replace(nights, epsilon_cap=2.0, delta_cap=delta)]


def test_what_a_cap_refuses_is_refused_after_the_price(till: Place) -> None:
    for command in (("protect", "till"), ("synth", "till", "--rows", "5")):
        asked = till.dpicl(*command, "--epsilon", "9", "--dry-run", "--json")
        assert (
            asked.returncode == 2
            and "account 'till': a new release costs epsilon=18" in asked.stderr
        )
        assert [one["allowed"] for one in json.loads(asked.stdout)] == [False]
        refused = till.dpicl(
            *command, "--epsilon", "9", "--out", "a.parquet" if command[0] == "synth" else "a.jsonl"
        )
        assert complaint(refused) == asked.stderr.splitlines()[-1].removeprefix("dpicl: ")


@pytest.mark.parametrize(
    "options",
    [
        ("--option", "shots=3"),
        ("--method", "pate"),
        ("--epsilon", "0"),
        ("--as", "pdf"),
        ("--generator", "tiny"),
        ("--period", "soon"),
    ],
)
def test_a_dry_run_refuses_what_a_release_refuses(
    till: Place, capsys: Capture, options: tuple[str, ...]
) -> None:
    asked = complaint(call_main(("protect", "till", *options, "--dry-run"), capsys))
    assert asked == complaint(
        call_main(("protect", "till", *options, "--out", str(till.root / "a.jsonl")), capsys)
    )
    assert charged() == 0


def test_a_release_needs_a_file_and_its_price_none(till: Place, capsys: Capture) -> None:
    assert "expected --out FILE, or --dry-run" in complaint(call_main(("protect", "till"), capsys))
    taken = till.root / "taken.jsonl"
    taken.write_text("")
    assert "a new file" in complaint(
        call_main(("protect", "till", "--out", str(taken), "--dry-run"), capsys)
    )
