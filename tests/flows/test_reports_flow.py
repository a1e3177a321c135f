"""Clients' reports on Prefect: one task counts them, is tried again like any, and shows how many of
each kind there were.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from dpicl.contract.periods import clock, period_before
from dpicl.runs import prepare as stages
from dpicl.runs.client_reports import counted_of
from tests.cli.holder import held
from tests.cli.test_client import reports
from tests.harness import World, grid_of, run_here, shop, shop_rows

CONTRACT = "clinic"


def collecting(world: World) -> tuple[dict[str, Any], list[str]]:
    """A pipeline that takes reports, under a contract of its own, and what clients sent for a day,
    half of them twice.
    """
    tree = {**shop(CONTRACT, private=True), "releases": {"every": "day"}}
    contract = world.root / "contracts" / f"{CONTRACT}.yaml"
    contract.write_text(yaml.safe_dump(tree, sort_keys=False))
    (world.root / "data" / tree["queries"]["file"]).write_text(shop_rows(12, seed=99))
    yesterday = period_before("day", clock())
    sent = reports(contract, held(200), f"--epsilon 8 --cap 100 --period {yesterday}")
    folder = world.root / "sent"
    folder.mkdir()
    (folder / "day.jsonl").write_text("".join(f"{line}\n" for line in (*sent, *sent[:100], "{")))
    keys = grid_of(CONTRACT, "ldp_tabicl", epsilons=[8])
    return {**keys, "baselines": False, "reports": "sent"}, sent


@pytest.mark.exhaustive
def test_the_task_that_counts_is_tried_again_and_shows_kinds_and_no_client(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first count fails for a reason that nobody foresaw."""
    count, tries = stages.count_collection, list[str]()

    def failing(collection: Any, place: str, *how: Any, **more: Any) -> Any:
        tries.append(place)
        if len(tries) == 1:
            raise OSError(5, "the disk is slow")
        return count(collection, place, *how, **more)

    changes, sent = collecting(world)
    monkeypatch.setattr(stages, "count_collection", failing)
    run = world.sweep("reported", changes, pipeline="private")
    (counted,) = counted_of(run, CONTRACT)
    assert (counted.received.counted, counted.received.duplicate, counted.received.malformed) == (
        200,
        100,
        1,
    )
    with world.entered():
        here = run_here("reported-here", "private", **changes)
    assert counted_of(here, CONTRACT) == [counted]
    for file in ("released_reports.npz", "released_rows.npz", "results.json"):
        place = f"units/ldp_tabicl__{CONTRACT}__seed0/{file}"
        # another executor
        assert (here / place).read_bytes() == (run / place).read_bytes()
    tasks = {one["name"].split()[0]: one for one in world.task_runs("reported")}
    assert tasks["receive"]["run_count"] == 2 and tasks["receive"]["state_name"] == "Completed"
    assert not {"ingest", "charge", "randomise", "release"} & set(tasks)
    assert f" · {counted.period} · " in world.flow_run("reported")["name"]
    shown = {
        one["key"]: str(one["data"])
        for one in world.ask("artifacts/filter", {"limit": 200, "sort": "CREATED_DESC"})
    }
    assert {row["kind"]: row["reports"] for row in json.loads(shown[f"reports-{CONTRACT}"])} == {
        "counted": 200,
        "sent or delivered again": 100,
        "malformed": 1,
    }
    whole = " ".join([*shown.values(), json.dumps(world.task_runs("reported"))])
    assert not [who for line in sent if (who := json.loads(line)["who"]) in whole]
