"""What every stage has in common: what is tried again, and what its errors may say."""

from __future__ import annotations

import logging
import pickle
import traceback
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from prefect import flow
from prefect.context import FlowRunContext, SyncClientContext
from prefect_dask import DaskTaskRunner

from dpicl.ground.errors import DataError, DpiclError, RunError, StageFailed, clean_errors
from dpicl.methods import METHODS
from dpicl.runs.chain import deriving_stages, drawing_stages, stages
from dpicl.runs.stage import stage
from tasks.on_worker import _entered, do_step, flow_context
from tasks.stages import TASKS, made_task
from tests.harness import World, until
from tests.leaks import api, database, files, hits

CANARY = "canary-5f3a91e0"


def test_the_tasks_stand_in_the_order_of_the_chain_of_every_method() -> None:
    own = {
        name: {stage.name for stage in (*drawing_stages(name), *deriving_stages(name))}
        for name in METHODS
    }
    for name in METHODS:
        others = set().union(*own.values()) - own[name]
        chained = [stage.name for stage in stages() if stage.name not in others]
        assert [task for task in TASKS if task in chained] == chained


def chained() -> None:
    try:
        int(CANARY)
    except ValueError as error:
        raise RuntimeError(CANARY) from error


def breaking(kind: str) -> None:
    """Fail as libraries do: with a private value in the text."""
    failures: dict[str, Any] = {
        "value": lambda: float(CANARY),
        "key": lambda: {}[CANARY],
        "system": lambda: Path("/nowhere", CANARY).read_text(),
        "arrow": lambda: pa.array([CANARY]).cast(pa.int64()),
        "chained": chained,
        "unicode": lambda: CANARY.encode("utf-16")[:-1].decode("utf-16"),
    }
    failures[kind]()


KINDS = ("value", "key", "system", "arrow", "chained", "unicode")
SOME = ("key", "chained")


@pytest.mark.parametrize("kind", KINDS)
def test_a_foreign_error_is_told_without_its_text(kind: str) -> None:
    with pytest.raises(StageFailed) as failed:
        clean_errors("stage", breaking)(kind)
    assert CANARY not in str(failed.value) and str(failed.value).startswith("stage: ")
    # whoever follows them comes to frames that hold rows
    assert failed.value.__cause__ is None
    assert failed.value.__context__ is None


def test_our_own_error_passes_as_it_is() -> None:
    def refuse() -> None:
        raise RunError("run r7: 3 parts")

    with pytest.raises(RunError, match="run r7: 3 parts"):
        clean_errors("stage", refuse)()


def test_counts_of_a_data_error_are_for_the_terminal_and_stay_in_the_process() -> None:
    def refuse() -> None:
        raise DataError(
            "x7.csv",
            "some rows are empty; expected none of 99",
            column="age2",
            count=3,
            detail="17 of 238 rows",
        )

    with pytest.raises(DataError) as failed:
        clean_errors("stage", refuse)()
    for error in (failed.value, pickle.loads(pickle.dumps(failed.value))):  # noqa: S301 - our own words
        assert str(error) == "x7.csv: column 'age2': some rows are empty; expected none of 99"
        assert "17" not in "".join(traceback.format_exception(error)) + repr(error) + repr(
            vars(error)
        ) + repr(error.args)
    assert failed.value.details() == f"{failed.value} (3 values, 17 of 238 rows)"
    assert pickle.loads(pickle.dumps(failed.value)).details() == str(failed.value)  # noqa: S301 - our own words


def attempt(folder: str, fail_count: int, ours: bool) -> str:
    """Fail the first few times; attempts are counted in files, whoever makes them."""
    number = len(list(Path(folder).iterdir()))
    (Path(folder) / str(number)).touch()
    if number < fail_count:
        raise (
            DpiclError("a broken rule")
            if ours
            else OSError(5, "Input/output error", f"/private/{CANARY}")
        )
    return "done"


flaky = made_task(stage("flaky")(attempt), "flaky").with_options(retry_delay_seconds=0)
broken = made_task(stage("broken")(breaking), "broken {kind}").with_options(retry_delay_seconds=0)


def attempts(world: World, flow_run_name: str) -> dict[str, tuple[int, str]]:
    """How often each task ran, and how it ended."""
    body = {"flow_runs": {"name": {"any_": [flow_run_name]}}, "limit": 100}
    until(
        lambda: (
            {run["state_type"] for run in world.ask("task_runs/filter", body)}
            in ({"COMPLETED"}, {"FAILED"})
        ),
        120,
        "the tasks' states",
    )
    return {
        run["name"]: (run["run_count"], run["state_type"])
        for run in world.ask("task_runs/filter", body)
    }


def run_flow(world: World, name: str, work: Any, *, on_cluster: bool = False) -> list[Any]:
    """Run `work` as a flow and return what it returns."""
    runner = {"task_runner": DaskTaskRunner(address=world.scheduler)} if on_cluster else {}
    with world.entered():
        return list(flow(work, name=name, flow_run_name=name, **runner)())


@pytest.mark.exhaustive
@pytest.mark.parametrize("on_cluster", [False, True])
def test_two_failures_of_the_system_are_tried_again_and_the_third_attempt_counts(
    world: World, tmp_path: Path, on_cluster: bool
) -> None:
    def work() -> list[str]:
        return [
            flaky.submit(str(tmp_path), 2, False).result()
            if on_cluster
            else flaky(str(tmp_path), 2, False)
        ]

    assert run_flow(world, f"flaky-{on_cluster}", work, on_cluster=on_cluster) == ["done"]
    assert attempts(world, f"flaky-{on_cluster}") == {"flaky": (3, "COMPLETED")}


@pytest.mark.quick("True-1")
@pytest.mark.parametrize(("ours", "count"), [(True, 1), (False, 3)])
def test_a_broken_rule_is_tried_once_and_a_lasting_failure_three_times(
    world: World, tmp_path: Path, ours: bool, count: int
) -> None:
    def work() -> list[Any]:
        return [flaky(str(tmp_path), 99, ours, return_state=True).type.value]

    assert run_flow(world, f"hopeless-{ours}", work) == ["FAILED"]
    assert attempts(world, f"hopeless-{ours}") == {"flaky": (count, "FAILED")}
    assert len(list(tmp_path.iterdir())) == count


def test_a_foreign_error_s_text_reaches_no_log_state_or_file_of_the_orchestrator(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> list[Any]:
        here = [broken(kind, return_state=True).type.value for kind in SOME]
        there = [broken.submit(kind).wait() for kind in SOME]
        return [*here, len(there), flaky(str(tmp_path), 1, False)]

    with caplog.at_level(logging.DEBUG, "dpicl"):
        assert run_flow(world, "leaks", work, on_cluster=True) == [
            *["FAILED"] * len(SOME),
            len(SOME),
            "done",
        ]
    until(
        lambda: b"flaky: Input/output error (errno 5)" in api(world)["logs"], 120, "the retry's log"
    )
    until(
        lambda: all(
            b"broken: KeyError at" in stored
            for stored in (api(world)["task_runs"], *database(world).values())
        ),
        120,
        "the tasks' states",
    )
    told = {**api(world), **database(world), "log": caplog.text.encode()}
    left = {**files([world.root / "prefect", world.root / "dask", world.root / "tmp"]), **told}
    assert not hits(left, [CANARY])


@pytest.mark.exhaustive
def test_a_worker_enters_a_flow_run_once_and_its_steps_are_task_runs_of_that_flow_run(
    world: World,
) -> None:
    def work() -> list[Any]:
        client, flow_run = FlowRunContext.get().task_runner.client, flow_context()
        worker = min(client.scheduler_info(n_workers=-1)["workers"])
        return [
            client.submit(
                entered_after,
                "probe",
                (f"/nowhere/{number}",),
                uuid4(),
                flow_run,
                workers=[worker],
                pure=False,
            ).result()
            for number in range(2)
        ]

    one, other = (
        run_flow(world, name, work, on_cluster=True) for name in ("entered-one", "entered-other")
    )
    assert one[0] == one[1] != other[0] == other[1]
    assert [state for _, state in (*one, *other)] == ["FAILED"] * 4
    for name in ("entered-one", "entered-other"):
        body = {"flow_runs": {"name": {"any_": [name]}}}
        until(
            lambda body=body: (
                [run["state_type"] for run in world.ask("task_runs/filter", body)] == ["FAILED"] * 2
            ),
            120,
            "both task runs",
        )  # type: ignore[misc]


def entered_after(*step: Any) -> tuple[int, str]:
    """Do a step on a worker: the HTTP client that it was done with, and how it ended."""
    state = do_step(*step)
    return id(_entered(step[-1]).context[SyncClientContext.__var__].client), state.type.value
