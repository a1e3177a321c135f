"""A person's share of an account's cap is refused before a row is read, on a table and on texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Cli
from tests.harness import Place, install_texts, letters, shop, shop_rows

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
