"""The recipes of infra/, read: where they stand, what Kubernetes is given, and the pods among
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from tests.harness import REPOSITORY

INFRA = REPOSITORY / "infra"
KUBERNETES = INFRA / "kubernetes"
COMPOSE = INFRA / "compose.yaml"
SECRETS = (
    "POSTGRES_PASSWORD",
    "PREFECT_DATABASE_PASSWORD",
    "LEDGER_DATABASE_PASSWORD",
    "METRICS_DATABASE_PASSWORD",
    "PREFECT_AUTH_STRING",
    "DPICL_CERTIFICATES",
    "DPICL_DATA",
)


def documents() -> Iterator[dict[str, Any]]:
    """Every document of the base."""
    for path in sorted(KUBERNETES.glob("*.yaml")):
        yield from yaml.safe_load_all(path.read_text())


def dask_parts(item: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Scheduler and workers of a resource of the Dask operator, by the names that their pods go by
    here.
    """
    return {
        f"{item['metadata']['name']}-{part}": item["spec"][part]
        for part in sorted(item["spec"].keys() & {"scheduler", "worker"})
    }


def pods() -> dict[str, tuple[dict[str, str], dict[str, Any]]]:
    """Labels and specification of every pod, by name; the operator adds labels of its own."""
    found = {}
    for item in documents():
        name, spec = item.get("metadata", {}).get("name", ""), item.get("spec", {})
        if item["kind"] in ("Deployment", "StatefulSet"):
            found[name] = (spec["template"]["metadata"]["labels"], spec["template"]["spec"])
        if item["kind"].startswith("Dask"):
            cluster = {"dask.org/cluster-name": spec.get("cluster", name)}
            for part, given in dask_parts(item).items():
                found[part] = (
                    {**cluster, **given.get("metadata", {}).get("labels", {})},
                    given["spec"],
                )
    return found
