"""D, F10: what serves metrics sees runs and no more of the home, images can be named by digest,
packages have theirs, containers have limits.
"""

from __future__ import annotations

import copy
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import create_engine

from dpicl.accounting.guarantee import Neighbours
from dpicl.home.settings import Settings
from dpicl.ledger import Account, Ledger
from flows.metrics import LedgerReader
from tests.harness import REPOSITORY
from tests.infra.recipes import COMPOSE, INFRA, KUBERNETES, pods

SERVICES = ("postgres", "prefect", "scheduler", "worker", "gpu-worker", "serve", "metrics")
HOME, RUNS = "/var/lib/dpicl", "/var/lib/dpicl/runs"
PRIVATE = ("keys", "private", "data", "models", "ledger.anchor.json", "released", "state")
IMAGE = re.compile(r"\$\{(POSTGRES|PYTHON)_IMAGE:-docker\.io/library/[\w.:-]+\}")


def compose() -> dict[str, Any]:
    return dict(yaml.safe_load(COMPOSE.read_text()))


def seen_by(service: dict[str, Any]) -> set[str]:
    """What of the home a service sees: targets of named volumes below it; what is in memory is its
    own.
    """
    mounted = [str(volume).split(":") for volume in service.get("volumes", [])]
    return {target for _, target, *_ in mounted if target == HOME or target.startswith(f"{HOME}/")}


def faults(content: dict[str, Any]) -> list[str]:
    """What does not hold of a compose file."""
    found = []
    for name, service in content["services"].items():
        limits = service.get("deploy", {}).get("resources", {}).get("limits", {})
        if not (service.get("mem_limit") or limits.get("memory")):
            found.append(f"{name}: memory")
        if not service.get("pids_limit"):
            found.append(f"{name}: pids")
        if (
            service.get("cap_drop") != ["ALL"]
            or not service.get("read_only")
            or "no-new-privileges:true" not in service["security_opt"]
        ):
            found.append(f"{name}: rights")
        image = service.get("build", {}).get("args", {}).get("BASE", service.get("image", ""))
        if not IMAGE.fullmatch(image):
            found.append(f"{name}: image")
    metrics = content["services"]["metrics"]
    if (
        seen_by(metrics) != {RUNS}
        or not all(volume.endswith(":ro") for volume in metrics["volumes"])
        or metrics.get("secrets")
    ):
        found.append("metrics: sees")
    return found


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_of_compose_has_limits_and_no_rights(name: str) -> None:
    assert [fault for fault in faults(compose()) if fault.startswith(f"{name}:")] == []


def mutants() -> Iterator[tuple[str, dict[str, Any]]]:
    """The recipe with one fault each."""

    def changed(name: str, **how: Any) -> dict[str, Any]:
        content = copy.deepcopy(compose())
        service = content["services"][name]
        for key, value in how.items():
            if value is None:
                service.pop(key, None)
            else:
                service[key] = value
        return content

    for name in SERVICES:
        yield f"{name}: memory", changed(name, mem_limit=None, deploy=None)
        yield f"{name}: pids", changed(name, pids_limit=None)
        yield f"{name}: rights", changed(name, cap_drop=None)
    yield "postgres: rights", changed("postgres", read_only=None)
    yield "postgres: image", changed("postgres", image="docker.io/library/postgres:17-bookworm")
    for volume in ("home:/var/lib/dpicl:ro", *(f"home:{HOME}/{part}:ro" for part in PRIVATE)):
        yield (
            "metrics: sees",
            changed("metrics", volumes=[volume, *compose()["services"]["metrics"]["volumes"]]),
        )
    yield "metrics: sees", changed("metrics", volumes=["runs:/var/lib/dpicl/runs"])


@pytest.mark.parametrize(("fault", "content"), [*mutants()])
def test_a_recipe_with_a_fault_is_caught(fault: str, content: dict[str, Any]) -> None:
    assert fault in faults(content)


def test_who_writes_runs_and_who_reads_them_mean_the_same_volume() -> None:
    services = compose()["services"]
    for name in ("worker", "gpu-worker", "serve"):
        assert f"runs:{RUNS}" in services[name]["volumes"]
    assert f"--owner dpicl --group dpicl {RUNS}" in (INFRA / "Containerfile").read_text(), (
        "else the volume would be root's"
    )


def test_the_pod_of_metrics_mounts_the_claim_of_runs_alone_and_others_write_there() -> None:
    found = pods()
    _, metrics = found["metrics"]
    assert [
        volume["persistentVolumeClaim"]
        for volume in metrics["volumes"]
        if "persistentVolumeClaim" in volume
    ] == [{"claimName": "runs", "readOnly": True}]
    (mount,) = [one for one in metrics["containers"][0]["volumeMounts"] if one["name"] == "runs"]
    (told,) = [
        one["value"] for one in metrics["containers"][0]["env"] if one["name"] == "DPICL_RUNS"
    ]
    assert mount["readOnly"] and told.startswith(f"{mount['mountPath']}/")
    for name in ("serve", "dask-worker", "dask-gpu-worker"):
        mounts = {one["name"]: one for one in found[name][1]["containers"][0]["volumeMounts"]}
        assert (
            mounts["runs"] == {"name": "runs", "mountPath": mount["mountPath"]} and "home" in mounts
        )
    assert f"DPICL_RUNS={told}" in (KUBERNETES / "kustomization.yaml").read_text()


def test_every_image_of_kubernetes_can_be_set_to_a_digest_in_one_place() -> None:
    stated = {
        image["name"]
        for image in yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["images"]
    }
    used = {
        container["image"].partition(":")[0]
        for _, spec in pods().values()
        for container in spec["containers"]
    }
    assert used == stated
    page = (REPOSITORY / "docs" / "how-to" / "cluster.md").read_text()
    assert (
        "imagetools inspect docker.io/library/postgres:17-bookworm" in page and "`digest:`" in page
    )


def test_the_image_installs_nothing_without_a_digest(tmp_path: Path) -> None:
    text = (INFRA / "Containerfile").read_text()
    installs = re.findall(r"pip install ([^\n&]*)", text)
    of_packages = [words for words in installs if "--editable" not in words]
    assert len(of_packages) == 2 and all(
        "--no-deps --require-hashes" in words for words in of_packages
    )
    assert all(
        "--no-deps --no-build-isolation" in words for words in installs if "--editable" in words
    )
    (split,) = re.findall(r"&& (awk '.*?' requirements\.lock)", text)
    subprocess.run(split.replace("/tmp/", f"{tmp_path}/"), shell=True, check=True, cwd=REPOSITORY)
    torch, rest = ((tmp_path / f"{part}.lock").read_text() for part in ("torch", "rest"))
    whole = (REPOSITORY / "requirements.lock").read_text()
    assert sorted((torch + rest).splitlines()) == sorted(whole.splitlines())
    assert (
        torch.startswith("torch==")
        and torch.count("==") == 1
        and "--hash=sha256:" in torch
        and "\ntorch==" not in rest
    )


def test_without_the_home_accounts_are_read_and_nothing_is_said_of_the_chain(
    tmp_path: Path,
) -> None:
    """A ledger on a server; here a file stands for one, named by its address."""
    address = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Ledger.open(address, b"k" * 32, tmp_path / "anchor.json") as ledger:
        ledger.ensure_account(
            Account("visits", "row", Neighbours.ADD_OR_REMOVE_ONE, epsilon_cap=2.0)
        )
    empty = tmp_path / "empty"
    settings = replace(
        Settings.from_environment(), home=empty, runs=tmp_path / "runs", ledger=address
    )
    intact, accounts = LedgerReader(settings).read()
    assert intact is None and [(one.name, one.cap, one.spent) for one in accounts] == [
        ("visits", 2.0, 0.0)
    ]
    assert not empty.exists(), "no key is made, and no folder"
    with closing(create_engine(address).raw_connection()) as connection:
        connection.execute("DROP TABLE records")
    assert LedgerReader(settings).read() == (False, ())
