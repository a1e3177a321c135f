"""A program: every flow, as it should be, with faults in every private stage, and with deliberate
leaks.

Prints how each flow ended, as JSON; works where the environment points.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import suppress

from flows.environment import prepare_environment

prepare_environment()

from prefect import flow, task  # noqa: E402 - after its environment
from prefect.artifacts import create_markdown_artifact  # noqa: E402
from prefect.cache_policies import NO_CACHE  # noqa: E402

import dpicl.release.rows  # noqa: E402
import tasks.warm  # noqa: E402, F401
from flows.tabicl import sweep, task_runner  # noqa: E402
from tasks.stages import TASKS  # noqa: E402
from tests.flows.planted import MUTANTS, OUTSIDE, STAGES, fault, plant  # noqa: E402

GRID = {"epsilons": [1], "shots": [2], "seeds": [0], "model": "fake"}


def ended(work: Callable[[], object]) -> str:
    """What a flow gave, or the error that it failed with."""
    try:
        return str(work())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def faults() -> dict[str, str]:
    """Private tables that break their contract, stages that quote rows, workers that die."""
    for name, one in TASKS.items():
        TASKS[name] = one.with_options(retry_delay_seconds=0)
    # of this process, which reads tables
    plant(dpicl.release.rows, "load_source", "ingest")
    private = {**GRID, "datasets": ["spoilt", "outside", "raising", *map(fault, STAGES)]}
    bench = {
        **GRID,
        "datasets": ["doomed", fault("baselines")],
        "methods": ["gdp_tabicl"],
        "epsilons": [1, "inf"],
    }
    written = {**GRID, "datasets": [fault("generate")], "methods": ["few_shot_generation"]}
    answered = {**GRID, "datasets": [fault("consult")], "methods": ["dp_icl"]}
    return {
        "faults": ended(lambda: sweep("private", private, "canaries-faults")),
        "texts": ended(lambda: sweep("private", written, "canaries-texts")),
        "asked": ended(lambda: sweep("private", answered, "canaries-asked")),
        "workers": ended(lambda: sweep("demo", bench, "canaries-workers")),
    }


@task(cache_policy=NO_CACHE)
def quoting(row: dict[str, str]) -> None:
    """Fail as no stage of ours may."""
    raise ValueError(row["exception"])


@task(cache_policy=NO_CACHE)
def printing(row: dict[str, str]) -> None:
    """Tell the worker's log."""
    print(row["on a worker"], flush=True)


@task(persist_result=True)
def returning() -> dict[str, str]:
    """Leave a result in storage."""
    return {"row": MUTANTS["result"]}


@flow(task_runner=task_runner())
def leaky(row: str) -> int:
    """Everything that a flow of ours must not do."""
    print(MUTANTS["printed"], flush=True)
    create_markdown_artifact(key="leaky", markdown=MUTANTS["artifact"])
    quoting(MUTANTS, return_state=True)
    printing.submit({"on a worker": MUTANTS["on a worker"]}).wait()
    returning()
    with suppress(OSError):
        socket.create_connection(OUTSIDE, timeout=0.1)
    return len(row)


def main() -> None:
    """Do everything and say how it ended."""
    tables, letters = ({**GRID, "datasets": [name]} for name in ("canaries", "letters"))
    outcomes = {
        "ldp": ended(lambda: sweep("ldp-tabicl", tables, "canaries-ldp")),
        "gdp": ended(lambda: sweep("gdp-tabicl", tables, "canaries-gdp")),
        "few-shot": ended(lambda: sweep("few-shot-generation", letters, "canaries-few-shot")),
        "ensembles": ended(lambda: sweep("dp-icl", letters, "canaries-ensembles")),
        **faults(),
        "leaky": ended(lambda: leaky(MUTANTS["parameter"])),
    }
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
