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


def test_the_others_are_told_beside_a_pipeline_whose_model_is_unknown(place: Place) -> None:
    install(place, shop("till", private=True), shop_rows(80))
    shipped = yaml.safe_load((place.root / "pipelines.yaml").read_text())
    shipped["pipelines"] = {"broken": {**DAILY, "model": "nobody"}, "daily": DAILY}
    plain = json.loads(json.dumps(shipped))  # no aliases of what two of them share
    (place.root / "pipelines.yaml").write_text(yaml.safe_dump(plain, sort_keys=False))
    told = place.dpicl("forecast", COLUMNS="200")
    assert "model 'nobody' is unknown" in complaint(told)
    assert [line.split()[:2] for line in told.stdout.splitlines() if "till" in line] == [["daily", "till"]]
