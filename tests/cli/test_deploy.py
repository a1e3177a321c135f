"""`dpicl deploy`, `prefect deploy`, `prefect worker`: a pool's worker does what a pipeline says,
wherever it was deployed from.
"""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpicl.cli.terminal import console
from dpicl.home.settings import Settings
from dpicl.release.pipelines import Pipelines, load_pipelines
from flows.deployments import warn_of_own_ledgers, write_prefect_file
from tests.harness import (
    DPICL,
    World,
    complaint,
    install,
    process_group,
    ran,
    rows,
    shop,
    shop_rows,
    until,
    well,
)

PREFECT = str(DPICL.with_name("prefect"))
PIPELINE: dict[str, Any] = {
    "title": "One unit, on demand",
    "methods": ["gdp_tabicl"],
    "datasets": ["breast_cancer"],
    "epsilons": [1],
    "shots": [2],
    "queries": 5,
    "baselines": False,
    "model": "fake",
}
POOLED: dict[str, Any] = {
    **PIPELINE,
    "title": "One unit, on New Year's Day, by workers of a pool",
    "schedule": {
        "cron": "0 6 1 1 *",
        "work_pool": "hospital",
        "concurrency_limit": 3,
        "parameters": {"seeds": [7], "epsilons": ["inf"]},
    },
}


def environment(world: World) -> dict[str, str]:
    """Of an operator."""
    return {
        **os.environ,
        **world.environment,
        "DPICL_PIPELINES": str(world.root / "pool.yaml"),
        "PREFECT_WORKER_QUERY_SECONDS": "1",
    }


def declare(world: World, **pipelines: Any) -> None:
    """What runs, in a file of its own."""
    shipped = yaml.safe_load((world.root / "pipelines.yaml").read_text())
    # no aliases of what two of them share
    plain = json.loads(json.dumps({**shipped, "pipelines": pipelines}))
    (world.root / "pool.yaml").write_text(yaml.safe_dump(plain, sort_keys=False))


def deploy(world: World, file: Path, *words: str) -> str:
    """`dpicl deploy` to a file; gives what it says."""
    told = well(
        world.dpicl(
            "deploy",
            *words,
            "--out",
            str(file),
            DPICL_PIPELINES=str(world.root / "pool.yaml"),
            COLUMNS="300",
        )
    )
    return told.stdout


def prefect(world: World, folder: Path, *words: str) -> None:
    """A command of Prefect, as an operator types it in a folder; answers no question."""
    told = ran([PREFECT, *words], env=environment(world), cwd=folder, timeout=180)
    assert told.returncode == 0, told.stdout + told.stderr


def working(world: World) -> AbstractContextManager[object]:
    """A worker of the pool, which knows of the installation what was deployed."""
    command = [PREFECT, *["worker", "start", "--pool", "hospital"]]
    unaware = {name: value for name, value in environment(world).items() if name[:6] != "DPICL_"}
    return process_group(command, world.root / "worker.log", unaware, world.root)


@pytest.mark.exhaustive
def test_a_worker_of_a_pool_runs_what_was_deployed_from_another_folder(
    world: World, tmp_path: Path
) -> None:
    """The page's commands in their order; a folder of the deploying host that others lack must not
    come along.
    """
    declare(world, pooled=POOLED, other=PIPELINE)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    prefect(world, elsewhere, "work-pool", "create", "hospital", "--type", "process")
    told = deploy(world, elsewhere / "own.yaml")
    assert f"{elsewhere / 'own.yaml'}: 1 deployment;" in told
    assert f"--prefect-file {elsewhere / 'own.yaml'}" in told
    prefect(world, elsewhere, "--no-prompt", "deploy", "--all", "--prefect-file", "own.yaml")
    (deployed,) = world.ask("deployments/filter", {"deployments": {"name": {"any_": ["pooled"]}}})
    assert not deployed["pull_steps"] and deployed["work_pool_name"] == "hospital"
    assert deployed["global_concurrency_limit"]["limit"] == 3
    flow_run = world.ask(f"deployments/{deployed['id']}/create_flow_run", {})["id"]
    elsewhere.rename(tmp_path / "gone")
    with working(world):
        until(
            lambda: (
                world.ask(f"flow_runs/{flow_run}")["state_type"]
                in ("COMPLETED", "FAILED", "CRASHED")
            ),
            240,
            "the run",
            every=0.5,
        )
    assert world.ask(f"flow_runs/{flow_run}")["state_type"] == "COMPLETED"
    (report,) = (world.home / "runs").glob(
        f"pooled-*-{flow_run.replace('-', '')[-12:]}/report.html"
    )
    assert [path.name for path in report.parent.glob("units/*")] == [
        "gdp_tabicl__breast_cancer__seed7"
    ]
    assert {
        row["epsilon"] for row in rows(report.with_name("results.csv")) if row["system"] == "icl"
    } == {"inf"}


def test_workers_are_told_where_the_installation_is_and_no_password(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process worker starts a run in a folder of its own."""
    declare(world, other=PIPELINE)
    own = environment(world) | {"DPICL_LEDGER": "postgresql://ledger:hidden@database/ledger"}
    for name in ("HOME", "RUNS", "PIPELINES", "CONTRACTS", "DATA", "LEDGER"):
        monkeypatch.setenv(f"DPICL_{name}", own[f"DPICL_{name}"])
    monkeypatch.delenv("DPICL_CONTRACTS")
    monkeypatch.setenv("DPICL_DATA", "data")
    (tmp_path / "data_contracts").mkdir()
    monkeypatch.chdir(tmp_path)
    settings = Settings.from_environment()
    file = tmp_path / "prefect.yaml"
    write_prefect_file(file, load_pipelines(settings.pipelines), "ward", settings)
    (described,) = yaml.safe_load(file.read_text())["deployments"]
    told = described["work_pool"]["job_variables"]["env"]
    assert {name: told[name] for name in told if name.startswith("DPICL_")} == {
        "DPICL_HOME": str(world.home),
        "DPICL_RUNS": str(world.home / "runs"),
        "DPICL_PIPELINES": str(world.root / "pool.yaml"),
        "DPICL_CONTRACTS": str(tmp_path / "data_contracts"),
        "DPICL_DATA": str(tmp_path / "data"),
    }
    assert "hidden" not in file.read_text()


def test_it_is_said_which_runs_a_pool_refuses_for_want_of_a_shared_ledger(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of capped rows; benchmarks have no account to share."""
    install(world, shop("till", private=True), shop_rows(80))
    declare(world, capped={**PIPELINE, "datasets": ["till"]}, other=PIPELINE)
    with world.entered(DPICL_PIPELINES=str(world.root / "pool.yaml")):
        settings = Settings.from_environment()
        pipelines = load_pipelines(settings.pipelines)
        told = [
            _warned(capsys, pipelines, pool, with_ledger)
            for pool, with_ledger in [
                ("ward", settings),
                (None, settings),
                ("ward", replace(settings, ledger="postgresql://ledger:hidden@database/ledger")),
            ]
        ]
    assert told[0].startswith("warning: capped: workers of a pool refuse its runs: till: on a ")
    assert "expected one PostgreSQL for all in DPICL_LEDGER" in told[0]
    assert told[0].count("warning") == 1
    assert told[1:] == ["", ""]


def _warned(
    capsys: pytest.CaptureFixture[str], pipelines: Pipelines, pool: str | None, settings: Settings
) -> str:
    warn_of_own_ledgers(pipelines, pool, settings, console)
    return capsys.readouterr().out


@pytest.mark.exhaustive
def test_a_pool_of_the_command_line_is_for_pipelines_that_name_none(
    world: World, tmp_path: Path
) -> None:
    declare(world, pooled=POOLED, other=PIPELINE)
    deploy(world, tmp_path / "all.yaml", "--pool", "ward")
    described = yaml.safe_load((tmp_path / "all.yaml").read_text())["deployments"]
    assert {one["name"]: one["work_pool"]["name"] for one in described} == {
        "pooled": "hospital",
        "other": "ward",
    }
    assert [one["parameters"] for one in described] == [
        {"pipeline": "pooled", "changes": POOLED["schedule"]["parameters"]},
        {"pipeline": "other"},
    ]
    declare(world, other=PIPELINE)
    told = world.dpicl(
        f"deploy --out {tmp_path / 'none.yaml'}", DPICL_PIPELINES=str(world.root / "pool.yaml")
    )
    assert complaint(told).startswith("no schedule names a work pool; expected --pool")
    assert not (tmp_path / "none.yaml").exists()
