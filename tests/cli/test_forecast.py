"""`dpicl forecast`: one pipeline that cannot be priced is told last, and hides no other."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from dpicl.engine.forecast import forecast
from dpicl.engine.open_ledger import open_ledger
from dpicl.engine.pipelines import load_pipelines
from dpicl.engine.plan import draft_plan
from dpicl.engine.run_quote import charges
from dpicl.engine.settings import Settings
from tests.harness import Place, complaint, install, shop, shop_rows

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
    told = place.dpicl("forecast", COLUMNS="200")
    assert told.returncode == 0, told.stderr
    costs = {
        words[0]: float(words[3])
        for words in (line.split() for line in told.stdout.splitlines())
        if "till" in words
    }
    quoted = place.dpicl(
        "run", "daily", "--epsilons", "1,3", "--seeds", "0,1", "--dry-run", COLUMNS="200"
    ).stdout
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


def test_a_schedule_of_minutes_reads_no_contract_oftener_than_one_of_days(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    declared = Settings.declared
    monkeypatch.setattr(
        Settings,
        "declared",
        lambda settings, name: (read.append(name), declared(settings, name))[1],
    )
    often = []
    for cron in ("0 6 * * *", "* * * * *"):
        declare(place, till={**DAILY, "schedule": {**DAILY["schedule"], "cron": cron}})
        settings = Settings.from_environment()
        read.clear()
        assert forecast(
            "till",
            load_pipelines(settings.pipelines).pipelines["till"],
            settings,
            datetime(2026, 1, 31, 12, tzinfo=UTC),
        )
        often.append(len(read))
    assert often[0] == often[1]
