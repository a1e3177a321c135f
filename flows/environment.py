"""What must be set before the orchestrator is imported: state folder, no telemetry, quiet console.

Everything set here can be overridden from outside.
"""

from __future__ import annotations

import os

from tasks.settings import Settings

_DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "GX_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_LOGGING_EXTRA_LOGGERS": "dpicl",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "WARNING",
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
    # Private frames must not reach a disk in plain.
    "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "False",
    "DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "False",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def prepare_environment() -> None:
    """Set the defaults above and the state folders, once, before Prefect is imported."""
    home = Settings.from_environment().home
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("PREFECT_HOME", str(home / "prefect"))
    os.environ.setdefault("DASK_TEMPORARY_DIRECTORY", str(home / "dask"))
    os.environ["DPICL_HOME"] = str(home)
    for folder in (home, home / "prefect", home / "dask"):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
