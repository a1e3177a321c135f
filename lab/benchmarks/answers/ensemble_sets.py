"""Six text sets through DP-ICL, one command each, answered by a server on this machine; and the
demo, as a newcomer runs it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from dpicl.home.settings import Settings
from lab.benchmarks.endpoint import elsewhere
from lab.benchmarks.figures import Figures, sized
from tests.library.endpoint_server import Habits

SETS = sized(("trec", "sst2", "agnews", "amazon", "sroie", "samsum"), ("trec",))
DEMO_GOAL = 300
SERVER = {
    "kind": "endpoint",
    "id": "m",
    "trust": "local",
    "api": "completions",
    "max_connections": 64,
}


def _run(folder: Path, *arguments: str) -> tuple[int, float]:
    """Exit code and seconds of a command in a folder of its own."""
    started = time.perf_counter()
    done = subprocess.run(
        [str(Path(sys.executable).with_name("dpicl")), "run", *arguments],
        cwd=folder,
        env={
            **os.environ,
            "DPICL_HOME": str(folder / "home"),
            "DPICL_PIPELINES": str(folder / "pipelines.yaml"),
        },
        capture_output=True,
        check=False,
    )
    return done.returncode, time.perf_counter() - started


def measure(figures: Figures) -> None:
    """Every set ends well; seconds are told, and those of the demo have a goal."""
    settings = Settings.from_environment()
    if settings.data is None:
        print("DPICL_DATA is not set, not measured")
        return
    with tempfile.TemporaryDirectory() as name, elsewhere(Habits(echo="ignores")) as url:
        folder, pipelines = Path(name), yaml.safe_load(settings.pipelines.read_text())
        pipelines["models"]["server"] = {**SERVER, "url": url}
        (folder / "pipelines.yaml").write_text(yaml.safe_dump(pipelines, sort_keys=False))
        failed = 0
        for dataset in SETS:
            code, seconds = _run(folder, "dp-icl", "--datasets", dataset, "--model", "server")
            print(f"{dataset}: exit code {code}, {seconds:.0f} s", flush=True)
            failed += code != 0
        figures.exactly("ensembles-sets-that-failed", failed, 0)
        code, seconds = _run(folder, "dp-icl-demo")
        figures.at_most("ensembles-demo", seconds if code == 0 else float("inf"), DEMO_GOAL, " s")
