"""A real language model, SmolLM2-135M-Instruct by the name `smollm2`: what it takes to get it, to
check it, and to ask it again.

Processor seconds are those of the commands as a user types them, imports included; on an idle
machine with two cores.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from dpicl.home.settings import Settings
from dpicl.models.local.gguf_file import SMOLLM2
from lab.benchmarks import real_speed
from lab.benchmarks.figures import Figures, bench, children, sized

FETCH_SECONDS, CHECK_PROCESSOR_SECONDS, CHECK_SECONDS, AGAIN_PROCESSOR_SECONDS = 60, 30, 40, 5
_DEMONSTRATIONS, _ROWS = sized(4, 1), sized(4, 1)


def taken(*arguments: str, **environment: str) -> tuple[float, float, str]:
    """Wall and processor seconds of `dpicl` with these arguments, and what it printed."""
    began, before = time.perf_counter(), children()
    command = [sys.executable, "-m", "dpicl", *arguments]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **environment}
    )
    return time.perf_counter() - began, children() - before, done.stdout


def until(told: str, *arguments: str, **environment: str) -> float:
    """Processor seconds of `dpicl` with these arguments until it prints a note that begins so."""
    command = [sys.executable, "-m", "dpicl", *arguments]
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith(told):
                used = psutil.Process(process.pid).cpu_times()
                process.stderr.read()
                return used.user + used.system
    raise AssertionError(f"{arguments[0]} did not say {told!r}")


def fetched(figures: Figures) -> None:
    """From the index, with nothing kept before: the download and the weights written out, then the
    check, then the check again.
    """
    with tempfile.TemporaryDirectory() as folder:
        seconds, processor, printed = taken("model", "fetch", SMOLLM2.name, XDG_CACHE_HOME=folder)
        stored = sum(
            path.stat().st_size
            for path in Path(printed.strip()).parent.rglob("*")
            if path.is_file()
        )
        print(
            f"fetch: {seconds:.1f} s, {processor:.1f} processor seconds, {stored / 1e6:.0f} MB in "
            f"the cache"
        )
        figures.at_most("fetch-and-write-out", seconds, FETCH_SECONDS, " s")
        seconds, processor, _ = taken("model", "check", SMOLLM2.name, XDG_CACHE_HOME=folder)
        figures.at_most("first-check-processor", processor, CHECK_PROCESSOR_SECONDS, " s")
        figures.at_most("first-check", seconds, CHECK_SECONDS, " s")


def asked_again(figures: Figures) -> None:
    """`dpicl ask` beside released demonstrations, of a model that was checked before: until it
    asks.
    """
    with tempfile.TemporaryDirectory() as folder:
        demos, rows = Path(folder) / "demos.jsonl", Path(folder) / "rows.csv"
        home = {"DPICL_HOME": f"{folder}/home"}
        taken(
            "protect",
            "breast_cancer",
            "--epsilon",
            "1",
            "--shots",
            str(_DEMONSTRATIONS),
            "--out",
            str(demos),
            **home,
        )
        names = list(Settings.from_environment().contract("breast_cancer").features)
        rows.write_text(
            "\n".join([",".join(names), *[",".join(["1"] * len(names))] * _ROWS]) + "\n"
        )
        ask = ("ask", "--demos", str(demos), "--queries", str(rows), "--model", SMOLLM2.name)
        taken(*ask, **home)
        begins = until("smollm2 is asked", *ask, **home)
        figures.at_most("second-ask-begins-processor", begins, AGAIN_PROCESSOR_SECONDS, " s")


PARTS = (fetched, asked_again, real_speed.measure)

if __name__ == "__main__":
    bench(PARTS)
