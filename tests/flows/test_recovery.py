"""What a scheduled run is tried again for, and how another process tells that nobody works on
it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.states import Crashed, Failed

from dpicl.ground.errors import BudgetError, LedgerError, LedgerRefusedError, ModelError
from dpicl.home.settings import Settings
from dpicl.runs.plan import make_plan
from flows.maintenance import BROKEN_RULES, TRIES, _count, _is_orphan, held, is_held, resubmit_later
from tests.harness import (
    SMALL,
    Place,
    World,
    grid_of,
    install,
    new_place,
    shop,
    shop_rows,
    until,
    well,
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path, None, tmp_path, tmp_path, tmp_path / "runs")


def hold(flow_run: UUID, settings: Settings, pipe: Connection) -> None:
    with held(flow_run, settings):
        pipe.send("held")
        signal.pause()


def test_a_lock_dies_with_its_process(settings: Settings) -> None:
    flow_run = uuid4()
    assert not is_held(flow_run, settings)
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=hold, args=(flow_run, settings, theirs)
    )
    process.start()
    assert ours.recv() == "held" and is_held(flow_run, settings)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    assert not is_held(flow_run, settings)


def test_hand_ins_are_counted_across_processes(settings: Settings) -> None:
    """The server counts only those that came to run: one that dies at its imports would be started
    for ever.
    """
    flow_run = uuid4()
    with held(flow_run, settings):  # the length of the lock file is the count
        assert [_count(flow_run, settings) for _ in range(3)] == [1, 2, 3]
    assert _count(uuid4(), settings) == 1


def test_only_a_run_that_began_here_and_was_not_given_up_is_an_orphan(settings: Settings) -> None:
    state = Crashed()
    state.timestamp = datetime.now(UTC) - timedelta(seconds=600)
    flow_run = FlowRun(id=uuid4(), flow_id=uuid4(), state=state)
    # another installation's
    assert not _is_orphan(flow_run, settings)
    with held(flow_run.id, settings):
        # somebody works on it
        assert not _is_orphan(flow_run, settings)
    assert _is_orphan(flow_run, settings)
    while _count(flow_run.id, settings) < TRIES:
        pass
    # given up
    assert not _is_orphan(flow_run, settings)


@pytest.mark.exhaustive
def test_a_budget_that_is_used_up_is_a_rule_that_stays_broken_however_many_parts_fail(
    world: World,
) -> None:
    """A run that its plan could pay for is refused when it is charged, as another one was charged
    in between.
    """
    contract = shop("purse", private=True)
    contract["privacy"]["budget"]["epsilon"] = 2
    install(world, contract, shop_rows(80))
    grid = grid_of("purse", "mst_tabicl", seeds=[0, 1])
    with world.entered():
        make_plan("private", {**grid, "seeds": [2, 3]}, "purse-second")
    world.sweep("purse-first", grid, pipeline="private")
    with pytest.raises(
        BudgetError,
        match="2 parts failed, first .*: account 'purse': requested epsilon=1, spent 2 of cap 2",
    ) as refused:
        world.sweep("purse-second", {}, pipeline="private", resume=True)
    assert isinstance(refused.value, BROKEN_RULES)


@pytest.mark.exhaustive
def test_a_run_that_a_cap_refuses_is_told_as_a_low_budget_too(world: World) -> None:
    """Refused by its plan it never comes to the table of its budget, which tells it otherwise."""
    contract = shop("pouch", private=True)
    contract["privacy"]["budget"]["epsilon"] = 1
    install(world, contract, shop_rows(80))
    with world.entered(), pytest.raises(BudgetError) as refused:
        make_plan(
            "private",
            {**SMALL, "datasets": ["pouch"], "methods": ["mst_tabicl"], "epsilons": [2]},
            "pouch-run",
        )
    flow_run = deployed_run(world)
    with world.entered():
        resubmit_later(None, flow_run, Failed(data=refused.value))
    asked = {
        "filter": {
            "resource": {"id": [f"prefect.flow-run.{flow_run.id}"]},
            "event": {"prefix": ["dpicl."]},
        }
    }
    until(
        lambda: len(world.ask("events/filter", asked)["events"]) == 2, 30, "the events", every=0.5
    )
    told = {
        event["event"]: event["payload"] for event in world.ask("events/filter", asked)["events"]
    }
    assert told == {
        "dpicl.budget.low": {"refusal": str(refused.value)},
        "dpicl.run.given-up": {"failure": "BudgetError"},
    }


@pytest.fixture
def plundered(tmp_path: Path) -> Place:
    """An installation of its own, whose ledger somebody has edited: a release was made cheaper."""
    place = new_place(tmp_path / "place")
    table = install(place, shop("till", private=True), shop_rows(80))
    well(
        place.dpicl(
            f"protect {table} --method mst_tabicl --shots 2 --out {place.root / 'demos.jsonl'}"
        )
    )
    with sqlite3.connect(place.home / "ledger.db") as ledger:
        edit = "UPDATE records SET content = replace(content, '1', '0') WHERE kind = 'reserved'"
        assert ledger.execute(edit).rowcount == 1
    return place


def failure_of_a_plan(place: Place, **extra: str) -> LedgerError:
    """Why a run cannot begin."""
    grid = grid_of("till", "mst_tabicl", seeds=[1])
    with place.entered(**extra), pytest.raises(LedgerError) as refused:
        make_plan("private", grid, "run")
    return refused.value


def deployed_run(world: World) -> FlowRun:
    """A flow run that a deployment made, which nobody works on."""
    flow = world.ask("flows/", {"name": "recovered"})["id"]
    deployment = world.ask("deployments/", {"name": "recovered", "flow_id": flow})["id"]
    return FlowRun.model_validate(
        world.ask(f"deployments/{deployment}/create_flow_run", {"state": {"type": "RUNNING"}})
    )


def test_an_edited_ledger_is_refused_and_one_that_is_away_is_tried_again(
    world: World, plundered: Place
) -> None:
    edited = failure_of_a_plan(plundered)
    away = failure_of_a_plan(plundered, DPICL_LEDGER="postgresql://me@127.0.0.1:1/base")
    assert "the ledger was edited: record" in str(edited) and isinstance(edited, LedgerRefusedError)
    assert "127.0.0.1" in str(away) and not isinstance(away, BROKEN_RULES)
    states = {}
    for error in (edited, away):
        flow_run = deployed_run(world)
        with world.entered():
            resubmit_later(None, flow_run, Failed(data=error))
        states[error] = world.ask(f"flow_runs/{flow_run.id}")["state"]["name"]
    assert states == {edited: "Running", away: "AwaitingRetry"}  # the first one was not handed in


def test_a_model_that_nobody_knows_is_not_tried_again(world: World) -> None:
    with world.entered(), pytest.raises(ModelError, match="model 'bundeld' is unknown") as unknown:
        make_plan("private", {**SMALL, "model": "bundeld"}, "misspelt-run")
    flow_run = deployed_run(world)
    with world.entered():
        resubmit_later(None, flow_run, Failed(data=unknown.value))
    assert world.ask(f"flow_runs/{flow_run.id}")["state"]["name"] == "Running"  # not handed in
