"""The flow of a pipeline: every method, data set and seed of its grid, of tables and of texts.

    ingest → validate → split                         each data set
    → randomise → reconstruct                         LDP-TabICL
    or subsample → aggregate                          GDP-TabICL
    or consult, or generate                           texts
    → serialize → score → evaluate                    each method on a data set, with one seed

These are tasks of `tasks/stages.py`; other methods have other stages between split and serialize.
`dpicl/runs/chain.py` says which follows which, and `dpicl/runs/execute.py` gives them to the Dask
cluster of this flow; releases are charged and published in between by this process alone.
"""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from prefect import flow
from prefect.concurrency.sync import concurrency
from prefect.task_runners import TaskRunner
from prefect_dask import DaskTaskRunner

from dpicl.ground.errors import ParameterError
from dpicl.home.accounts import differing_caps, open_ledger
from dpicl.home.settings import Settings
from dpicl.release.releases import check_shared
from dpicl.report import report_steps
from dpicl.runs.execute import run_units
from dpicl.runs.plan import charges, make_plan, plan_accounts
from dpicl.runs.run_folder import Plan, read_plan
from flows.executor import OnDask, name_flow_run, run_name
from flows.maintenance import (
    end_killed,
    folder_name,
    held,
    held_by_hand,
    killed_after,
    resubmit,
    resubmit_later,
    scheduled_run,
)
from flows.run_log import announced, tell_refusals_in_one_sentence
from flows.runtime import local_cluster

log = logging.getLogger("dpicl.flows")
tell_refusals_in_one_sentence()


def task_runner() -> TaskRunner[Any]:
    """The cluster that DASK_SCHEDULER_ADDRESS names, else a local one for this flow run."""
    address = os.environ.get("DASK_SCHEDULER_ADDRESS")
    if address:
        return DaskTaskRunner(address=address)
    return DaskTaskRunner(cluster_class=local_cluster)


ACCOUNT_LIMIT = "dpicl-account-"
"""Before an account's name: a limit of the server, one run at a time. The ledger is safe without
it; this only spares waits and refusals.
"""

LEASE_SECONDS = 60.0
"""After which the place of a killed run is free again; Prefect takes no less."""


@flow(
    name="sweep",
    flow_run_name="{pipeline}",
    task_runner=task_runner(),
    persist_result=False,
    retries=0,
    on_crashed=[resubmit],
    on_failure=[resubmit_later],
)
def sweep(
    pipeline: str,
    changes: dict[str, Any] | None = None,
    run_id: str | None = None,
    resume: bool = False,
    period: str | None = None,
) -> str:
    """Run a pipeline of pipelines.yaml.

    Args:
        pipeline: Name of the pipeline in pipelines.yaml.
        changes: Keys of the pipeline that this run overrides, e.g.
            `{"datasets": ["blood"], "epsilons": [1]}`; public values only.
        run_id: Name of the run's folder; the pipeline and the time if left out.
        resume: Go on with the run `run_id`: do only what is missing.
        period: Period of all releases, e.g. `2026-12`; what the contracts say of the time that the
            run is due if left out.

    Returns:
        The run's id.
    """
    flow_run = scheduled_run()
    settings = Settings.from_environment()
    with settings.entered():
        log.info("%s: planning; tasks appear once contracts and models are checked", pipeline)
        if flow_run is None:
            run = make_plan(pipeline, changes or {}, run_id, resume=resume, period=period)
            with held_by_hand(settings) as own:
                plan = _begun(run, settings, is_on_pool=False)
                if resume and own is not None:
                    end_killed(run_name(plan), own, settings)
                _do(run, settings)
            return run.name
        # what a deployment made: alone in its folder and on its accounts, and for no longer than
        # its schedule allows; a pool's worker removes the folder that it starts runs in, and
        # `dpicl serve` sets both
        if not (os.environ.get("DPICL_HOME") or os.environ.get("DPICL_RUNS")):
            raise ParameterError(
                "DPICL_HOME",
                "",
                "the state folder that all workers share: a scheduled run does not go by its "
                "working directory",
            )
        with held(flow_run.id, settings), ExitStack() as stack:
            name = run_id
            begun = resume or flow_run.run_count > 1
            if not name:
                name, begun = folder_name(pipeline, flow_run, settings)
            stack.enter_context(announced(name, settings, goes_on=begun))
            when = flow_run.expected_start_time
            run = make_plan(pipeline, changes or {}, name, resume=begun, period=period, when=when)
            plan = _begun(run, settings, is_on_pool=flow_run.work_pool_name is not None)
            hours = plan.pipeline.schedule.timeout_hours if plan.pipeline.schedule else None
            # Opening an account waits for whoever writes to the ledger: it may take as long as the
            # work, and no longer.
            with killed_after(hours), open_ledger(settings) as ledger:
                limits = [
                    ACCOUNT_LIMIT + asks.account.name
                    for asks in charges(ledger, plan, settings)
                    if not asks.account.benchmark
                ]
            others_finished = (
                concurrency(limits, lease_duration=LEASE_SECONDS) if limits else nullcontext()
            )
            with others_finished, killed_after(hours):  # a wait for others is no work
                _do(run, settings)
        return run.name


def _begun(run: Path, settings: Settings, *, is_on_pool: bool) -> Plan:
    """Name the flow run by its plan. Where other hosts may work on the same rows, one ledger is
    needed for all of them.
    """
    plan = read_plan(run)
    host = urlsplit(os.environ.get("DASK_SCHEDULER_ADDRESS", "")).hostname
    name_flow_run(plan, settings)
    if is_on_pool or host not in (None, "localhost", "127.0.0.1", "::1"):
        check_shared((settings.declared(name) for name in plan.pipeline.datasets), settings)
    return plan


def _do(run: Path, settings: Settings) -> None:
    """Go through the chain with what is not yet done, then report."""
    log.info("%s: planned; the first task reads rows, or does what is missing", run.name)
    for sentence in differing_caps(plan_accounts(read_plan(run), settings), settings):
        # on the run's page, since nobody sees the terminal of a scheduled run
        log.warning("%s", sentence)
    run_units(run, OnDask(run), report_steps(run))
