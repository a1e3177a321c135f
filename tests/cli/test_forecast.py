"""`dpicl forecast`: one pipeline that cannot be priced is told last, and hides no other."""

from __future__ import annotations

import json
from typing import Any

import yaml

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
    plain = json.loads(json.dumps({**shipped, "pipelines": pipelines}))  # no aliases of what two of them share
    (place.root / "pipelines.yaml").write_text(yaml.safe_dump(plain, sort_keys=False))


def test_a_scheduled_run_is_priced_with_the_parameters_of_its_schedule(place: Place) -> None:
    dear = {**DAILY, "schedule": {**DAILY["schedule"], "parameters": {"epsilons": [1, 3], "seeds": [0, 1]}}}
    declare(place, daily=DAILY, dear=dear)
    told = place.dpicl("forecast", COLUMNS="200")
    assert told.returncode == 0, told.stderr
    costs = {words[0]: float(words[3]) for words in (line.split() for line in told.stdout.splitlines()) if "till" in words}
    quoted = place.dpicl("run", "daily", "--epsilons", "1,3", "--seeds", "0,1", "--dry-run", COLUMNS="200").stdout
    (asked,) = [line.split() for line in quoted.splitlines() if line.split()[:1] == ["till"]]
    assert costs["dear"] == float(asked[3]) > 4 * costs["daily"] > 0


def test_the_others_are_told_beside_a_pipeline_whose_model_is_unknown(place: Place) -> None:
    declare(place, broken={**DAILY, "model": "nobody"}, daily=DAILY)
    told = place.dpicl("forecast", COLUMNS="200")
    assert "model 'nobody' is unknown" in complaint(told)
    assert [line.split()[:2] for line in told.stdout.splitlines() if "till" in line] == [["daily", "till"]]
