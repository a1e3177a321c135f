"""The recipes name what is there, agree with each other, and hold no secret; test_tools.py has the
tools of their formats read them.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from flows.environment import DEFAULTS as QUIET
from flows.executor import GPU
from infra.certificates import ROLES
from tests.harness import REPOSITORY
from tests.infra.recipes import COMPOSE, INFRA, KUBERNETES, SECRETS, documents, pods

ASKED = re.compile(r"\$\{(\w+)(:[?-])?")
HARDENED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


# compose


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return dict(yaml.safe_load(COMPOSE.read_text())["services"])


def test_compose_asks_for_every_secret_and_knows_none() -> None:
    asked: dict[str, set[str]] = {}
    for name, kind in ASKED.findall(COMPOSE.read_text()):
        asked.setdefault(name, set()).add(kind)
    assert {name for name, kinds in asked.items() if kinds == {":?"}} == set(SECRETS)
    assert {name for name, kinds in asked.items() if kinds != {":?"}} == {
        "DPICL_IMAGE",
        "DPICL_WORKERS",
        "DPICL_WORKER_MEMORY",
        "POSTGRES_IMAGE",
        "PYTHON_IMAGE",
    }
    assert set(re.findall(r"^(\w+)=", (INFRA / "env.example").read_text(), re.MULTILINE)) == set(
        asked
    )
    given = dict(re.findall(r"^(\w+)=(.*)$", (INFRA / "env.example").read_text(), re.MULTILINE))
    assert all(given[name] == "" for name in SECRETS)


def test_compose_opens_two_ports_to_this_machine(services: dict[str, Any]) -> None:
    assert [port for service in services.values() for port in service.get("ports", [])] == [
        "127.0.0.1:4200:4200",
        "127.0.0.1:9464:9464",
    ]
    # it has no page
    assert {name for name, service in services.items() if "healthcheck" not in service} == {"serve"}


def test_each_part_of_compose_holds_its_own_key_only(services: dict[str, Any]) -> None:
    held = {
        name: {key for key in service.get("secrets", []) if key.endswith(".key")}
        for name, service in services.items()
    }
    assert held.pop("postgres") == set()
    worker = {"worker.key"}
    assert held == {
        "prefect": {"server.key"},
        "scheduler": {"scheduler.key"},
        "worker": worker,
        "gpu-worker": worker,
        "serve": {"client.key"},
        "metrics": set(),
    }
    for name, service in services.items():
        named = set(re.findall(r"/run/secrets/([\w.]+)", json.dumps(service)))
        assert named == set(service.get("secrets", [])), name


def test_metrics_may_read_runs_and_ledger_and_nothing_else(services: dict[str, Any]) -> None:
    service, (_, pod) = services["metrics"], pods()["metrics"]
    (container,) = pod["containers"]
    assert all(volume.endswith(":ro") for volume in service["volumes"])
    assert "/data" not in json.dumps(service["volumes"])
    _, _, *secret = container["env"]
    given = {
        **service["environment"],
        **{one["name"]: one["valueFrom"]["secretKeyRef"]["key"] for one in secret},
    }
    assert set(given) == {"DPICL_LEDGER", "DPICL_PIPELINES"}
    assert given["DPICL_LEDGER"] == "metrics-url"
    assert "envFrom" not in container
    assert service["environment"]["DPICL_LEDGER"].startswith("postgresql://metrics:")
    assert "cluster" not in service["networks"]
    words = [word for word in service["command"] if not word.startswith("--host")]
    assert words == ["dpicl", "metrics", f"--port={container['ports'][0]['containerPort']}"]
    assert container["command"] == service["command"]


def test_no_worker_is_ended_for_more_than_a_core_s_share_of_the_memory() -> None:
    """Whatever recipe starts it: a model is larger, and Dask's own limit is the memory divided by
    the host's cores.
    """
    files = [path for path in INFRA.rglob("*") if path.suffix in (".yaml", ".sbatch")] + [
        REPOSITORY / "docs" / "how-to" / "cluster.md"
    ]
    starts = {
        path.name: re.findall(r"--nthreads[= ]1\b[^\n]*\n?[^\n]*", path.read_text("utf-8"))
        for path in files
    }
    found = {name: lines for name, lines in starts.items() if lines}
    assert {
        "compose.yaml",
        "dask.yaml",
        "gpu-workers.yaml",
        "run.sbatch",
        "cluster.md",
    } <= found.keys()
    assert all(
        re.search(r"--memory-limit[= ]0\b", line) for lines in found.values() for line in lines
    )


def test_gpu_workers_say_what_scoring_asks_for(services: dict[str, Any]) -> None:
    assert f"--resources={GPU}=1" in services["gpu-worker"]["command"]
    assert services["gpu-worker"]["profiles"] == ["gpu"]
    group = yaml.safe_load((KUBERNETES / "gpu-workers.yaml").read_text())
    assert f"--resources={GPU}=1" in group["spec"]["worker"]["spec"]["containers"][0]["args"]
    assert f"own=(--resources {GPU}=1)" in (INFRA / "slurm" / "run.sbatch").read_text()


def test_what_services_name_is_there(services: dict[str, Any]) -> None:
    """As compose would say on reading the file, or Docker on starting a service."""
    whole = yaml.safe_load(COMPOSE.read_text())
    for name, service in services.items():
        assert set(service["networks"]) <= set(whole["networks"]), name
        assert set(service.get("secrets", [])) <= set(whole["secrets"]), name
        waited = service.get("depends_on", {})
        assert all(
            "healthcheck" in services[other] and how == {"condition": "service_healthy"}
            for other, how in waited.items()
        ), name
        sources = [
            re.sub(r"\$\{[^}]*\}", "/given", volume).split(":")[0]
            for volume in service.get("volumes", [])
        ]
        assert all((INFRA / source).exists() for source in sources if source.startswith(".")), name
        assert {source for source in sources if source[0] not in "./"} <= set(whole["volumes"]), (
            name
        )
    builds = [service["build"] for service in services.values() if "build" in service]
    assert builds
    assert all((INFRA / build["context"] / build["dockerfile"]).is_file() for build in builds)


# the image


def test_the_image_copies_what_is_there_and_runs_as_nobody_special() -> None:
    lines = (INFRA / "Containerfile").read_text().splitlines()
    words = [
        word
        for line in lines
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    ]
    copied = [word for word in words if "*" not in word]
    assert copied and all((REPOSITORY / name).exists() for name in copied)
    sent = (INFRA / "Containerfile.dockerignore").read_text()
    assert all(f"!{name}\n" in sent or f"!{name}/" in sent for name in copied)
    assert lines.index("USER ${USER_ID}:${USER_ID}") > max(
        number for number, line in enumerate(lines) if line.startswith("FROM ")
    )


def test_the_image_is_as_quiet_as_a_run_on_its_own() -> None:
    text = (INFRA / "Containerfile").read_text()
    known = {
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS",
        "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD",
        "TOKENIZERS_PARALLELISM",
    }
    missing = [
        name
        for name, value in QUIET.items()
        if f"{name}={value}" not in text.replace('"', "") and name not in known
    ]
    assert missing == []


# Kubernetes


def test_every_file_is_of_the_base_and_none_holds_a_secret() -> None:
    base = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    assert sorted([*base["resources"], "kustomization.yaml"]) == sorted(
        path.name for path in KUBERNETES.glob("*.yaml")
    )
    assert all(
        (KUBERNETES / file).is_file()
        for made in base["configMapGenerator"]
        for file in made.get("files", [])
    )
    assert "Secret" not in {item["kind"] for item in documents()}
    text = "".join(path.read_text() for path in KUBERNETES.iterdir())
    assert "PRIVATE KEY" not in text and not re.search(r"://\w+:\w+@", text)


@pytest.mark.parametrize("name", sorted(pods()))
def test_a_pod_is_nobody_special(name: str) -> None:
    _, spec = pods()[name]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    for container in spec["containers"]:
        assert container["securityContext"] == HARDENED
        assert container["resources"]["limits"]["memory"]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        claims = {"databases"} if name == "postgres" else set()
        assert mounted == {volume["name"] for volume in spec["volumes"]} | claims


def test_what_pods_name_is_there() -> None:
    base = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    made = {item["name"] for item in base["configMapGenerator"]}
    named = {
        source["configMapRef"]["name"]
        for _, spec in pods().values()
        for one in spec["containers"]
        for source in one.get("envFrom", [])
    }
    # the operator's resources are not renamed in
    assert named <= made
    assert base["generatorOptions"]["disableNameSuffixHash"]
    page = (REPOSITORY / "docs" / "how-to" / "cluster.md").read_text()
    secrets = set(
        re.findall(
            r"(?:secretName|secretKeyRef: {name): ([\w-]+)",
            "".join(path.read_text() for path in KUBERNETES.iterdir()),
        )
    )
    assert secrets == {"databases", "prefect", "server-tls", *(f"{role}-tls" for role in ROLES)}
    # the page says how each is made
    assert all(f"`{name}`" in page for name in secrets)


def test_policies_let_talk_whom_pods_and_services_need() -> None:
    labels = {name: found for name, (found, _) in pods().items()}
    policies = {
        item["metadata"]["name"]: item["spec"]
        for item in documents()
        if item["kind"] == "NetworkPolicy"
    }
    assert policies.pop("nothing") == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}

    def chosen(selector: dict[str, Any]) -> set[str]:
        wanted = selector.get("matchLabels", {}).items()
        return {name for name, found in labels.items() if wanted <= found.items()}

    def pairs(direction: str, side: str) -> set[tuple[str, str]]:
        found = set()
        for spec in policies.values():
            for rule in spec.get(direction, []):
                peers = {
                    name
                    for peer in rule[side]
                    if set(peer) == {"podSelector"}
                    for name in chosen(peer["podSelector"])
                }
                here = chosen(spec["podSelector"])
                found |= {
                    (one, other) if direction == "egress" else (other, one)
                    for one in here
                    for other in peers
                }
        return {(one, other) for one, other in found if one != other}

    workers, dask = (
        {"dask-worker", "dask-gpu-worker"},
        {"dask-worker", "dask-gpu-worker", "dask-scheduler"},
    )
    parties = workers | {"serve"}
    wanted = {("prefect", "postgres"), ("metrics", "postgres")} | {
        (one, to) for one in parties for to in ("postgres", "prefect")
    }
    wanted |= {(one, other) for one in dask | {"serve"} for other in dask if one != other}
    assert pairs("egress", "to") == wanted == pairs("ingress", "from")


# SLURM


def test_jobqueue_s_settings_are_of_names_that_dask_has() -> None:
    import dask
    import distributed  # noqa: F401 - for its defaults

    known = {"ca-file", "scheduler", "worker", "client"}
    settings = yaml.safe_load((INFRA / "slurm" / "jobqueue.yaml").read_text())
    ours = settings["distributed"]
    assert ours["comm"]["require-encryption"] is True and set(ours["comm"]["tls"]) == known
    defaults = dask.config.get("distributed")

    def unknown(mine: Any, theirs: Any) -> list[str]:
        return [
            name
            for name, value in mine.items()
            if name not in theirs or (isinstance(value, dict) and unknown(value, theirs[name]))
        ]

    assert unknown(ours, defaults) == []
