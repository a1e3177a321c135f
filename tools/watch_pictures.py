"""The pictures of docs/how-to/watch.md: `python -m tools.watch_pictures` starts a Prefect server,
runs a small pipeline, and looks.

Needs Chromium, and the data of two public tables (`dpicl data fetch`); takes some minutes. Nothing
of the user's own state is touched.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.browser import CHROMIUM

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "how-to"
SIZE, MOST_BYTES = "1100,780", 150_000
_GRID = (
    "--methods",
    "ldp_tabicl,gdp_tabicl",
    "--datasets",
    "breast_cancer,diabetes",
    "--epsilons",
    "1,10,inf",
    "--shots",
    "2",
    "--queries",
    "20",
)
RUN = ("run", "demo", "--model", "bundled", *_GRID)
_WAIT = 120


def main() -> None:
    """Write the pictures."""
    if CHROMIUM is None:
        sys.exit("watch_pictures: no Chromium here; expected one to look at the pages with")
    with TemporaryDirectory() as place, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        probe.close()
        own = {
            "PREFECT_HOME": f"{place}/prefect",
            "DPICL_HOME": f"{place}/home",
            "PREFECT_SERVER_UI_API_URL": f"{url}/api",
        }
        quiet = {
            "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
        }
        environment = {**os.environ, **own, **quiet}
        command = [
            sys.executable,
            "-m",
            "prefect",
            "server",
            "start",
            "--host",
            "127.0.0.1",
            "--port",
            url.rpartition(":")[2],
        ]
        server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603
        try:
            _until_it_answers(url)
            run = [sys.executable, "-m", "dpicl", *RUN, "--executor", "prefect"]
            subprocess.run(run, env={**environment, "PREFECT_API_URL": f"{url}/api"}, check=True)  # noqa: S603
            for name, path in _paths(url).items():
                _picture(url + path, PICTURES / f"watch-{name}.png", place)
        finally:
            server.terminate()
            server.wait()


def _until_it_answers(url: str) -> None:
    until = time.monotonic() + _WAIT
    while time.monotonic() < until:
        with suppress(OSError), urllib.request.urlopen(f"{url}/api/health", timeout=5):  # noqa: S310
            return
        time.sleep(0.5)
    sys.exit("watch_pictures: the Prefect server did not start")


def _paths(url: str) -> dict[str, str]:
    (flow_run,) = _ask(url, "flow_runs", {})
    (overview,) = _ask(url, "artifacts", {"artifacts": {"key": {"any_": ["overview-demo"]}}})
    flow_run_page, overview_page = (
        f"/v2/runs/flow-run/{flow_run['id']}",
        f"/v2/artifacts/artifact/{overview['id']}",
    )
    return {"runs": "/v2/runs", "log": flow_run_page, "overview": overview_page}


def _ask(url: str, what: str, wanted: dict[str, Any]) -> Any:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(  # noqa: S310
        f"{url}/api/{what}/filter", json.dumps(wanted).encode(), headers
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return json.loads(answer.read())


def _picture(address: str, file: Path, place: str) -> None:
    flags = (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--virtual-time-budget=20000",
        f"--window-size={SIZE}",
    )
    command = [
        str(CHROMIUM),
        *flags,
        f"--user-data-dir={place}/browser",
        f"--screenshot={file}",
        address,
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=_WAIT)  # noqa: S603
    if file.stat().st_size > MOST_BYTES:
        sys.exit(
            f"watch_pictures: {file.name} has {file.stat().st_size} bytes; expected at most "
            f"{MOST_BYTES}"
        )


if __name__ == "__main__":
    main()
