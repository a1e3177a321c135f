"""The recipes as their formats' own tools read them: those that are packages of Python always, the
others where they are.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.harness import ran
from tests.infra.recipes import COMPOSE, INFRA, KUBERNETES, SECRETS, dask_parts, documents

OPERATOR = Path(__file__).with_name("dask_operator")
SCRIPTS = [INFRA / "slurm" / "run.sbatch", KUBERNETES / "create-databases.sh"]


def said(program: str, *words: str | Path) -> tuple[int, str]:
    """Exit status and words of a checker, which requirements.lock puts beside this Python: without
    it the test fails.
    """
    command = [str(Path(sys.executable).with_name(program)), *map(str, words)]
    done = ran(command)
    return done.returncode, done.stdout + done.stderr


# compose


def test_the_compose_file_fits_the_specification_s_schema(tmp_path: Path) -> None:
    check = ("check-jsonschema", "--builtin-schema", "vendor.compose-spec")
    status, words = said(*check, COMPOSE)
    assert status == 0, words
    (tmp_path / "wrong.yaml").write_text(COMPOSE.read_text().replace("stop_signal:", "stop_sign:"))
    status, words = said(*check, tmp_path / "wrong.yaml")
    # a wrong word would be noticed
    assert status == 1 and "'stop_sign' was unexpected" in words


def docker_compose() -> Sequence[str]:
    """Docker Compose, as docker's plug-in or on its own, or skip; version 1 reads another
    format.
    """
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]):
            version = ran([*command, "version", "--short"])
            if version.returncode == 0 and not version.stdout.startswith("1."):
                return command
    pytest.skip(
        "Docker Compose from version 2 is not here, and is no package of Python: its schema is "
        "checked, its `config` is not"
    )


def _config(folder: Path, **given: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        **given,
    }
    command = [
        *docker_compose(),
        "-f",
        str(COMPOSE),
        "--env-file",
        "/dev/null",
        "--profile",
        "gpu",
        "config",
        "--format",
        "json",
    ]
    return ran(command, env=environment, cwd=folder)


def test_compose_reads_the_file_and_refuses_it_without_any_one_secret(tmp_path: Path) -> None:
    given = {name: f"/{name.lower()}" for name in SECRETS}
    done = _config(tmp_path, **given)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["services"]) == {
        "postgres",
        "prefect",
        "scheduler",
        "worker",
        "gpu-worker",
        "serve",
        "metrics",
    }
    for name in SECRETS:
        refused = _config(tmp_path, **{**given, name: ""})
        assert (
            refused.returncode != 0
            and f"required variable {name} is missing a value: set it in infra/.env"
            in refused.stderr
        ), name


# Kubernetes


def known_to_kubernetes() -> Iterator[dict[str, Any]]:
    """What has a schema of Kubernetes; of the Dask operator's resources the pods and services that
    it makes of them.
    """
    for item in documents():
        if item["kind"].startswith("Dask"):
            for name, part in dask_parts(item).items():
                yield {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": name, **part.get("metadata", {})},
                    "spec": part["spec"],
                }
                if "service" in part:
                    yield {
                        "apiVersion": "v1",
                        "kind": "Service",
                        "metadata": {"name": name},
                        "spec": part["service"],
                    }
        elif item["kind"] != "Kustomization":
            yield item


def test_manifests_fit_the_schemas_of_kubernetes(tmp_path: Path) -> None:
    items = list(known_to_kubernetes())
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(items))
    status, words = said("kubernetes-validate", "--strict", tmp_path / "all.yaml")
    assert status == 0 and words.count(" passed for ") == len(items), words


@pytest.mark.quick("Deployment")
@pytest.mark.parametrize("kind", ["Deployment", "Pod", "Service", "NetworkPolicy"])
def test_a_wrong_word_in_a_manifest_would_be_noticed(kind: str, tmp_path: Path) -> None:
    item = deepcopy(next(item for item in known_to_kubernetes() if item["kind"] == kind))
    spec = item["spec"]["template"]["spec"] if kind == "Deployment" else item["spec"]
    (spec["containers"][0] if "containers" in spec else spec)["imagine"] = "x"
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump(item))
    status, words = said("kubernetes-validate", "--strict", tmp_path / "wrong.yaml")
    assert status == 1 and "'imagine' was unexpected" in words


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
    (item,) = yaml.safe_load_all((KUBERNETES / file).read_text())
    schema = strictly(json.loads((OPERATOR / f"{item['kind'].lower()}.json").read_text()))
    schema["properties"] |= {"metadata": {}, "apiVersion": {}, "kind": {}}
    validator = jsonschema.Draft7Validator(schema)
    assert [error.message for error in validator.iter_errors(item)] == []
    broken = deepcopy(item)
    broken["spec"]["worker"]["spec"]["containers"][0]["imagine"] = "x"
    # a wrong word would be noticed
    assert list(validator.iter_errors(broken))


# scripts


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_can_be_read_by_their_shells_and_shellcheck_finds_nothing(
    script: Path, tmp_path: Path
) -> None:
    shell = script.read_text().splitlines()[0].removeprefix("#!").strip()
    assert ran([shell, "-n", script]).stderr == ""
    assert said("shellcheck", "--norc", script) == (0, "")
    (tmp_path / "wrong").write_text(script.read_text() + "\nrm -rf $never_set/*\n")
    status, words = said("shellcheck", "--norc", tmp_path / "wrong")
    # a wrong line would be noticed
    assert status == 1
    assert "never_set is referenced but not assigned" in words
