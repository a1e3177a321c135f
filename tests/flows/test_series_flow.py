"""A table that grows, on Prefect: one task makes its nights, is tried again like any, and draws
none twice.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.release.horizon import Horizon
from dpicl.release.names import PART
from tests.harness import World
from tests.library.series_contracts import series_tree, visits
from tests.tasks.test_series import as_csv
from tests.tasks.test_series_run import NIGHTLY

UNIT = "mst_tabicl__{}__seed0"


def growing(world: World, name: str) -> dict[str, Any]:
    """A data set of its own, whose days have gone by, and a pipeline for it."""
    tree = series_tree(name=name, source={"file": f"{name}.csv", "arrived": "day"})
    (world.root / "contracts" / f"{name}.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))
    (world.root / "data" / f"{name}.csv").write_text(as_csv(visits()))
    return {**NIGHTLY, "datasets": [name], "window": 5}


def drawn(world: World, name: str) -> tuple[float, list[int]]:
    """What is spent of an account, and the nights that are charged and published, as often as they
    are.
    """
    with world.entered(), open_ledger(Settings.from_environment()) as ledger:
        ledger.verify()
        parts = [entry for entry in ledger.entries(name) if PART in entry.release.parameters]
        assert all(entry.artefact_sha256 for entry in parts)
        return ledger.spent(name).epsilon, [entry.release.parameters["index"] for entry in parts]


@pytest.mark.exhaustive
def test_nights_that_a_failed_task_has_made_stand_and_the_next_try_makes_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tenth draw fails for a reason that nobody foresaw."""
    released, draws = Horizon._released, list[int]()  # noqa: SLF001

    def failing(horizon: Horizon, *how: Any) -> Any:
        draws.append(len(draws))
        if len(draws) == 10:
            raise RuntimeError("a secret")
        return released(horizon, *how)

    pipeline = growing(world, "gate")
    monkeypatch.setattr(Horizon, "_released", failing)
    run = world.sweep("gate-run", pipeline, pipeline="private")
    assert len(draws) == 13
    assert drawn(world, "gate") == (pytest.approx(2, rel=0.01), [*range(1, 13)])
    (task,) = [one for one in world.task_runs("gate-run") if one["name"].startswith("advance")]
    assert task["run_count"] == 2 and task["state_name"] == "Completed"
    assert " · 2026-03-12 · " in world.flow_run("gate-run")["name"]
    assert (run / "units" / UNIT.format("gate") / "released_rows.npz").exists()
    assert (run / "report.html").exists()
