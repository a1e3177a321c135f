"""`dpicl serve` registers every pipeline with its schedule, runs what is due, and stops when told
to; its automations do what they are for.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
import urllib.error
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.events import emit_event
from prefect.states import Completed, Running

from dpicl.ground.errors import DataError
from dpicl.home.settings import SHIPPED_PIPELINES
from flows import maintenance
from flows.tabicl import sweep
from tests.harness import (
    DPICL,
    World,
    complaint,
    end,
    grid_of,
    install,
    ran,
    shop,
    shop_rows,
    until,
    well,
)

ON_DEMAND = {
    "title": "A run long enough to be killed",
    "methods": ["ldp_tabicl"],
    "datasets": ["breast_cancer"],
    "epsilons": [1],
    "shots": [1, 2, 4],
    "model": "tiny",
}
EVERY_MINUTE = {
    **ON_DEMAND,
    "title": "Both methods, every minute",
    "methods": ["ldp_tabicl", "gdp_tabicl"],
    "shots": [2],
    "model": "fake",
    # A forecast goes through every time within the horizon: of a year of minutes that takes half a
    # minute.
    "schedule": {
        "cron": "* * * * *",
        "timezone": "Europe/Paris",
        "concurrency_limit": 2,
        "horizon_days": 1,
    },
}
YEARLY = {
    **EVERY_MINUTE,
    "title": "A private table, every year",
    "methods": ["gdp_tabicl"],
    "baselines": False,
    "schedule": {
        "cron": "0 6 1 1 *",
        "timezone": "UTC",
        "horizon_days": 1826,
        "parameters": {"datasets": ["till"]},
    },
}
HURRIED = {
    **YEARLY,
    "title": "The same, in seven seconds",
    "schedule": {**YEARLY["schedule"], "timeout_hours": 0.002},
}
POOLED = {
    **EVERY_MINUTE,
    "title": "For workers of a pool",
    "schedule": {**EVERY_MINUTE["schedule"], "work_pool": "hospital"},
}


@pytest.fixture(scope="module")
def declared(world: World) -> dict[str, Any]:
    """What is served: the shipped demo, one that is due every minute, and others; beside it stands
    one for a pool.
    """
    content: dict[str, Any] = yaml.safe_load((world.root / "pipelines.yaml").read_text())
    content["pipelines"] = {
        "demo": content["pipelines"]["demo"],
        "every-minute": EVERY_MINUTE,
        "on-demand": ON_DEMAND,
        "yearly": YEARLY,
        "hurried": HURRIED,
    }
    contract = shop("till", private=True)
    contract["releases"] = {"every": "year"}
    contract["privacy"] |= {"neighbours": "add-or-remove-one", "budget": {"epsilon": 2}}
    install(world, contract, shop_rows(80))
    # no aliases of lists that two of them share
    plain = json.loads(
        json.dumps({**content, "pipelines": {**content["pipelines"], "of-a-pool": POOLED}})
    )
    (world.root / "served.yaml").write_text(yaml.safe_dump(plain, sort_keys=False))
    return dict(content["pipelines"])


class Serving:
    """The command in a process of its own, which may be killed and started again."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.start()

    def start(self) -> None:
        served = str(self.world.root / "served.yaml")
        # else every ten seconds
        self.process = self.world.start(
            "serve", DPICL_PIPELINES=served, PREFECT_RUNNER_POLL_FREQUENCY="1"
        )


@pytest.fixture(scope="module")
def serving(world: World, declared: dict[str, Any]) -> Iterator[Serving]:
    """All pipelines, until the module ends."""
    serving = Serving(world)
    yield serving
    end(serving.process)


def deployments(world: World) -> dict[str, dict[str, Any]]:
    """Deployments of the server by name."""
    return {found["name"]: found for found in world.ask("deployments/filter", {"limit": 100})}


@pytest.fixture(scope="module")
def deployed(world: World, declared: dict[str, Any], serving: Serving) -> dict[str, dict[str, Any]]:
    """The deployments, as soon as all are there; every question costs the server time."""
    until(lambda: set(declared) <= set(deployments(world)), 300, "the deployments", every=1)
    return deployments(world)


@pytest.mark.exhaustive
def test_every_pipeline_is_a_deployment_with_its_schedule(
    deployed: dict[str, dict[str, Any]], declared: dict[str, Any]
) -> None:
    # it is left to the pool's workers
    assert "of-a-pool" not in deployed
    for name, pipeline in declared.items():
        found, wanted = deployed[name], pipeline.get("schedule") or {}
        changes = {"changes": wanted["parameters"]} if "parameters" in wanted else {}
        assert found["parameters"] == {"pipeline": name, **changes}
        assert found["description"].startswith(pipeline["title"])
        assert not found["paused"]
        assert found["global_concurrency_limit"]["limit"] == wanted.get("concurrency_limit", 1)
        schedules = [
            (item["schedule"]["cron"], item["schedule"]["timezone"])
            for item in found["schedules"]
            if item["active"]
        ]
        assert schedules == ([(wanted["cron"], wanted["timezone"])] if wanted else [])


@pytest.mark.exhaustive
def test_an_account_is_spent_from_by_one_run_at_a_time(
    world: World, deployed: dict[str, dict[str, Any]]
) -> None:
    """Of what a schedule names in place of its pipeline's data sets."""
    limits = {
        found["name"]: found["limit"]
        for found in world.ask("v2/concurrency_limits/filter", {"limit": 100})
    }
    assert limits["dpicl-account-till"] == 1


def asked_for(world: World, pipeline: str) -> str:
    """Have a pipeline's deployment run now; gives the flow run. A busy SQLite under the server
    answers 503 at times.
    """
    identity = deployments(world)[pipeline]["id"]
    for _ in range(20):
        try:
            return str(world.ask(f"deployments/{identity}/create_flow_run", {})["id"])
        except urllib.error.HTTPError as error:
            assert error.code == 503
            time.sleep(0.5)
    pytest.fail("the server is busy for good")


@pytest.fixture(scope="module")
def yearly(world: World, deployed: dict[str, dict[str, Any]]) -> str:
    """A flow run of the yearly pipeline that was asked for at once: it is done while others wait
    for the next minute.
    """
    return asked_for(world, "yearly")


def engines(world: World, folder: Path) -> list[int]:
    """Processes that work on the flow run of this folder."""
    own, found = folder.name.rpartition("-")[2], list[int]()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_engine = b"prefect.engine" in (path / "cmdline").read_bytes()
            settings = (path / "environ").read_text().split("\0") if is_engine else []
            flow_runs = [
                value
                for name, _, value in (line.partition("=") for line in settings)
                if name == "PREFECT__FLOW_RUN_ID"
            ]
            if (
                f"DPICL_HOME={world.home}" in settings
                and flow_runs
                and flow_runs[0].replace("-", "").endswith(own)
            ):
                found.append(int(path.name))
        except OSError:
            continue
    return found


def begun(world: World, flow_run: str) -> Path:
    """The folder of a scheduled run, from its first file on."""
    pattern = f"*-{flow_run.replace('-', '')[-12:]}/plan.json"
    until(lambda: list((world.home / "runs").glob(pattern)), 180, "the run's plan", every=0.01)
    return next((world.home / "runs").glob(pattern)).parent


def ends_well(world: World, flow_run: str) -> bool:
    state = world.ask(f"flow_runs/{flow_run}")["state_type"]
    assert state != "FAILED"
    return bool(state == "COMPLETED")


@pytest.mark.exhaustive
def test_a_run_that_is_due_is_done_although_it_is_killed(world: World, yearly: str) -> None:
    """It goes on in its own folder, under its own flow run."""
    until(
        lambda: list((world.home / "runs").glob("every-minute-*/plan.json")),
        240,
        "the scheduled run",
        every=0.01,
    )
    (folder, *_) = (world.home / "runs").glob("every-minute-*")
    killed = engines(world, folder)
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    # killed too late to be a test
    assert killed and not (folder / "report.html").exists()
    until((folder / "report.html").exists, 240, "the run's second life", every=0.5)
    assert json.loads((folder / "manifest.json").read_text())["pipeline"] == "every-minute"
    assert len(list(folder.glob("units/*/results.json"))) == 2
    runs = world.ask("flow_runs/filter", {"sort": "START_TIME_DESC", "limit": 200})
    (own,) = [
        run for run in runs if run["id"].replace("-", "").endswith(folder.name.rpartition("-")[2])
    ]
    assert own["run_count"] == 2


def test_the_server_watches_for_what_goes_wrong(
    world: World, deployed: dict[str, dict[str, Any]]
) -> None:
    found = {automation["name"]: automation for automation in world.ask("automations/filter", {})}
    assert {"dpicl: budget low", "dpicl: validation failed", "dpicl: run stuck"} <= found.keys()
    assert found["dpicl: run stuck"]["actions"][0]["state"] == "CRASHED"


@pytest.mark.exhaustive
def test_a_budget_that_will_not_last_its_schedule_is_told(world: World, yearly: str) -> None:
    """By the table of the run, by an event that the automation follows, and at the start of the
    server.
    """
    until(lambda: ends_well(world, yearly), 240, "the run", every=0.5)
    (table,) = world.ask("artifacts/filter", {"artifacts": {"key": {"any_": ["budget-yearly"]}}})
    (row,) = json.loads(table["data"])
    assert (row["account"], row["cap"], row["spent"], row["charged_now"]) == (
        "till",
        2.0,
        1.0,
        1,
    )
    assert row["outlook"].startswith("enough for 1 of 5 new periods of 1826 days, until ")
    wanted = "dpicl.budget.low", "dpicl.account.till"
    until(lambda: world.events(*wanted), 30, "the event", every=0.5)
    (event, *_) = world.events(*wanted)
    assert event["resource"]["prefect.resource.id"] == "dpicl.account.till"
    assert event["payload"]["runs_left"] == 1
    (charge,) = json.loads(world.dpicl("budget till --json").stdout)
    assert charge["command"] == "run yearly"  # and not that of Prefect's process
    quoted = world.dpicl(
        "run yearly --datasets till --dry-run",
        COLUMNS="200",
        DPICL_PIPELINES=str(world.root / "served.yaml"),
    ).stdout
    assert ["till", "1", "1", "0", "1", "2", "1"] in [
        line.split() for line in quoted.splitlines()
    ], quoted


@pytest.mark.exhaustive
def test_a_run_whose_server_process_was_killed_too_is_found_by_the_next_one(
    world: World, serving: Serving
) -> None:
    flow_run = asked_for(world, "on-demand")
    folder = begun(world, flow_run)
    os.killpg(serving.process.pid, signal.SIGKILL)
    for pid in engines(world, folder):
        os.kill(pid, signal.SIGKILL)
    assert world.ask(f"flow_runs/{flow_run}")["state_type"] == "RUNNING"
    serving.start()
    until(lambda: ends_well(world, flow_run), 240, "the run's second life", every=0.5)


@pytest.mark.exhaustive
def test_a_run_that_hangs_is_killed_after_the_time_of_its_schedule_and_goes_on(
    world: World, serving: Serving
) -> None:
    """It lives, and its heart beats: it waits for a ledger whose lock somebody keeps."""
    until(lambda: "hurried" in deployments(world), 120, "the deployments")
    flow_run = asked_for(world, "hurried")
    folder = begun(world, flow_run)
    with sqlite3.connect(world.home / "ledger.db") as ledger:
        ledger.execute("BEGIN IMMEDIATE")
        (hung,) = engines(world, folder)
        until(
            lambda: hung not in engines(world, folder),
            60,
            "the end of the process that hangs",
            every=0.5,
        )
        assert not list(folder.glob("units/*/results.json"))
    until(lambda: ends_well(world, flow_run), 240, "the run's second life", every=0.5)
    logs = world.ask(
        "logs/filter",
        {"logs": {"flow_run_id": {"any_": [flow_run]}, "level": {"ge_": 40}}, "limit": 200},
    )
    assert any(
        "worked longer than its schedule's timeout_hours, 0.002" in line["message"] for line in logs
    )
    assert (folder / "report.html").exists()


def interrupt(serving: Serving) -> None:
    os.kill(serving.process.pid, signal.SIGINT)
    _, err = serving.process.communicate(timeout=60)
    assert "Traceback" not in err, err
    assert serving.process.returncode == 0, err


def test_serve_stops_when_interrupted_and_pauses_its_schedules(
    world: World, declared: dict[str, Any], serving: Serving
) -> None:
    interrupt(serving)
    assert all(deployments(world)[name]["paused"] for name in declared)


@pytest.mark.exhaustive
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGHUP])
def test_what_is_registered_is_paused_when_serve_is_ended_before_it_listens(
    world: World, declared: dict[str, Any], sign: signal.Signals
) -> None:
    """A supervisor may end it at any moment: here at the first of several deployments."""
    names = [f"{sign.name.lower()}-{number}" for number in range(5)]
    plain = json.loads(json.dumps(dict.fromkeys(names, YEARLY)))
    file = world.root / f"{sign.name}.yaml"
    file.write_text(yaml.safe_dump({"pipelines": plain}, sort_keys=False))
    process = world.start("serve", DPICL_PIPELINES=str(file))
    until(lambda: names[0] in deployments(world), 300, "the first deployment")
    process.send_signal(sign)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0 and "Traceback" not in err, err
    registered = [found for name, found in deployments(world).items() if name in names]
    assert registered and all(found["paused"] for found in registered)


def test_shipped_pipelines_are_scheduled_only_where_their_file_is_named(
    world: World, tmp_path: Path
) -> None:
    """In a folder without pipelines.yaml nothing runs by itself."""
    environment = {**os.environ, **world.environment}
    del environment["DPICL_PIPELINES"]
    for command in ("serve", "deploy"):
        refused = complaint(ran([DPICL, command], env=environment, cwd=tmp_path))
        assert refused.startswith("pipelines.yaml: is not in this folder, and nothing else runs by")
        assert f"DPICL_PIPELINES: {SHIPPED_PIPELINES} has the shipped ones" in refused
    interval = 'dpicl_schedule_interval_seconds{pipeline="demo"}'
    for named in (None, str(SHIPPED_PIPELINES)):
        own = environment | ({} if named is None else {"DPICL_PIPELINES": named})
        metrics = well(ran([DPICL, "metrics"], env=own, cwd=tmp_path)).stdout
        forecast = well(ran([DPICL, "forecast"], env=own, cwd=tmp_path)).stdout
        assert (interval in metrics) == (named is not None)
        assert forecast.startswith(f"{0 if named is None else 1} scheduled pipeline"), forecast


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
            patch.setattr(maintenance, "SILENT", silent)
            patch.setattr(
                maintenance,
                "_WENT_SILENT",
                maintenance._WENT_SILENT.model_copy(update={"within": silent}),
            )
            maintenance.ensure_automations(None)
        yield
        maintenance.ensure_automations(None)


def done_by(world: World, automation: str) -> list[dict[str, Any]]:
    """Events of actions that an automation has carried out."""
    (known,) = world.ask("automations/filter", {"automations": {"name": {"any_": [automation]}}})
    return world.events("prefect.automation.action.executed", f"prefect.automation.{known['id']}")


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
        maintenance.ensure_automations(None)
    contract = shop(
        "stall", private=True, checks=[{"rule": "in_bounds", "column": "spent", "severity": "fail"}]
    )
    contract["columns"]["spent"]["bounds"] = [-5, 60]
    install(world, contract, shop_rows(80))
    with pytest.raises(DataError, match="stall: column 'spent': breaks in_bounds"):
        world.sweep("stall-run", grid_of("stall"), pipeline="private")
    failed = "dpicl.validation.failed", "dpicl.dataset.stall"
    until(lambda: world.events(*failed), 30, "the event", every=0.5)
    (event,) = world.events(*failed)
    assert event["payload"] == {"run": "stall-run"}
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
