"""The server's automations do what they are for: a failed check triggers one, and a run that went
silent is marked as crashed.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.events import emit_event
from prefect.states import Completed, Running

from dpicl.errors import DataError
from flows import automations
from flows.tabicl import sweep
from tests.harness import World, install, shop, shop_rows, until

SILENT_SECONDS = 10
"""The least that Prefect takes."""


@pytest.fixture
def impatient(world: World) -> Iterator[None]:
    """The server's automations, which wait for seconds where ours wait for minutes, until a test
    has ended.
    """
    with world.entered():
        silent = timedelta(seconds=SILENT_SECONDS)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(automations, "SILENT", silent)
            patch.setattr(
                automations,
                "_WENT_SILENT",
                automations._WENT_SILENT.model_copy(update={"within": silent}),
            )
            automations.ensure_automations(None)
        yield
        automations.ensure_automations(None)


def done_by(world: World, automation: str) -> list[dict[str, Any]]:
    """Events of actions that an automation has carried out."""
    (known,) = world.ask("automations/filter", {"automations": {"name": {"any_": [automation]}}})
    asked = {
        "event": {"name": ["prefect.automation.action.executed"]},
        "resource": {"id": [f"prefect.automation.{known['id']}"]},
    }
    return list(world.ask("events/filter", {"filter": asked})["events"])


def causes(done: dict[str, Any]) -> set[str]:
    """Events that led to an action."""
    roles = ("triggering-event", "automation-triggered-event")
    return {
        one["prefect.resource.id"]
        for one in done["related"]
        if one["prefect.resource.role"] in roles
    }


@pytest.mark.exhaustive
def test_a_failed_check_of_the_data_triggers_its_automation(world: World) -> None:
    with world.entered():
        automations.ensure_automations(None)
    contract = shop(
        "stall", private=True, checks=[{"rule": "in_bounds", "column": "spent", "severity": "fail"}]
    )
    contract["columns"]["spent"]["bounds"] = [-5, 60]
    install(world, contract, shop_rows(80))
    with pytest.raises(DataError, match="stall: column 'spent': breaks in_bounds"):
        world.sweep(
            "stall-run",
            {"datasets": ["stall"], "epsilons": [1], "shots": [2], "seeds": [0], "model": "fake"},
            pipeline="private",
        )
    failed = {
        "filter": {
            "event": {"name": ["dpicl.validation.failed"]},
            "resource": {"id": ["dpicl.dataset.stall"]},
        }
    }
    until(lambda: world.ask("events/filter", failed)["events"], 30, "the event", every=0.5)
    (event,) = world.ask("events/filter", failed)["events"]
    assert event["payload"] == {"run": "stall-run", "checks": 1}
    own = f"prefect.event.{event['id']}"
    until(
        lambda: any(own in causes(done) for done in done_by(world, "dpicl: validation failed")),
        30,
        "the automation",
        every=0.5,
    )


def beat(flow_run: FlowRun) -> None:
    """A heartbeat as the process of a flow run sends it."""
    emit_event(
        "prefect.flow-run.heartbeat",
        {
            "prefect.resource.id": f"prefect.flow-run.{flow_run.id}",
            "prefect.resource.name": flow_run.name,
        },
        related=[
            {
                "prefect.resource.id": f"prefect.flow.{flow_run.flow_id}",
                "prefect.resource.role": "flow",
                "prefect.resource.name": sweep.name,
            }
        ],
    )


@pytest.mark.exhaustive
def test_a_run_that_went_silent_is_marked_as_crashed_and_no_other(impatient: None) -> None:
    """Not one whose heart still beats, nor one that ended. The three are said to run, and have no
    process.
    """
    with get_client(sync_client=True) as client:  # waits where a busy server says 503
        silent, living, ended = (
            client.create_flow_run(sweep, parameters={"pipeline": "demo"}, state=Running())
            for _ in range(3)
        )
        for flow_run in (silent, living, ended):
            beat(flow_run)
        client.set_flow_run_state(ended.id, Completed(), force=True)

        def crashed() -> bool:
            beat(living)
            return client.read_flow_run(silent.id).state_type == StateType.CRASHED

        until(crashed, 40, "the automation", every=1)
        state = client.read_flow_run(silent.id).state
        assert state is not None and state.message == f"no sign of life for {SILENT_SECONDS} s"
        assert [client.read_flow_run(one.id).state_type for one in (living, ended)] == [
            StateType.RUNNING,
            StateType.COMPLETED,
        ]
        client.set_flow_run_state(living.id, Completed(), force=True)
