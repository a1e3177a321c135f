"""A run is the same whoever does its steps: this process, a pool of processes, or Prefect on
Dask.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpicl.ground.errors import DpiclError
from dpicl.home.settings import Settings
from dpicl.report import report_steps
from dpicl.runs.chain import stages
from dpicl.runs.execute import InProcess, Step, WorkerPool, run_units
from dpicl.runs.plan import make_plan
from tests.harness import (
    Place,
    charged,
    install,
    install_texts,
    letters,
    new_place,
    shop,
    until,
    well,
)

GRID: dict[str, Any] = {"epsilons": ["1"], "shots": [1], "seeds": [0, 1], "model": "fake"}


def a_place(place: Place, *, private: bool = False) -> Place:
    install(place, shop("kiosk", private=private))
    install_texts(place, letters("postcards", private=private))
    return place


def test_stages_have_names_of_their_own_which_workers_find_them_by() -> None:
    names = [stage.name for stage in stages()]
    assert len(names) == len(set(names))
    assert names.index("measure") < names.index("release") < names.index("evaluate")


@pytest.mark.quick("gdp_tabicl")
@pytest.mark.parametrize("method", ["gdp_tabicl", "few_shot_generation"])
def test_workers_open_no_ledger(tmp_path: Path, method: str) -> None:
    """Only the owner charges and publishes; a worker that would is caught, as the ledger is not
    there for it.
    """
    place = a_place(new_place(tmp_path / "place"), private=True)
    dataset = "kiosk" if method == "gdp_tabicl" else "postcards"
    with place.entered():
        run = make_plan("private", {**GRID, "methods": [method], "datasets": [dataset]}, "r")

        class Watched(InProcess):
            def submit(self, step: Step) -> Any:
                ledger = place.home / "ledger.db"
                ledger.rename(place.home / "away")
                try:
                    return super().submit(step)
                finally:
                    assert not ledger.exists(), f"{step.stage.name} opened a ledger"
                    (place.home / "away").rename(ledger)

        run_units(run, Watched(), report_steps(run))
        assert {entry.release.account for entry in charged() if entry.artefact_sha256} == {dataset}


class Deadly(WorkerPool):
    """Kills a worker whenever it is given a step of this name, so many times."""

    times, name = 1, "score"

    def submit(self, step: Step) -> Any:
        job = super().submit(step)
        if step.stage.name == self.name and self.times:
            self.times -= 1
            busy = [worker for worker in self._workers if worker.job is job]
            for worker in busy:
                os.kill(worker._process.pid, signal.SIGKILL)
        return job


@pytest.mark.quick("3-False")
@pytest.mark.parametrize(("times", "ends"), [(2, True), (3, False)])
def test_a_step_whose_worker_dies_is_submitted_twice_again(
    tmp_path: Path, times: int, ends: bool
) -> None:
    place = a_place(new_place(tmp_path / "place"))
    with place.entered():
        run = make_plan(
            "demo", {**GRID, "methods": ["gdp_tabicl"], "datasets": ["kiosk"], "seeds": [0]}, "r"
        )
        with Deadly(1, Settings.from_environment()) as pool:
            pool.name, pool.times = "serialize", times
            if ends:
                run_units(run, pool, report_steps(run))
            else:
                with pytest.raises(
                    DpiclError,
                    match="workers were killed, perhaps for lack of memory; .*`dpicl run --resume r`",  # noqa: E501
                ):
                    run_units(run, pool, report_steps(run))
    assert (run / "results.csv").exists() is ends


def under_way(place: Place, dataset: str) -> subprocess.Popen[str]:
    """A run on a pool of two workers, of which a cell is scored."""
    options = f"--datasets {dataset} --methods ldp_tabicl --epsilons 1 --shots 1,2,4 --seeds 0"
    pool = "--model tiny --run-id r --executor pool --workers 2"
    process = place.start(f"run demo {options} {pool}")
    scored = "units/*/scored/*.npz"
    until(
        lambda: any(place.run("r").glob(scored)) or process.poll() is not None,
        120,
        "a scored cell",
        every=0.01,
    )
    return process


@pytest.mark.exhaustive
@pytest.mark.parametrize(("sign", "stop"), [(signal.SIGINT, os.killpg), (signal.SIGTERM, os.kill)])
def test_a_stopped_run_on_a_pool_ends_in_seconds_and_is_resumed(
    tmp_path: Path, sign: signal.Signals, stop: Callable[[int, int], None]
) -> None:
    place = a_place(new_place(tmp_path / "place"))
    process = under_way(place, "kiosk")
    began = time.monotonic()
    stop(process.pid, sign)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + sign and time.monotonic() - began < 10
    assert errors == "dpicl: interrupted; `dpicl run --resume r` continues it\n"
    assert not list((place.home / "private" / "kiosk").iterdir())
    before = {path: path.stat().st_mtime_ns for path in place.run("r").glob("units/*/scored/*.npz")}
    well(place.dpicl("run --resume r --executor pool --workers 2"))
    assert before and all(path.stat().st_mtime_ns == time_of for path, time_of in before.items())
    assert len(json.loads(next(place.run("r").glob("units/*/results.json")).read_text())) > 2
