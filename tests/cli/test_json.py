"""What commands print for programs: one JSON value of the type that the reference lists, and
nothing else on standard output.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from dpicl import __version__
from tests.cli.conftest import Cli
from tests.cli.test_prices import DAILY, declare
from tests.harness import Place, complaint, well
from tools.reference import COMMANDS


def printed(command: str, text: str) -> Any:
    """What a command printed, which is of its type: no key is missing, no key is more, and each
    value is of its kind.
    """
    adapter = TypeAdapter(COMMANDS[command])
    assert adapter.dump_python(adapter.validate_json(text, strict=True), mode="json") == json.loads(
        text
    )
    return json.loads(text)


def test_commands_print_what_their_type_says(place: Place, cli: Cli) -> None:
    declare(place, daily=DAILY)
    asked = place.dpicl("run daily --dry-run --json")
    price = place.dpicl("protect till --method gdp_tabicl --shots 2 --dry-run --json")
    (quote,) = printed("dpicl run PIPELINE --dry-run", asked.stdout)
    assert "charged once per period" in asked.stderr
    assert (
        quote["releases"],
        quote["charged_before"],
        quote["allowed"],
        quote["epsilon_spent"],
    ) == (1, 0, True, 0)
    prices = printed("dpicl protect CONTRACT --dry-run", price.stdout)
    assert [one["epsilon"] for one in prices] == [quote["epsilon"]]
    assert price.stderr == asked.stderr.splitlines(True)[0]
    assert (
        place.dpicl("protect till --method gdp_tabicl --shots 2 --out demos.jsonl").returncode == 0
    )
    with place.entered():
        (account,) = printed("dpicl budget", cli("budget --json"))
        assert account["epsilon_spent"] == pytest.approx(quote["epsilon"])
        assert account["epsilon_left"] == max(0, account["epsilon_cap"] - account["epsilon_spent"])
        (release,) = printed("dpicl budget ACCOUNT", cli("budget till --json"))
        assert release["epsilon_total"] == release["epsilon"]
        (forecast,) = printed("dpicl forecast", cli("forecast --json"))
        assert forecast["pipeline"] == "daily"
        shown = printed("dpicl list", cli("list --json"))
        assert {one["name"]: one["group"] for one in shown["pipelines"] if one["is_own"]} == {
            "daily": None
        }
        assert {one["name"]: one["schedule"] for one in shown["pipelines"]}["demo"] is None
        checked = printed("dpicl contract check NAME", cli("contract check till --json"))
        assert checked["contract"]["name"] == "till"


def test_a_missing_key_a_further_one_or_another_kind_would_be_noticed() -> None:
    finding = {"fault": True, "path": "a", "rule": "b", "do": "c"}
    assert printed("dpicl state check", json.dumps([finding])) == [finding]
    for wrong in ({**finding, "more": 1}, {**finding, "fault": "yes"}, {"fault": True}):
        with pytest.raises((AssertionError, ValidationError)):
            printed("dpicl state check", json.dumps([wrong]))


@pytest.mark.exhaustive
def test_a_plan_is_printed_for_programs(place: Place) -> None:
    declare(place, daily=DAILY)
    told = well(
        place.dpicl(
            "plan till --rows 80 --epsilon 1 --signal 0.8 --trust central --json", timeout=300
        )
    )
    plan = printed("dpicl plan CONTRACT", told.stdout)
    assert {way["epsilon"] for way in plan["ways"]} == {1}
    assert all(0 < way["auc"] < 1 for way in plan["ways"])
    assert sum(way["recommended"] for way in plan["ways"]) == (plan["command"] is not None)


def test_what_has_no_bound_is_null(place: Place, cli: Cli) -> None:
    asked = place.dpicl("run demo --model fake --epsilons inf --dry-run --json")
    assert {one["epsilon_cap"] for one in json.loads(asked.stdout)} == {None}
    assert {one["epsilon"] for one in json.loads(asked.stdout)} == {None}


def test_a_run_is_not_printed(place: Place) -> None:
    assert "--json needs --dry-run" in complaint(place.dpicl("run demo --json"))
    assert "--json needs --dry-run" in complaint(
        place.dpicl("protect breast_cancer --out a.jsonl --json")
    )
    assert "--json shows accounts" in complaint(place.dpicl("budget shop --cap 3 --json"))


def test_the_version_and_the_short_help(place: Place, cli: Cli) -> None:
    assert cli("--version") == f"dpicl {__version__}\n"
    assert cli("-h") == cli("--help") and "--epsilon" in cli("protect -h")
    assert cli.ended("-h no-such")[0] == 0


def test_names_stay_whole_for_programs(place: Place) -> None:
    """A terminal of 80 columns would cut them."""
    shown = place.dpicl("list", COLUMNS="").stdout
    assert "Both methods on real clinical data, in a few minutes on a laptop" in shown
