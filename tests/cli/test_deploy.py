"""`dpicl deploy`, `prefect deploy`, `prefect worker`: a pool's worker does what a pipeline says, wherever it was deployed from."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.harness import DPICL, World, end, until

PREFECT = str(DPICL.with_name("prefect"))
PIPELINE = {
    "title": "One unit, on demand",
    "methods": ["gdp_tabicl"],
    "datasets": ["breast_cancer"],
    "epsilons": [1],
    "shots": [2],
    "queries": 5,
    "baselines": False,
    "model": "fake",
}


def environment(world: World) -> dict[str, str]:
    """Of an operator, and of a worker on another host of the same installation."""
    return {**os.environ, **world.environment, "DPICL_PIPELINES": str(world.root / "pool.yaml"), "PREFECT_WORKER_QUERY_SECONDS": "1"}


def prefect(world: World, folder: Path, *words: str) -> None:
    """A command of Prefect, as an operator types it in a folder; answers no question."""
    told = subprocess.run([PREFECT, *words], env=environment(world), cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


@contextmanager
def working(world: World) -> Iterator[None]:
    """A worker of the pool."""
    command = [PREFECT, "worker", "start", "--pool", "hospital"]
    with (world.root / "worker.log").open("w") as log:
        process = subprocess.Popen(
            command, env=environment(world), cwd=world.root, stdout=log, stderr=log, text=True, start_new_session=True
        )
    try:
        yield
    finally:
        end(process)


def test_a_worker_of_a_pool_runs_what_was_deployed_from_another_folder(world: World, tmp_path: Path) -> None:
    """The page's commands in their order; a folder of the deploying host that others lack must not come along."""
    shipped = yaml.safe_load((world.root / "pipelines.yaml").read_text())
    (world.root / "pool.yaml").write_text(yaml.safe_dump({**shipped, "pipelines": {"pooled": PIPELINE}}))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    prefect(world, elsewhere, "work-pool", "create", "hospital", "--type", "process")
    told = world.dpicl(
        "deploy", "--pool", "hospital", "--out", str(elsewhere / "own.yaml"), DPICL_PIPELINES=str(world.root / "pool.yaml"), COLUMNS="300"
    )
    assert told.returncode == 0 and f"--prefect-file {elsewhere / 'own.yaml'}" in told.stdout, told.stderr
    prefect(world, elsewhere, "--no-prompt", "deploy", "--all", "--prefect-file", "own.yaml")
    (deployed,) = world.ask("deployments/filter", {"deployments": {"name": {"any_": ["pooled"]}}})
    assert not deployed["pull_steps"] and deployed["work_pool_name"] == "hospital"
    flow_run = world.ask(f"deployments/{deployed['id']}/create_flow_run", {})["id"]
    elsewhere.rename(tmp_path / "gone")
    with working(world):
        until(lambda: world.ask(f"flow_runs/{flow_run}")["state_type"] in ("COMPLETED", "FAILED", "CRASHED"), 240, "the run", every=0.5)
    assert world.ask(f"flow_runs/{flow_run}")["state_type"] == "COMPLETED"
    assert list((world.home / "runs").glob(f"pooled-*-{flow_run.replace('-', '')[-12:]}/report.html"))
