"""What commands print for programs: one JSON value with the keys that the reference page lists, and nothing else on standard output."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dpicl import __version__
from tests.cli.test_forecast import DAILY, declare
from tests.harness import Place, call_main, complaint, said

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "json.md"


def listed(command: str) -> set[str]:
    """Keys in the first column of the page's table below a command."""
    section = PAGE.read_text("utf-8").split(f"## `{command} --json`\n")[1].split("\n## ")[0]
    heads = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {key for head in heads for key in re.findall(r"`(\w+)`", head)}


def keys(value: Any) -> set[str]:
    """Of an object, or of all objects of a list, which are alike."""
    (found,) = {frozenset(one) for one in (value if isinstance(value, list) else [value])}
    return set(found)


def test_commands_print_the_keys_that_their_page_lists(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    declare(place, daily=DAILY)
    asked = place.dpicl("run", "daily", "--dry-run", "--json")
    price = place.dpicl("protect", "till", "--method", "gdp_tabicl", "--shots", "2", "--dry-run", "--json")
    (quote,) = quotes = json.loads(asked.stdout)
    assert keys(quotes) == listed("dpicl run PIPELINE --dry-run") and "epsilon in nats" in asked.stderr
    assert (quote["releases"], quote["charged_before"], quote["allowed"], quote["epsilon_spent"]) == (1, 0, True, 0)
    assert [one["epsilon"] for one in json.loads(price.stdout)] == [quote["epsilon"]] and price.stderr == asked.stderr.splitlines(True)[0]
    assert place.dpicl("protect", "till", "--method", "gdp_tabicl", "--shots", "2", "--out", "demos.jsonl").returncode == 0
    with place.entered():
        (account,) = accounts = json.loads(said(capsys, "budget", "--json"))
        assert keys(accounts) == listed("dpicl budget") and account["epsilon_spent"] == pytest.approx(quote["epsilon"])
        assert account["epsilon_left"] == account["epsilon_cap"] - account["epsilon_spent"]
        (release,) = releases = json.loads(said(capsys, "budget", "till", "--json"))
        assert keys(releases) == listed("dpicl budget ACCOUNT") and release["epsilon_total"] == release["epsilon"]
        (forecast,) = forecasts = json.loads(said(capsys, "forecast", "--json"))
        assert keys(forecasts) == listed("dpicl forecast") and forecast["pipeline"] == "daily"
        shown = json.loads(said(capsys, "list", "--json"))
        assert keys(shown) == listed("dpicl list") and [(one["name"], one["group"]) for one in shown["pipelines"]] == [("daily", None)]
        checked = json.loads(said(capsys, "contract", "check", "till", "--json"))
        assert keys(checked) == listed("dpicl contract check NAME") and checked["contract"]["name"] == "till"


def test_a_plan_is_printed_for_programs(place: Place) -> None:
    declare(place, daily=DAILY)
    told = place.dpicl("plan", "till", "--rows", "80", "--epsilon", "1", "--signal", "0.8", "--trust", "central", "--json", timeout=300)
    assert told.returncode == 0, told.stderr
    plan = json.loads(told.stdout)
    assert keys(plan) | keys(plan["ways"]) == listed("dpicl plan TABLE")
    assert {way["epsilon"] for way in plan["ways"]} == {1} and all(0 < way["auc"] < 1 for way in plan["ways"])
    assert sum(way["recommended"] for way in plan["ways"]) == (plan["command"] is not None)


def test_what_has_no_bound_is_null(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    asked = place.dpicl("run", "demo", "--model", "fake", "--epsilons", "inf", "--dry-run", "--json")
    assert {one["epsilon_cap"] for one in json.loads(asked.stdout)} == {None}
    assert {one["epsilon"] for one in json.loads(asked.stdout)} == {None}


def test_a_run_is_not_printed(place: Place) -> None:
    assert "--json needs --dry-run" in complaint(place.dpicl("run", "demo", "--json"))
    assert "--json needs --dry-run" in complaint(place.dpicl("protect", "breast_cancer", "--out", "a.jsonl", "--json"))
    assert "--json shows accounts" in complaint(place.dpicl("budget", "shop", "--cap", "3", "--json"))


def test_the_version_and_the_short_help(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "--version") == f"dpicl {__version__}\n"
    assert said(capsys, "-h") == said(capsys, "--help") and "--epsilon" in said(capsys, "protect", "-h")
    assert call_main(["-h", "no-such"], capsys)[0] == 0


def test_names_stay_whole_for_programs(place: Place) -> None:
    """A terminal of 80 columns would cut them."""
    shown = place.dpicl("list", COLUMNS="").stdout
    assert "Both methods on real clinical data, in a few minutes on a laptop" in shown
