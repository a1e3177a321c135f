"""What must be set before the orchestrator is imported: state folder, no telemetry, quiet console.

Everything set here can be overridden from outside.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

from dpicl.home.settings import Settings, check_restored

SERVER = "PREFECT_SERVER_ANALYTICS_ENABLED=false DO_NOT_TRACK=1 prefect server start"
"""What a user types who is to start a server: its own default is to tell its makers of its use."""
DEFAULTS = {  # of every process of a run, on a worker pool too
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "GX_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_LOGGING_COLORS": "false",  # what is printed passes a filter of escapes
    "PREFECT_LOGGING_EXTRA_LOGGERS": "dpicl",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "45",  # by which a server tells a silent run
    # Private frames must not reach a disk in plain.
    "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "False",
    "DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "False",
    # The pages of scheduler and workers need no login: all but the heartbeat are off.
    "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES": "['distributed.http.health']",
    "DASK_DISTRIBUTED__WORKER__HTTP__ROUTES": "['distributed.http.health']",
    # By itself a worker that waits for a model looks a hundred times a second at what it does, for
    # those pages.
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s",
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "5s",
    "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "forkserver",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def prepare_environment(*, console_level: str = "WARNING") -> None:
    """Set the defaults above and the state folders, once, before Prefect is imported.

    Args:
        console_level: what of the orchestrator's log the terminal shows; its pages show all.

    Raises:
        RunError: the state folder cannot be made, or not for its owner alone.
        LedgerRefusedError: a restore is not finished.
        ParameterError: DPICL_LOG_FORMAT is no format of logs, or DPICL_KEEP no number of days.
    """
    settings = Settings.from_environment()
    home = settings.home
    _ = settings.log_format, settings.keep_days  # refuse a wrong word before anything is started
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", console_level)
    os.environ.setdefault("PREFECT_HOME", str(home / "prefect"))
    # Prefect makes an address of it, and would put its database somewhere else
    if "?" in os.environ["PREFECT_HOME"]:
        file = quote(f"{os.environ['PREFECT_HOME']}/prefect.db")
        os.environ.setdefault(
            "PREFECT_SERVER_DATABASE_CONNECTION_URL", f"sqlite+aiosqlite:///file:{file}?uri=true"
        )
    os.environ.setdefault("DASK_TEMPORARY_DIRECTORY", str(home / "dask"))
    # workers may have another working directory
    os.environ["DPICL_RUNS"], os.environ["DPICL_HOME"] = (str(settings.runs), str(home))
    check_restored(home)
    for name in ("prefect", "dask"):
        settings.own(name)


def keeps_flow_runs(settings: Settings) -> bool:
    """Whether there is a server, or a database in the state folder, that may have flow runs."""
    return (
        bool(os.environ.get("PREFECT_API_URL"))
        or (settings.home / "prefect" / "prefect.db").exists()
    )


@contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    """An environment variable for what is started inside."""
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name, None)
