"""On the orchestrator too nothing is charged for a run whose model does not answer."""

from __future__ import annotations

import pytest

from dpicl.ground.errors import ModelError
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from tests.harness import World, install, shop, shop_rows
from tests.library.endpoint_server import Habits, serving

GRID = {"methods": ["gdp_tabicl"], "epsilons": ["5"], "shots": [2], "seeds": [0]}


@pytest.mark.exhaustive
def test_a_run_on_a_server_without_log_probabilities_reserves_nothing_and_goes_on_when_it_has_them(
    world: World,
) -> None:
    install(world, shop("unpaid", private=True), shop_rows(60))
    with serving(Habits(logprobs="none")) as server:
        changes = {**GRID, "datasets": ["unpaid"], "model": f"{server.url}#m"}
        with pytest.raises(ModelError, match="expected a server that gives log-probabilities"):
            world.sweep("asked-first", changes, pipeline="private")
        with world.entered(), open_ledger(Settings.from_environment()) as ledger:
            assert not [
                account
                for account in ledger.accounts()
                if account.name == "unpaid" and ledger.entries(account.name)
            ]
        assert {task["name"].split("-")[0] for task in world.task_runs("asked-first")} == {
            "show overview",
            "probe models",
        }
        server.habits = Habits()
        run = world.sweep("asked-first", changes, pipeline="private", resume=True)
    assert (run / "report.html").exists()
