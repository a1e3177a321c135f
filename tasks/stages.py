"""The tasks of a run, in the order of its chain: what each is called on Prefect's pages, and how
often it is tried. What is edited here is so in every run on Prefect.

`dpicl/runs/chain.py` says which follows which; `prepare.py`, `draw.py` and `evaluate.py` beside it
hold the work. Prefect keeps a task's references and one line of counts, and no result.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.context import TaskRunContext

from dpicl.ground.errors import DpiclError
from dpicl.home.settings import Settings
from dpicl.report import collect_run, write_report
from dpicl.runs.chain import stage_named
from dpicl.runs.stage import Stage, attempt
from tasks.expectations import check_and_evaluate, prepare_and_evaluate

# Every other line of a run's page: the stage's own line says that it is done.
logging.getLogger("prefect.task_runs").addFilter(
    lambda record: record.getMessage() != "Finished in state Completed()"
)


def _worth_retrying(_task: Any, _run: Any, state: Any) -> bool:
    """A broken rule stays broken; only unforeseen failures are tried again."""
    return not isinstance(state.result(raise_on_failure=False), DpiclError)


COMMON: dict[str, Any] = {
    "retry_delay_seconds": [1, 5],
    "retry_jitter_factor": 0.5,
    "retry_condition_fn": _worth_retrying,
    "persist_result": False,
    "cache_policy": NO_CACHE,
    "log_prints": False,
}


def do(stage: Stage, *references: Any) -> str:
    """Do a stage in this process, by the settings of its environment; its log says which try this
    is.
    """
    context = TaskRunContext.get()
    with (
        Settings.from_environment().entered(),
        attempt(None if context is None else context.task_run.run_count),
    ):
        return stage(*references)


# Of a run, before anything is charged.


@task(task_run_name="probe models", retries=2, **COMMON)
def probe(run: str) -> str:
    """Ask the models public questions: one that cannot answer must not cost anything."""
    return do(stage_named("probe"), run)


# Of each data set.


@task(task_run_name="receive {dataset}", retries=2, **COMMON)
def receive(run: str, dataset: str) -> str:
    """Count the reports of clients, in place of rows."""
    return do(stage_named("receive"), run, dataset)


@task(task_run_name="ingest {dataset}", retries=2, **COMMON)
def ingest(run: str, dataset: str) -> str:
    """Read the source once, into a typed private table; of a large one, what batches there are."""
    return do(stage_named("ingest"), run, dataset)


@task(task_run_name="prepare {dataset} {part}", retries=2, **COMMON)
def prepare(run: str, dataset: str, part: int, parts: int) -> str:
    """Read, validate and split a part of a large table's batches."""
    return do(prepare_and_evaluate, run, dataset, part, parts)


@task(task_run_name="validate {dataset}", retries=2, **COMMON)
def validate(run: str, dataset: str) -> str:
    """Check the contract's rules, and evaluate expectations by Great Expectations."""
    return do(check_and_evaluate, run, dataset)


@task(task_run_name="split {dataset}", retries=2, **COMMON)
def split(run: str, dataset: str) -> str:
    """Hold queries out; what is left is what mechanisms read."""
    return do(stage_named("split"), run, dataset)


# Of each unit: a method on a data set, with one seed. Charged before a row is read.


@task(task_run_name="advance {unit_key}", retries=2, **COMMON)
def advance(run: str, unit_key: str) -> str:
    """Charge and release the periods of a series that are over."""
    return do(stage_named("advance"), run, unit_key)


@task(task_run_name="charge {unit_key}", retries=2, **COMMON)
def charge(run: str, unit_key: str) -> str:
    """Charge every release of the unit to its account."""
    return do(stage_named("charge"), run, unit_key)


@task(task_run_name="count {unit_key} {part}", retries=2, **COMMON)
def count(run: str, unit_key: str, part: int, parts: int) -> str:
    """Count a part of a large table's batches, exactly."""
    return do(stage_named("count"), run, unit_key, part, parts)


@task(task_run_name="subsample {unit_key}", retries=2, **COMMON)
def subsample(run: str, unit_key: str) -> str:
    """GDP-TabICL: draw the rows of each group."""
    return do(stage_named("subsample"), run, unit_key)


@task(task_run_name="aggregate {unit_key}", retries=2, **COMMON)
def aggregate(run: str, unit_key: str) -> str:
    """GDP-TabICL: average each group, with noise."""
    return do(stage_named("aggregate"), run, unit_key)


@task(task_run_name="randomise {unit_key}", retries=2, **COMMON)
def randomise(run: str, unit_key: str) -> str:
    """LDP-TabICL: every row is randomised as its client would."""
    return do(stage_named("randomise"), run, unit_key)


@task(task_run_name="measure {unit_key}", retries=2, **COMMON)
def measure(run: str, unit_key: str) -> str:
    """MST-TabICL and AIM-TabICL: measure counts, with noise."""
    return do(stage_named("measure"), run, unit_key)


@task(task_run_name="evolve {unit_key}", retries=2, **COMMON)
def evolve(run: str, unit_key: str) -> str:
    """Tab-PE: let rows vote, with noise, on made-up ones."""
    return do(stage_named("evolve"), run, unit_key)


@task(task_run_name="vote {unit_key}", retries=2, **COMMON)
def vote(run: str, unit_key: str) -> str:
    """TabPATE: let teachers vote, with noise, on public rows."""
    return do(stage_named("vote"), run, unit_key)


@task(task_run_name="generate {unit_keys[0]} part {part}", retries=2, **COMMON)
def generate(run: str, unit_keys: tuple[str, ...], part: int = 0, parts: int = 1) -> str:
    """Texts: write demonstrations token by token, of all units of a data set in one pass."""
    return do(stage_named("generate"), run, unit_keys, part, parts)


@task(task_run_name="consult {unit_key}", retries=2, **COMMON)
def consult(run: str, unit_key: str) -> str:
    """Texts: let an ensemble of prompts with private texts vote, with noise, on each query."""
    return do(stage_named("consult"), run, unit_key)


@task(task_run_name="release {unit_key}", retries=2, **COMMON)
def release(run: str, unit_key: str) -> str:
    """Publish what was drawn, once."""
    return do(stage_named("release"), run, unit_key)


@task(task_run_name="reconstruct {unit_key}", retries=2, **COMMON)
def reconstruct(run: str, unit_key: str) -> str:
    """Make rows of what was released."""
    return do(stage_named("reconstruct"), run, unit_key)


@task(task_run_name="label {unit_key}", retries=2, **COMMON)
def label(run: str, unit_key: str) -> str:
    """TabPATE: label public rows as was voted."""
    return do(stage_named("label"), run, unit_key)


@task(task_run_name="serialize {unit_key}", retries=2, **COMMON)
def serialize(run: str, unit_key: str) -> str:
    """Write demonstrations and queries as prompts."""
    return do(stage_named("serialize"), run, unit_key)


@task(task_run_name="score {unit_key} part {part}", retries=2, **COMMON)
def score(run: str, unit_key: str, part: int) -> str:
    """Infer: let the model answer a part of the prompts."""
    return do(stage_named("score"), run, unit_key, part)


@task(task_run_name="baselines {unit_key}", retries=2, **COMMON)
def baselines(run: str, unit_key: str) -> str:
    """Fit ordinary classifiers, to compare with."""
    return do(stage_named("baselines"), run, unit_key)


@task(task_run_name="evaluate {unit_key}", retries=2, **COMMON)
def evaluate(run: str, unit_key: str) -> str:
    """Compare answers with the truth."""
    return do(stage_named("evaluate"), run, unit_key)


# Of a run, once its units are done.


@task(task_run_name="collect", retries=2, **COMMON)
def collect(run: str) -> str:
    """Put all results in one place."""
    return do(collect_run, run)


@task(task_run_name="report", retries=2, **COMMON)
def report(run: str) -> str:
    """Write the report."""
    return do(write_report, run)


TASKS: dict[str, Task[..., str]] = {
    task.name: task for task in list(globals().values()) if isinstance(task, Task)
}


def task_of(stage: Stage) -> Task[..., str]:
    """The task of a stage; of one that a method of another package brings, a task like the
    others.
    """
    if stage.name not in TASKS:
        TASKS[stage.name] = made_task(stage, f"{stage.name} {{unit_key}}")
    return TASKS[stage.name]


def made_task(stage: Stage, task_run_name: str) -> Task[..., str]:
    """A task of a stage that stands elsewhere."""

    @functools.wraps(stage.run)
    def run(*references: Any) -> str:
        return do(stage, *references)

    return task(name=stage.name, task_run_name=task_run_name, retries=2, **COMMON)(run)
