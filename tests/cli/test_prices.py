"""What a release would cost is asked for nothing, and so is how long a schedule's budget lasts."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml
from cronsim import CronSim

from dpicl.accounting.guarantee import Neighbours
from dpicl.contract.periods import Every, period_at
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.ledger import Account
from dpicl.release.pipelines import Schedule, load_pipelines
from dpicl.runs.forecast import forecast
from dpicl.runs.plan import charges, draft_plan
from tests.cli.conftest import Cli
from tests.harness import Place, charged, complaint, install, shop, shop_rows, well

GDP = "protect till --method gdp_tabicl --shots 2"


@pytest.fixture
def till(place: Place) -> Place:
    """A private table with a cap of 3."""
    contract = shop("till", private=True)
    contract["privacy"]["budget"] = {"epsilon": 3}
    install(place, contract)
    return place


def test_the_price_is_what_is_charged_then_and_nothing_afterwards(till: Place, cli: Cli) -> None:
    asked, out = f"{GDP} --epsilon 1.5", till.root / "demos.jsonl"

    def price() -> list[str]:
        (row,) = (
            line.split()
            for line in cli(f"{asked} --dry-run").splitlines()
            if line.startswith(" till")
        )
        return row[1:4]

    *counts, cost = price()
    assert not charged() and not out.exists() and counts == ["1", "0"]
    cli(f"{asked} --out {out}")
    with open_ledger(Settings.from_environment()) as ledger:
        assert float(cost) == pytest.approx(ledger.spent("till").epsilon, rel=1e-3)
    assert price() == ["1", "1", "0"] and len(charged()) == 1


def test_a_new_cap_on_epsilon_leaves_that_on_delta(till: Place, cli: Cli) -> None:
    nights = Account("nights", "row", Neighbours.ADD_OR_REMOVE_ONE, 3.0, 1e-5)
    with open_ledger(Settings.from_environment()) as ledger:
        ledger.ensure_account(nights)
    for stated, delta in (("", 1e-5), ("--delta 1e-6", 1e-6), ("", 1e-6)):
        cli(f"budget nights --cap 2 {stated}")
        with open_ledger(Settings.from_environment()) as ledger:
            assert ledger.accounts() == [replace(nights, epsilon_cap=2.0, delta_cap=delta)]


def test_what_a_cap_refuses_is_refused_after_the_price(till: Place) -> None:
    for line in ("protect till --out a.jsonl", "synth till --rows 5 --out a.parquet"):
        asked = till.dpicl(f"{line} --epsilon 9 --dry-run --json")
        assert asked.returncode == 2
        assert "account 'till': a new release costs epsilon=9" in asked.stderr
        assert [charge["allowed"] for charge in json.loads(asked.stdout)] == [False]
        refused = complaint(till.dpicl(f"{line} --epsilon 9"))
        assert refused == asked.stderr.splitlines()[-1].removeprefix("dpicl: ")


@pytest.mark.parametrize(
    "options",
    [
        "--option shots=3",
        "--method pate",
        "--epsilon 0",
        "--as pdf",
        "--generator tiny",
        "--period soon",
    ],
)
def test_a_dry_run_refuses_what_a_release_refuses(till: Place, cli: Cli, options: str) -> None:
    asked = cli.refused(f"protect till {options} --dry-run")
    assert asked == cli.refused(f"protect till {options} --out {till.root / 'a.jsonl'}")
    assert not charged()


DAILY: dict[str, Any] = {
    "title": "Averages of the till, every day",
    "methods": ["gdp_tabicl"],
    "datasets": ["till"],
    "epsilons": [1],
    "shots": [2],
    "baselines": False,
    "model": "fake",
    "schedule": {"cron": "0 6 * * *", "timezone": "UTC"},
}


def declare(place: Place, **pipelines: dict[str, Any]) -> None:
    """What runs, in place of what is shipped."""
    install(place, shop("till", private=True), shop_rows(80))
    shipped = yaml.safe_load((place.root / "pipelines.yaml").read_text())
    # no aliases of what two of them share
    plain = json.loads(json.dumps({**shipped, "pipelines": pipelines}))
    (place.root / "pipelines.yaml").write_text(yaml.safe_dump(plain, sort_keys=False))


def test_a_scheduled_run_is_priced_with_the_parameters_of_its_schedule(place: Place) -> None:
    dear = {
        **DAILY,
        "schedule": {**DAILY["schedule"], "parameters": {"epsilons": [1, 3], "seeds": [0, 1]}},
    }
    declare(place, daily=DAILY, dear=dear)
    told = well(place.dpicl("forecast", COLUMNS="200"))
    costs = {
        words[0]: float(words[3])
        for words in (line.split() for line in told.stdout.splitlines())
        if "till" in words
    }
    quoted = place.dpicl("run daily --epsilons 1,3 --seeds 0,1 --dry-run", COLUMNS="200").stdout
    (asked,) = [line.split() for line in quoted.splitlines() if line.split()[:1] == ["till"]]
    assert costs["dear"] == float(asked[3]) > 4 * costs["daily"] > 0


@pytest.mark.exhaustive
def test_the_others_are_told_beside_a_pipeline_whose_model_is_unknown(place: Place) -> None:
    declare(place, broken={**DAILY, "model": "nobody"}, daily=DAILY)
    told = place.dpicl("forecast", COLUMNS="200")
    assert "model 'nobody' is unknown" in complaint(told)
    assert [line.split()[:2] for line in told.stdout.splitlines() if "till" in line] == [
        ["daily", "till"]
    ]


def _by_every_run(schedule: Schedule, since: datetime, every: Every) -> int:
    """New periods of a schedule, by all of its runs."""
    end = since + timedelta(days=schedule.horizon_days)
    runs = takewhile(
        lambda run: run <= end,
        CronSim(schedule.cron, since.astimezone(ZoneInfo(schedule.timezone))),
    )
    return len({period_at(every, run) for run in runs})


CRONS = [
    ("*/15 * * * *", "UTC"),
    ("*/3 * * * *", "Europe/Berlin"),
    ("* * * * *", "Asia/Kathmandu"),
    ("30 1-3 * * *", "America/New_York"),
    ("0 6 * * 1", "Europe/Paris"),
    ("0 0 1 */2 *", "Pacific/Auckland"),
    ("45 23 31 12 *", "UTC"),
]


@pytest.mark.parametrize(("cron", "timezone"), CRONS)
@pytest.mark.parametrize("every", ["day", "week", "quarter"])
def test_due_periods_are_those_of_every_run_however_often_it_runs(
    place: Place, cron: str, timezone: str, every: Every
) -> None:
    since = datetime(2026, 1, 31, 12, 7, 30, tzinfo=UTC)
    days = 100 if cron.startswith("*") else 400
    timing = {"cron": cron, "timezone": timezone, "horizon_days": days}
    declare(place, often={**DAILY, "schedule": {**DAILY["schedule"], **timing}})
    install(place, {**shop("till", private=True), "releases": {"every": every}}, shop_rows(80))
    settings = Settings.from_environment()
    pipeline = load_pipelines(settings.pipelines).pipelines["often"]
    assert pipeline.schedule is not None
    (line,) = forecast("often", pipeline, settings, since)
    assert line.due == _by_every_run(pipeline.schedule, since, every)


@pytest.mark.parametrize(("every", "due"), [("once", 0), ("month", 10), ("quarter", 3)])
def test_a_schedule_is_charged_where_a_period_begins(place: Place, every: str, due: int) -> None:
    """Of the daily runs of February to December, before and after the first of them."""
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    declare(place, daily={**DAILY, "schedule": {**DAILY["schedule"], "horizon_days": 334}})
    install(place, {**shop("till", private=True), "releases": {"every": every}}, shop_rows(80))
    settings = Settings.from_environment()
    pipeline = load_pipelines(settings.pipelines).pipelines["daily"]
    (before,) = forecast("daily", pipeline, settings, now)
    plan = draft_plan("daily", {}, settings, when=now + timedelta(days=1))
    with open_ledger(settings) as ledger:
        for _, asked in charges(ledger, plan, settings):
            for release in asked.values():
                ledger.reserve(release)
    (after,) = forecast("daily", pipeline, settings, now)
    assert (before.due, after.due) == (due + 1, due)
    assert after.left == pytest.approx(before.left - before.cost)
