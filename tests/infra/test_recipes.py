"""The recipes fit the formats that their tools read, agree with each other, and hold no secret."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from flows.environment import DEFAULTS as QUIET
from flows.gpus import GPU
from infra.certificates import ROLES
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
ASKED = re.compile(r"\$\{(\w+)(:[?-])?")
HARDENED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def program(name: str) -> str:
    """A program beside this Python or on the path, or skip."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not here")
    return found


# compose


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return dict(yaml.safe_load(COMPOSE.read_text())["services"])


def test_compose_asks_for_every_secret_and_knows_none() -> None:
    asked: dict[str, set[str]] = {}
    for name, kind in ASKED.findall(COMPOSE.read_text()):
        asked.setdefault(name, set()).add(kind)
    assert {name for name, kinds in asked.items() if kinds == {":?"}} == set(SECRETS)
    assert {name for name, kinds in asked.items() if kinds != {":?"}} == {"DPICL_WORKERS", "DPICL_WORKER_MEMORY"}
    assert set(re.findall(r"^(\w+)=", (INFRA / "env.example").read_text(), re.MULTILINE)) == set(asked)
    given = dict(re.findall(r"^(\w+)=(.*)$", (INFRA / "env.example").read_text(), re.MULTILINE))
    assert all(given[name] == "" for name in SECRETS)


def test_compose_opens_two_ports_to_this_machine_and_hardens_our_containers(services: dict[str, Any]) -> None:
    assert [port for service in services.values() for port in service.get("ports", [])] == ["127.0.0.1:4200:4200", "127.0.0.1:9464:9464"]
    for name in services.keys() - {"postgres"}:
        service = services[name]
        assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"], name
    assert {name for name, service in services.items() if "healthcheck" not in service} == {"serve"}, "it has no page"


def test_each_part_of_compose_holds_its_own_key_only(services: dict[str, Any]) -> None:
    held = {name: {key for key in service.get("secrets", []) if key.endswith(".key")} for name, service in services.items()}
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
    assert all(volume.endswith(":ro") for volume in service["volumes"]) and "/data" not in json.dumps(service["volumes"])
    assert {mount["name"]: mount.get("readOnly", False) for mount in container["volumeMounts"]} == {"home": True, "temporary": False}
    given = {**service["environment"], **{one["name"]: one["valueFrom"]["secretKeyRef"]["key"] for one in container["env"]}}
    assert set(given) == {"DPICL_LEDGER", "DPICL_PIPELINES"} and given["DPICL_LEDGER"] == "metrics-url" and "envFrom" not in container
    assert service["environment"]["DPICL_LEDGER"].startswith("postgresql://metrics:") and "cluster" not in service["networks"]
    words = [word for word in service["command"] if not word.startswith("--host")]
    assert words == ["dpicl", "metrics", f"--port={container['ports'][0]['containerPort']}"]
    assert container["command"] == service["command"]


def test_gpu_workers_say_what_scoring_asks_for(services: dict[str, Any]) -> None:
    assert f"--resources={GPU}=1" in services["gpu-worker"]["command"]
    assert services["gpu-worker"]["profiles"] == ["gpu"]
    group = yaml.safe_load((KUBERNETES / "gpu-workers.yaml").read_text())
    assert f"--resources={GPU}=1" in group["spec"]["worker"]["spec"]["containers"][0]["args"]
    assert f"own=(--resources {GPU}=1)" in (INFRA / "slurm" / "run.sbatch").read_text()


def _compose(folder: Path, **given: str) -> subprocess.CompletedProcess[str]:
    environment = {**{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}, **given}
    command = [program("docker-compose"), "-f", str(COMPOSE), "--env-file", "/dev/null", "--profile", "gpu", "config", "--format", "json"]
    return subprocess.run(command, check=False, env=environment, cwd=folder, capture_output=True, text=True, timeout=60)


def test_compose_reads_the_file_and_refuses_it_without_any_one_secret(tmp_path: Path) -> None:
    given = {name: f"/{name.lower()}" for name in SECRETS}
    done = _compose(tmp_path, **given)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["services"]) == {"postgres", "prefect", "scheduler", "worker", "gpu-worker", "serve", "metrics"}
    for name in SECRETS:
        refused = _compose(tmp_path, **{**given, name: ""})
        assert refused.returncode != 0 and f"required variable {name} is missing a value: set it in infra/.env" in refused.stderr, name


# the image


def test_the_image_copies_what_is_there_and_runs_as_nobody_special() -> None:
    lines = (INFRA / "Containerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]]
    assert copied and all((REPOSITORY / name).exists() for name in copied)
    sent = (INFRA / "Containerfile.dockerignore").read_text()
    assert all(f"!{name}\n" in sent or f"!{name}/" in sent for name in copied)
    assert lines.index("USER ${USER_ID}:${USER_ID}") > max(number for number, line in enumerate(lines) if line.startswith("FROM "))


def test_the_image_is_as_quiet_as_a_run_on_its_own() -> None:
    text = (INFRA / "Containerfile").read_text()
    known = {
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS",
        "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD",
        "TOKENIZERS_PARALLELISM",
    }
    missing = [name for name, value in QUIET.items() if f"{name}={value}" not in text.replace('"', "") and name not in known]
    assert missing == []


# Kubernetes


def documents() -> Iterator[dict[str, Any]]:
    for path in sorted(KUBERNETES.glob("*.yaml")):
        yield from yaml.safe_load_all(path.read_text())


def pods() -> dict[str, tuple[dict[str, str], dict[str, Any]]]:
    """Labels and specification of every pod, by name; the operator adds labels of its own."""
    found = {}
    for item in documents():
        name, spec = item.get("metadata", {}).get("name", ""), item.get("spec", {})
        if item["kind"] in ("Deployment", "StatefulSet"):
            found[name] = (spec["template"]["metadata"]["labels"], spec["template"]["spec"])
        if item["kind"].startswith("Dask"):
            cluster = {"dask.org/cluster-name": spec.get("cluster", name)}
            for part in spec.keys() & {"scheduler", "worker"}:
                found[f"{name}-{part}"] = ({**cluster, **spec[part].get("metadata", {}).get("labels", {})}, spec[part]["spec"])
    return found


def test_every_file_is_of_the_base_and_none_holds_a_secret() -> None:
    base = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    assert sorted([*base["resources"], "kustomization.yaml"]) == sorted(path.name for path in KUBERNETES.glob("*.yaml"))
    assert "Secret" not in {item["kind"] for item in documents()}
    text = "".join(path.read_text() for path in KUBERNETES.iterdir())
    assert "PRIVATE KEY" not in text and not re.search(r"://\w+:\w+@", text)


@pytest.mark.parametrize("name", sorted(pods()))
def test_a_pod_is_nobody_special(name: str) -> None:
    _, spec = pods()[name]
    assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
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
        source["configMapRef"]["name"] for _, spec in pods().values() for one in spec["containers"] for source in one.get("envFrom", [])
    }
    assert named <= made and base["generatorOptions"]["disableNameSuffixHash"], "the operator's resources are not renamed in"
    page = (REPOSITORY / "docs" / "how-to" / "cluster.md").read_text()
    secrets = set(re.findall(r"(?:secretName|secretKeyRef: {name): ([\w-]+)", "".join(path.read_text() for path in KUBERNETES.iterdir())))
    assert secrets == {"databases", "prefect", "server-tls", *(f"{role}-tls" for role in ROLES)}
    assert all(f"`{name}`" in page for name in secrets), "the page says how each is made"


def test_policies_let_talk_whom_pods_and_services_need() -> None:
    labels = {name: found for name, (found, _) in pods().items()}
    policies = {item["metadata"]["name"]: item["spec"] for item in documents() if item["kind"] == "NetworkPolicy"}
    assert policies.pop("nothing") == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}

    def chosen(selector: dict[str, Any]) -> set[str]:
        wanted = selector.get("matchLabels", {}).items()
        return {name for name, found in labels.items() if wanted <= found.items()}

    def pairs(direction: str, side: str) -> set[tuple[str, str]]:
        found = set()
        for spec in policies.values():
            for rule in spec.get(direction, []):
                peers = {name for peer in rule[side] if set(peer) == {"podSelector"} for name in chosen(peer["podSelector"])}
                here = chosen(spec["podSelector"])
                found |= {(one, other) if direction == "egress" else (other, one) for one in here for other in peers}
        return {(one, other) for one, other in found if one != other}

    workers, dask = {"dask-worker", "dask-gpu-worker"}, {"dask-worker", "dask-gpu-worker", "dask-scheduler"}
    parties = workers | {"serve"}
    wanted = {("prefect", "postgres"), ("metrics", "postgres")} | {(one, to) for one in parties for to in ("postgres", "prefect")}
    wanted |= {(one, other) for one in dask | {"serve"} for other in dask if one != other}
    assert pairs("egress", "to") == wanted == pairs("ingress", "from")


def test_manifests_fit_the_schemas_of_kubernetes(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(item for item in documents() if item["kind"] != "Kustomization"))
    done = subprocess.run(
        [program("kubernetes-validate"), "--strict", str(tmp_path / "all.yaml")], check=False, capture_output=True, text=True, timeout=60
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert said.count(" passed for ") == sum(
        item["kind"] not in ("Kustomization", "DaskCluster", "DaskWorkerGroup") for item in documents()
    )


def strictly(schema: Any) -> Any:
    """The schema as the API server prunes by it: what it does not name is not kept."""
    if isinstance(schema, dict):
        schema = {key: strictly(value) for key, value in schema.items()}
        if (
            isinstance(schema.get("properties"), dict)
            and schema.get("type") == "object"
            and not schema.get("x-kubernetes-preserve-unknown-fields")
        ):
            schema.setdefault("additionalProperties", False)
        return schema
    return [strictly(one) for one in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize("file", ["dask.yaml", "gpu-workers.yaml"])
def test_resources_of_the_dask_operator_fit_its_definitions(file: str) -> None:
    package = importlib.util.find_spec("dask_kubernetes")
    if package is None or package.submodule_search_locations is None:
        pytest.skip("dask-kubernetes, which brings the definitions, is not here")
    (item,) = yaml.safe_load_all((KUBERNETES / file).read_text())
    folder = Path(next(iter(package.submodule_search_locations))) / "operator/deployment/helm/dask-kubernetes-operator/crds"
    (version,) = yaml.safe_load((folder / f"{item['kind'].lower()}.yaml").read_text())["spec"]["versions"]
    schema = strictly(version["schema"]["openAPIV3Schema"])
    schema["properties"] |= {"metadata": {}, "apiVersion": {}, "kind": {}}
    validator = jsonschema.Draft7Validator(schema)
    assert [error.message for error in validator.iter_errors(item)] == []
    broken = deepcopy(item)
    broken["spec"]["worker"]["spec"]["containers"][0]["imagine"] = "x"
    assert list(validator.iter_errors(broken)), "a wrong word would be noticed"


# SLURM


@pytest.mark.parametrize("script", [INFRA / "slurm" / "run.sbatch", KUBERNETES / "create-databases.sh"], ids=lambda path: path.name)
def test_scripts_can_be_read_by_their_shells(script: Path) -> None:
    shell = script.read_text().splitlines()[0].removeprefix("#!").strip()
    assert subprocess.run([shell, "-n", str(script)], check=False, capture_output=True, text=True).stderr == ""


def test_jobqueue_s_settings_are_of_names_that_dask_has() -> None:
    import dask
    import distributed  # noqa: F401 - for its defaults

    known = {"ca-file", "scheduler", "worker", "client"}
    settings = yaml.safe_load((INFRA / "slurm" / "jobqueue.yaml").read_text())
    ours = settings["distributed"]
    assert ours["comm"]["require-encryption"] is True and set(ours["comm"]["tls"]) == known
    defaults = dask.config.get("distributed")

    def unknown(mine: Any, theirs: Any) -> list[str]:
        return [name for name, value in mine.items() if name not in theirs or (isinstance(value, dict) and unknown(value, theirs[name]))]

    assert unknown(ours, defaults) == []
