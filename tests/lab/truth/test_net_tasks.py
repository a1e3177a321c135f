"""What an orchestrator keeps of a run (number, names, states and results of tasks, log lines,
artifacts) is the same at the borders of a table.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from lab.audit.end_to_end.leaves import unlisted
from tests.harness import SMALL, World, install, shop, shop_rows, world
from tests.leaks import everything

__all__ = ["world"]
GRID = {**SMALL, "methods": ["gdp_tabicl"], "seeds": [0], "epsilons": ["1"], "baselines": False}
HEADER = shop_rows(1).splitlines()[0]
ROWS = shop_rows(60).splitlines()[1:]
TABLES = {"usual": ROWS, "none": [], "one": ROWS[:1], "two": ROWS[:2]}


def stored(world: World, name: str, rows: list[str]) -> dict[str, bytes]:
    """Run it on Prefect and Dask; what the server tells, with the data set's name and the run's
    made the same, as the list calls it.
    """
    content = shop(name, private=True)
    content["privacy"] |= {"neighbours": "add-or-remove-one", "budget": {"epsilon": 100}}
    (world.root / "data" / content["queries"]["file"]).write_text(shop_rows(12, seed=99))
    install(world, content, "\n".join([HEADER, *rows, ""]))
    run = f"net-{name}"
    world.sweep(run, {**GRID, "datasets": [name]})
    flow = world.flow_run(run)
    tasks = sorted(
        (one["name"], one["state_name"], one["run_count"]) for one in world.task_runs(run)
    )
    ours = [
        one
        for one in everything(world, "logs")
        if one["flow_run_id"] == flow["id"] and one["name"].startswith("dpicl")
    ]
    artifacts = sorted(
        (str(one["key"]), one["type"])
        for one in everything(world, "artifacts")
        if one["flow_run_id"] == flow["id"]
    )
    told: dict[str, Any] = {
        "flow run": (flow["state_name"], flow["parameters"]),
        "task runs": tasks,
        "log": sorted(one["message"] for one in ours),
    }
    told |= {f"artifact {number}": one for number, one in enumerate(artifacts)}
    return {
        key: re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|0x[0-9a-f]+", "ID", repr(one))
        .replace(name, "NAME")
        .encode()
        for key, one in told.items()
    }


@pytest.mark.exhaustive
def test_an_orchestrator_is_told_the_same_of_few_rows(world: World) -> None:
    usual, *others = [stored(world, f"border{name}", rows) for name, rows in TABLES.items()]
    assert len(eval(usual["task runs"])) >= 12 and unlisted(usual) == []  # noqa: S307 - ours
    assert sum(key.startswith("artifact") for key in usual) >= 4
    for other in others:
        assert {key: other.get(key) for key in usual.keys() | other.keys()} == usual
