"""What `dpicl run` and `dpicl state clean` do on Prefect, contributed by the entry-point group
`dpicl.executors`: what is needed is started, and failures are told in one sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

from dpicl.cli.terminal import tell_when_stopped
from dpicl.ground.errors import DpiclError, RunError, first_line
from dpicl.home.settings import Settings
from flows.environment import keeps_flow_runs, prepare_environment

for _package in ("prefect", "prefect_dask"):
    if find_spec(_package) is None:
        raise ModuleNotFoundError(f"No module named {_package!r}", name=_package)

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun


_MOST_CAUSES = 3


def prepared() -> Callable[..., None]:
    """Set what Prefect goes by, before anything imports it; gives `run_on_prefect`."""
    prepare_environment(console_level="CRITICAL")
    return run_on_prefect


def run_on_prefect(
    folder: Path,
    pipeline: str,
    changes: dict[str, Any],
    workers: int,
    show: Callable[[str], object],
) -> None:
    """Start what is needed, and do a planned run there.

    Raises:
        DpiclError: something was refused or failed, told in one sentence.
    """
    from flows.runtime import runtime

    def note(flow: Any, flow_run: FlowRun, state: Any) -> None:
        del flow, state  # a hook's arguments have names
        tell_when_stopped(partial(_cancel, flow_run))

    show("starting the orchestrator and the workers")
    resume = f"`dpicl run --resume {folder.name}` does what is missing"
    try:
        with ExitStack() as stack:
            try:
                stack.enter_context(runtime(workers))
            except DpiclError:
                raise
            except Exception as error:  # noqa: BLE001 - of Prefect or Dask: no row is read yet
                raise RunError(
                    f"run {folder.name}: the orchestrator or its workers did not start "
                    f"({_causes(error)}); {resume}"
                ) from None
            from flows.tabicl import sweep

            show("running")
            sweep.with_options(on_running=[note])(pipeline, changes, folder.name, True)
    except DpiclError:
        raise
    except Exception as error:  # noqa: BLE001 - named without its traceback
        raise RunError(
            f"run {folder.name}: stopped by {type(error).__name__} at {_place(error)}; {resume}"
        ) from None


def _causes(error: BaseException) -> str:
    """An error and what it came of, each by its kind and first line."""
    told: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(told) < _MOST_CAUSES:
        told.append(f"{type(cause).__name__}: {first_line(cause)}")
        cause = cause.__cause__ or cause.__context__
    return ", from ".join(dict.fromkeys(told))


def _place(error: BaseException) -> str:
    """Where it arose; its words may quote a value."""
    frame = extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"


def clean(settings: Settings, keep_days: int, *, dry_run: bool) -> tuple[int, int] | None:
    """Delete flow runs that ended earlier than that, on the server that is named, else in the
    database of this state folder: how many, and the bytes it has shrunk by; None where there is
    neither.
    """
    if not keeps_flow_runs(settings):
        return None
    prepare_environment()
    from flows.maintenance import clean_prefect

    return clean_prefect(settings, keep_days, dry_run=dry_run)


def _cancel(flow_run: FlowRun) -> None:
    """Let the server show that the run was stopped, as it hears no more of it."""
    from prefect.client.orchestration import get_client
    from prefect.states import Cancelled

    with get_client(sync_client=True) as client:
        client.set_flow_run_state(
            flow_run.id,
            Cancelled(message="interrupted; a resumed run is a flow run of its own"),
            force=True,
        )
