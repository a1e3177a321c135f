"""A step as a task of Prefect on a worker of Dask, in a context that a worker makes once for a flow
run.

By itself Prefect makes it anew for each task: all its settings, and two clients, each of which
reads the certificates of every public authority. That is most of what a task costs a worker besides
what it does, and a run has hundreds of tasks.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from distributed.protocol.pickle import dumps, loads
from prefect.context import SettingsContext, SyncClientContext, serialize_context
from prefect.task_engine import run_task_sync
from prefect.utilities.callables import get_call_parameters

from dpicl.runs.chain import stage_named
from tasks.stages import task_of


@dataclass(frozen=True)
class FlowContext:
    """What workers need to know of a flow run, and of its settings: keys of its server too, so that
    no message shows it.
    """

    packed: bytes = field(repr=False)


def flow_context() -> FlowContext:
    """Of the flow run around this."""
    return FlowContext(dumps(serialize_context()))


def do_step(name: str, references: Sequence[Any], task_run_id: UUID, flow: FlowContext) -> Any:
    """Do a step as a task run of the flow run that `flow_context` is of; gives its last `State`, as
    Prefect's own runner does.
    """
    here = _entered(flow)
    task = task_of(stage_named(name))
    parameters = get_call_parameters(task.fn, tuple(references), {})
    run = partial(
        run_task_sync,
        task,
        task_run_id,
        parameters=parameters,
        return_type="state",
        context=here.of_flow_run,
    )
    return here.context.run(run)


@dataclass
class _Entered:
    """A flow run's settings and a client of its server, entered in a context of their own; what is
    left of what it sent is entered by each task.
    """

    flow: FlowContext
    context: Context
    stack: ExitStack
    of_flow_run: dict[str, Any]


_here = threading.local()
"""A worker may have several threads, and a context is entered by one at a time."""


def _entered(flow: FlowContext) -> _Entered:
    before: _Entered | None = getattr(_here, "entered", None)
    if before is not None and before.flow == flow:
        return before
    if before is not None:
        del _here.entered
        before.context.run(before.stack.close)
    sent = loads(flow.packed)
    context = copy_context()
    stack = ExitStack()
    context.run(_enter, stack, sent.pop("settings_context"))
    _here.entered = _Entered(flow, context, stack, sent)
    return _here.entered


def _enter(stack: ExitStack, settings: dict[str, Any]) -> None:
    stack.enter_context(SettingsContext(**settings))
    stack.enter_context(SyncClientContext())
