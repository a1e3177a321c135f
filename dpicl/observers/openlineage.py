"""Runs as events of OpenLineage, sent to `OPENLINEAGE_URL`: what was read, what was released, and
at which privacy loss.

`OPENLINEAGE_NAMESPACE`, `OPENLINEAGE_ENDPOINT` and `OPENLINEAGE_API_KEY` mean what they mean to
every client of OpenLineage.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import attr
from openlineage.client.event_v2 import (
    InputDataset,
    Job,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
)
from openlineage.client.generated.base import DatasetFacet
from openlineage.client.generated.job_type_job import JobTypeJobFacet
from openlineage.client.generated.schema_dataset import (
    SchemaDatasetFacet,
    SchemaDatasetFacetFields,
)
from openlineage.client.transport.http import HttpConfig, HttpTransport

import dpicl
from dpicl.release.certificate import Certificate
from dpicl.runs import observed

FACET = "dpicl_privacy"
_SECONDS = 5.0


@attr.define
class DpiclPrivacyDatasetFacet(DatasetFacet):
    """What a release promises, as its certificate has it."""

    release: str
    method: str
    unit: str
    neighbours: str
    epsilon: float | None
    """None is infinite."""
    delta: float
    account: str
    account_epsilon: float | None
    """That the account has spent as the run ends; None where nothing is at stake."""
    simulation: bool


def observe(events: Iterator[observed.RunEvent]) -> None:
    """Send each event as it comes. The transport, and no client of it, which would add the
    repository, branch and tags of where it runs.
    """
    place: dict[str, object] = {
        "url": os.environ["OPENLINEAGE_URL"],
        "endpoint": os.environ.get("OPENLINEAGE_ENDPOINT") or "api/v1/lineage",
        "timeout": _SECONDS,
        "retry": {"total": 0},
    }
    if key := os.environ.get("OPENLINEAGE_API_KEY"):
        place["auth"] = {"type": "api_key", "apiKey": key}
    transport = HttpTransport(HttpConfig.from_dict(place))
    namespace = os.environ.get("OPENLINEAGE_NAMESPACE") or "dpicl"
    for event in events:
        transport.emit(_lineage(event, namespace))
    transport.close()


def _lineage(event: observed.RunEvent, namespace: str) -> RunEvent:
    return RunEvent(
        eventType=RunState[event.state],
        eventTime=event.time.isoformat(timespec="seconds"),
        run=Run(runId=str(event.sitting)),
        job=Job(namespace=namespace, name=event.pipeline, facets={"jobType": _JOB_TYPE}),
        inputs=[
            InputDataset(namespace=namespace, name=name, facets=_schema(event.columns.get(name)))
            for name in event.datasets
        ],
        outputs=[_output(one, event.spent, namespace) for one in event.certificates],
        producer=_PRODUCER,
    )


def _schema(columns: Mapping[str, str] | None) -> dict[str, DatasetFacet]:
    if columns is None:
        return {}
    fields = [
        SchemaDatasetFacetFields(name=name, type=kind, fields=None)
        for name, kind in columns.items()
    ]
    return {"schema": SchemaDatasetFacet(fields=fields, producer=_PRODUCER)}


def _output(certificate: Certificate, spent: Mapping[str, float], namespace: str) -> OutputDataset:
    loss, accounting = certificate.privacy_loss, certificate.accounting
    release = certificate.evidence.release_id
    facet = DpiclPrivacyDatasetFacet(
        release=release,
        method=certificate.implementation.method,
        unit=loss.privacy_unit,
        neighbours=loss.neighbours,
        epsilon=loss.privacy_parameters.epsilon,
        delta=loss.privacy_parameters.delta,
        account=accounting.account,
        account_epsilon=spent.get(accounting.account) if accounting.spent_after else None,
        simulation=certificate.simulation,
        producer=_PRODUCER,
    )
    name = f"{certificate.product.name}/{release}"
    return OutputDataset(namespace=namespace, name=name, facets={FACET: facet})


_PRODUCER = f"urn:dpicl:{dpicl.__version__}"
_JOB_TYPE = JobTypeJobFacet(processingType="BATCH", integration="DPICL", producer=_PRODUCER)
