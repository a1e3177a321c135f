"""Servers that observers of runs tell: one of ours that takes events of OpenLineage, and MLflow's
own; and what they were told, a path for every field.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from tests.harness import answers, free_port, process_group, until


@contextmanager
def lineage_server() -> Iterator[tuple[str, list[Any]]]:
    """Its address, and the events that it was sent so far."""
    events = list[Any]()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["Content-Length"]))
            events.append(json.loads(sent))
            self.send_response(201 if self.path == "/api/v1/lineage" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", events
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def mlflow_server(folder: Path) -> Iterator[str]:
    """The address of a real one, of MLflow's part without a user interface."""
    folder.mkdir()
    url = f"http://127.0.0.1:{(port := free_port())}"
    stored = f"--backend-store-uri sqlite:///{folder}/mlflow.db --artifacts-destination {folder}/a"
    command = f"-m mlflow server --host 127.0.0.1 --port {port} --workers 1 {stored}".split()
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    environment = {**os.environ, **quiet}
    with process_group([sys.executable, *command], folder / "log", environment, folder):
        until(lambda: answers(f"{url}/health"), 300, "MLflow's server", every=0.5)
        yield url


def told_to_mlflow(url: str) -> list[dict[str, Any]]:
    """All runs that it has: what is stored of each, and the texts of its artifacts."""
    from mlflow.artifacts import load_text
    from mlflow.tracking import MlflowClient

    client = MlflowClient(url)
    experiment = client.get_experiment_by_name("dpicl")
    runs = client.search_runs([experiment.experiment_id]) if experiment else []
    told = []
    for run in runs:
        stored = run.to_dictionary()
        run_id, place = run.info.run_id, run.info.artifact_uri
        folders = [one.path for one in client.list_artifacts(run_id)]
        files = [one.path for path in folders for one in client.list_artifacts(run_id, path)]
        stored["artifacts"] = {path: load_text(f"{place}/{path}") for path in files}
        told.append(stored)
    return told


def fields(content: Any, path: str) -> Iterator[tuple[str, bytes]]:
    """Every field of plain JSON that has something in it, by its path."""
    parts: Any = ()
    if isinstance(content, dict):
        parts = content.items()
    elif isinstance(content, list):
        parts = enumerate(content)
    elif content is not None:
        yield path, str(content).encode()
    for name, part in parts:
        yield from fields(part, f"{path}/{name}")
