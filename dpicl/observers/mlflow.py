"""Runs in MLflow, at `MLFLOW_TRACKING_URI`: what a run does as parameters, its results as metrics,
certificates as artifacts.

A metric is called by data set, system, epsilon, shots and sampling rate; its step is the seed.
`MLFLOW_EXPERIMENT_NAME` names the experiment, by default `dpicl`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from dpicl.methods.evaluation import Metrics
from dpicl.runs.observed import RunEvent

_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",  # which would tell MLflow's makers of the machine
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
}
MEASURES = tuple(field.name for field in fields(Metrics) if field.name != "query_count")
"""Columns of results.csv that are metrics."""
_BATCH = 1000
"""Most metrics that a server takes at once."""


def observe(events: Iterator[RunEvent]) -> None:
    """A run of MLflow: made at the first event, filled and ended at the second. The client's own
    calls, and not `mlflow.start_run`, which would add user, host and source.
    """
    os.environ.update(_SETTINGS)  # read when it is imported
    from mlflow.entities import Metric, Param
    from mlflow.tracking import MlflowClient

    # it tells of the tables that it makes, beside a log that may be JSON
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    client = MlflowClient(os.environ["MLFLOW_TRACKING_URI"])
    named = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "dpicl"
    experiment = client.get_experiment_by_name(named)
    place = experiment.experiment_id if experiment else client.create_experiment(named)
    start = next(events)
    run = client.create_run(place, run_name=start.pipeline, start_time=_milliseconds(start))
    run_id = run.info.run_id
    words = {
        "pipeline": [start.pipeline],
        "dataset": start.datasets,
        "method": start.methods,
        "epsilon": [f"{epsilon:g}" for epsilon in start.epsilons],
    }
    client.log_batch(run_id, params=[Param(key, ",".join(word)) for key, word in words.items()])
    for end in events:
        metrics = [
            Metric(f"{_cell(row)}/{name}", row[name], _milliseconds(end), row["seed"])
            for row in end.results
            for name in MEASURES
            if row.get(name) is not None
        ]
        for first in range(0, len(metrics), _BATCH):
            client.log_batch(run_id, metrics=metrics[first : first + _BATCH])
        for certificate in end.certificates:
            name = f"{certificate.product.name}/{certificate.evidence.release_id}.certificate.json"
            client.log_text(run_id, certificate.to_json(), name)
        status = "FINISHED" if end.state == "COMPLETE" else "FAILED"
        client.set_terminated(run_id, status, end_time=_milliseconds(end))


def _cell(row: Mapping[str, Any]) -> str:
    """As MLflow writes names: letters, digits, spaces and `_-./`."""
    numbers = {name: row.get(name) for name in ("epsilon", "shots", "sampling_rate")}
    stated = "/".join(f"{name} {value:g}" for name, value in numbers.items() if value is not None)
    return f"{row['dataset']}/{row['system']}" + f"/{stated}" * bool(stated)


def _milliseconds(event: RunEvent) -> int:
    return int(event.time.timestamp()) * 1000
