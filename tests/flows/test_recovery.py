"""What a scheduled run is tried again for, and how another process tells that nobody works on it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.states import Crashed

from dpicl.errors import RefusedError
from flows.recovery import BROKEN_RULES, TRIES, _count, _is_orphan, held, is_held
from tasks.settings import Settings
from tests.harness import World, install, shop, shop_rows


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path, None, tmp_path, tmp_path)


def hold(flow_run: UUID, settings: Settings, pipe: Connection) -> None:
    with held(flow_run, settings):
        pipe.send("held")
        signal.pause()


def test_a_lock_dies_with_its_process(settings: Settings) -> None:
    flow_run = uuid4()
    assert not is_held(flow_run, settings)
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=hold, args=(flow_run, settings, theirs))
    process.start()
    assert ours.recv() == "held" and is_held(flow_run, settings)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    assert not is_held(flow_run, settings)


def test_hand_ins_are_counted_across_processes(settings: Settings) -> None:
    """The server counts only those that came to run: one that dies at its imports would be started for ever."""
    flow_run = uuid4()
    with held(flow_run, settings):  # the length of the lock file is the count
        assert [_count(flow_run, settings) for _ in range(3)] == [1, 2, 3]
    assert _count(uuid4(), settings) == 1


def test_only_a_run_that_began_here_and_was_not_given_up_is_an_orphan(settings: Settings) -> None:
    state = Crashed()
    state.timestamp = datetime.now(UTC) - timedelta(seconds=600)
    flow_run = FlowRun(id=uuid4(), flow_id=uuid4(), state=state)
    assert not _is_orphan(flow_run, settings), "another installation's"
    with held(flow_run.id, settings):
        assert not _is_orphan(flow_run, settings), "somebody works on it"
    assert _is_orphan(flow_run, settings)
    while _count(flow_run.id, settings) < TRIES:
        pass
    assert not _is_orphan(flow_run, settings), "given up"


def test_a_budget_that_is_used_up_is_a_rule_that_stays_broken_however_many_parts_fail(world: World) -> None:
    """New rows under old parameters pass the plan, and are refused when they are charged."""
    contract = shop("purse", private=True)
    contract["privacy"]["budget"]["epsilon"] = 2
    install(world, contract, shop_rows(80))
    grid = {"datasets": ["purse"], "methods": ["mst_tabicl"], "epsilons": [1], "shots": [2], "seeds": [0, 1], "model": "fake"}
    world.sweep("purse-first", grid, pipeline="private")
    (world.root / "data" / "purse.csv").write_text(shop_rows(80, seed=1))
    with pytest.raises(RefusedError, match="2 parts failed, first .*: account 'purse': asked epsilon=1, spent 2 of cap 2") as refused:
        world.sweep("purse-second", grid, pipeline="private")
    assert isinstance(refused.value, BROKEN_RULES)
