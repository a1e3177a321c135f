"""A person's share of an account's cap is refused before a row is read, on a table and on texts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

import dpicl
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from tests.cli.conftest import Cli
from tests.harness import Place, install_texts, letters, shop, shop_rows, typed

TOLD = "by 'anne', who has charged 0 of a share of 0.5; expected less, another user, or a larger"


@pytest.fixture
def shared(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Anne may charge half an epsilon of the table's cap, and of that of the texts."""
    content = shop("shared", private=True)
    content["privacy"] |= {
        "neighbours": "add-or-remove-one",
        "budget": {"epsilon": 5, "by": {"anne": 0.5}},
    }
    (place.root / "contracts" / "shared.yaml").write_text(yaml.safe_dump(content))
    (place.root / "data" / content["source"]["file"]).write_text(shop_rows(120))
    (place.root / "data" / content["queries"]["file"]).write_text(shop_rows(12, seed=99))
    monkeypatch.setenv("DPICL_USER", "anne")
    return place


@pytest.mark.parametrize("more", ["", " --dry-run"])
def test_a_table_beyond_the_share_is_refused_and_opens_no_account(
    shared: Place, cli: Cli, more: str
) -> None:
    out = shared.root / "out.csv"
    line = f"synth shared --epsilon 1 --method mst_tabicl --rows 20 --out {out}"
    assert TOLD in cli.refused(line + more)
    assert json.loads(cli("budget --json")) == []
    cli(f"synth shared --epsilon 0.5 --method mst_tabicl --rows 20 --out {out} --anyway")
    (account,) = json.loads(cli("budget --json"))
    assert account["epsilon_spent"] == 0.5


def test_a_price_says_what_the_share_has_left(shared: Place, cli: Cli) -> None:
    """Less than the cap has, on a terminal, as JSON and in Python; none where there is no share."""
    out = shared.root / "a.csv"
    line = f"synth shared --epsilon 0.25 --method mst_tabicl --rows 20 --out {out} --anyway"

    def priced() -> dict[str, Any]:
        (price,) = json.loads(cli.whole(f"{line} --dry-run --json")[1])
        return dict(price)

    assert (priced()["epsilon_left"], priced()["epsilon_left_of_share"]) == (4.75, 0.25)
    assert "left of your share" in " ".join(cli.whole(f"{line} --dry-run")[1].split())
    (quote,) = dpicl.Session().quote("shared", epsilon=0.25, method="mst_tabicl", anyway=True)
    assert (quote.quote.left, quote.share_left) == (4.75, 0.25)
    os.environ["DPICL_USER"] = "ben"
    assert priced()["epsilon_left_of_share"] is None
    assert "left of your share" not in " ".join(cli.whole(f"{line} --dry-run")[1].split())


def test_what_is_left_is_never_negative(shared: Place, cli: Cli) -> None:
    """As in a restored copy, whose caps are 0: the table says what the refusal says."""
    out = shared.root / "out.csv"
    cli(f"synth shared --epsilon 0.5 --method mst_tabicl --rows 20 --out {out} --anyway")
    cli("budget shared --cap 0.25")
    cli("budget shared --share anne=0.25")
    code, printed, _ = cli.whole("budget --json")  # which warns of the caps that differ
    (account,) = json.loads(printed)
    assert code == 0 and account["epsilon_left"] == 0
    assert account["users"][0]["epsilon_left"] == 0


def test_a_sum_has_no_more_digits_than_its_terms(shared: Place, cli: Cli) -> None:
    line = "synth shared --method mst_tabicl --rows 20 --anyway"
    for epsilon in ("0.1", "0.2"):  # whose binary sum is 0.30000000000000004
        cli(f"{line} --epsilon {epsilon} --out {shared.root / f'{epsilon}.csv'}")
    printed = cli("budget --json")
    assert '"epsilon_spent": 0.3,' in printed and "0000000" not in printed


def test_a_refused_call_ties_no_file_to_an_account(shared: Place, cli: Cli) -> None:
    """By the name of an account that is open, whatever asks: a call, its price, or a list."""
    rows = pd.DataFrame({"on": [False, True] * 40})
    schema = {"columns": {"on": {"type": "boolean"}}}
    dpicl.protect(rows, schema, epsilon=1, account="shared", budget=1)
    line = f"synth shared --epsilon 1 --method mst_tabicl --rows 20 --out {shared.root / 'out.csv'}"
    cli("budget")
    assert cli.ended(f"{line} --dry-run")[0] == 2
    assert "account 'shared': " in cli.refused(line)
    with open_ledger(Settings.from_environment()) as ledger:
        assert ledger.addresses("shared") == ["frame:shared"]
    contracts = shared.root / "contracts"
    content = yaml.safe_load((contracts / "shared.yaml").read_text()) | {"name": "other"}
    del content["privacy"]["budget"]["by"]
    (contracts / "other.yaml").write_text(yaml.safe_dump(content))
    cli(line.replace("synth shared", "synth other"))
    told = {row["account"]: row["epsilon_spent"] for row in json.loads(cli("budget --json"))}
    assert told == {"shared": 1, "other": 1}


def test_others_may_charge_more_and_what_they_paid_for_is_free(
    shared: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    line = "synth shared --epsilon 1 --method mst_tabicl --rows 20 --out"
    monkeypatch.setenv("DPICL_USER", "nightly")
    cli(f"{line} {tmp_path / 'one.csv'}")
    monkeypatch.setenv("DPICL_USER", "anne")
    assert "free now" in cli(f"{line} {tmp_path / 'two.csv'}")


def test_texts_that_are_answered_one_by_one_are_refused_as_well(
    place: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = {"epsilon": 5, "delta": 0.01, "by": {"anne": 0.5}}
    install_texts(place, letters(privacy={"budget": budget}))
    monkeypatch.setenv("DPICL_USER", "anne")
    line = "ask --contract letters --model fake --shots 1 --count 2 --epsilon 2 'who is there?'"
    assert TOLD in cli.refused(line)
    assert json.loads(cli("budget --json")) == []


def test_a_share_of_one_account_is_none_of_another(
    shared: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = shop("other", private=True)
    content["privacy"] |= {"neighbours": "add-or-remove-one", "budget": {"epsilon": 5}}
    (shared.root / "contracts" / "other.yaml").write_text(yaml.safe_dump(content))
    (shared.root / "data" / content["source"]["file"]).write_text(shop_rows(120, seed=3))
    (shared.root / "data" / content["queries"]["file"]).write_text(shop_rows(12, seed=99))
    run = "run private --methods mst_tabicl --epsilons 1 --shots 2 --seeds 0 --dry-run --datasets"
    assert "account 'shared': requested epsilon=1 " + TOLD in cli.refused(f"{run} shared,other")
    assert "other" in cli(f"{run} other")


def second_of(shared: Place, budget: dict[str, object]) -> None:
    """A second contract on the same rows."""
    content = yaml.safe_load((shared.root / "contracts" / "shared.yaml").read_text())
    content |= {"version": 2, "name": "second", "privacy": content["privacy"] | {"budget": budget}}
    (shared.root / "contracts" / "second.yaml").write_text(yaml.safe_dump(content))


def synth(shared: Place, contract: str, epsilon: float) -> str:
    """A command that releases to a new file."""
    out = shared.root / f"{contract}-{epsilon}.csv"
    return (
        f"synth {contract} --epsilon {epsilon} --method mst_tabicl --rows 20 --anyway --out {out}"
    )


def test_a_second_contract_on_the_same_rows_is_no_way_around_a_share(
    shared: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli(synth(shared, "shared", 0.25))
    second_of(shared, {"epsilon": 5})
    told = "by 'anne', who has charged 0.25 of a share of 0.5"
    line = synth(shared, "second", 0.375)
    for refused in (line, f"{line} --dry-run"):
        assert told in cli.refused(refused)
    monkeypatch.setenv("DPICL_USER", "nightly")
    cli(line)
    (account,) = json.loads(cli("budget --json"))
    users = {user.pop("user"): user for user in account["users"]}
    assert users == {
        "anne": {
            "releases": 1,
            "epsilon_spent": 0.25,
            "epsilon_share": 0.5,
            "epsilon_left": 0.25,
        },
        "nightly": {
            "releases": 1,
            "epsilon_spent": 0.375,
            "epsilon_share": None,
            "epsilon_left": None,
        },
    }
    assert "shared: anne has charged 0.25 of a share of 0.5" in cli("budget")
    rows = [line.split() for line in cli("budget shared").splitlines()]
    assert ["user", "entries", "spent", "share", "left"] in rows
    assert ["anne", "1", "0.25", "0.5", "0.25"] in rows
    assert ["nightly", "1", "0.375", "none", "-"] in rows
    said = "shared: share of anne 0.75, charged 0.25, left 0.5"
    assert cli("budget shared --share anne=0.75").strip() == said
    monkeypatch.setenv("DPICL_USER", "anne")
    cli(synth(shared, "shared", 0.5))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("budget shared --share anne", "share='anne': expected USER=EPSILON"),
        ("budget shared --share anne=-1", "share='anne=-1': expected USER=EPSILON"),
        ("budget shared --share =1", "share='=1': expected USER=EPSILON"),
        ("budget --share anne=1", "--share needs an account and stands alone"),
        ("budget shared --share anne=1 --cap 2", "--share needs an account and stands alone"),
    ],
)
def test_a_share_that_says_nothing_is_refused(
    shared: Place, cli: Cli, line: str, told: str
) -> None:
    assert told in cli.refused(line)


def test_a_share_in_a_contract_that_does_not_hold_is_said(shared: Place, cli: Cli) -> None:
    cli(synth(shared, "shared", 0.25))
    second_of(shared, {"epsilon": 5, "by": {"anne": 2, "nightly": 1}})
    told = cli(synth(shared, "second", 0.125))
    assert (
        "warning: account 'shared': the share of 'anne' in the contract, epsilon 2, differs from "
        "the ledger's, 0.5, which holds; `dpicl budget shared --share anne=2` changes it"
    ) in told


def test_a_cap_is_lowered_by_a_charge_alone_and_says_by_which_contract(
    shared: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPICL_USER", "nightly")
    cli(synth(shared, "shared", 0.5))
    second_of(shared, {"epsilon": 0.75})
    told = "spent 0.5 of cap 0.75"
    why = "the contract 'second' lowers the cap from 5 to 0.75"
    for _ in range(2):
        refused = cli.refused(synth(shared, "second", 0.375))
        assert told in refused and why in refused
        (account,) = json.loads(cli("budget --json"))
        assert (account["epsilon_cap"], account["lowered"]) == (5, None)
    assert f"0.75 is spent; {why}." in cli(synth(shared, "second", 0.25))
    # the first contract's cap holds no more, which is warned of
    _, shown, warned = typed(cli.capsys, "budget", "--json")
    assert "account 'shared': the cap in the contract, epsilon 5, differs from" in warned
    (account,) = json.loads(shown)
    assert account["epsilon_cap"] == 0.75
    assert account["lowered"] == {"contract": "second", "epsilon_before": 5, "delta_before": 0}
    assert f"shared: {why}" in cli("budget") and f"shared: {why}" in cli("budget shared")
    # raising it in the contract changes nothing, and is said
    second_of(shared, {"epsilon": 4})
    told = cli(synth(shared, "second", 0.25).replace(".csv", "-again.csv"))
    assert (
        "warning: account 'shared': the cap in the contract, epsilon 4, differs from the ledger's, "
        "0.75, which holds; `dpicl budget shared --cap 4` changes it"
    ) in told


def test_a_share_above_the_cap_is_refused_by_contract_check(shared: Place, cli: Cli) -> None:
    second_of(shared, {"epsilon": 3, "by": {"anne": 5}})
    told = cli.refused("contract check second")
    assert "by: a share of 5 can never be used up under a cap of 3; expected at most" in told
