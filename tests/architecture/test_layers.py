"""Who may import whom, checked statically and in a fresh interpreter."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from lab.benchmarks.house import House

ROOT = Path(__file__).resolve().parents[2]
FRAMEWORKS = (
    "prefect",
    "prefect_dask",
    "dask",
    "distributed",
    "great_expectations",
    "torch",
    "transformers",
)
PACKAGES = ("dpicl", "tasks", "flows", "infra")
LIBRARY = (
    "dpicl, dpicl.methods.ldp_tabicl, dpicl.methods.gdp_tabicl, dpicl.data.reading.source, "
    "dpicl.models, dpicl.methods.published"
)


def loaded(statement: str, names: Sequence[str] = FRAMEWORKS) -> set[str]:
    """The packages, frameworks unless others are named, that a fresh interpreter has loaded after a
    statement.
    """
    program = (
        f"{statement}\nimport sys\nprint(*[name for name in {names!r} if name in sys.modules])"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
    )
    return set(finished.stdout.split())


@pytest.mark.parametrize(
    "statement, names",
    [
        (f"import {LIBRARY}", FRAMEWORKS),
        ("import dpicl.cli.app", FRAMEWORKS),
        ("import dpicl.models", ["torch", "transformers", "huggingface_hub"]),
        (
            "from dpicl.models.embedding import open_embedder as o; o(None).embed(['a'])",
            ["torch", "transformers"],
        ),
        (
            "from dpicl.models.spec import resolve_model as r; r('http://127.0.0.1:1/v1#m', {})",
            ["httpx"],
        ),
        ("import dpicl.methods", ["rouge_score", "nltk", "sacrebleu"]),
    ],
    ids=["the library", "commands", "models", "an embedder", "an endpoint's name", "methods"],
)
def test_what_starts_nothing_loads_no_framework_model_or_library_of_one_use(
    statement: str, names: list[str]
) -> None:
    assert loaded(statement, names) == set()


@pytest.mark.quick("distributed")
@pytest.mark.parametrize(
    "name", ["dask", "distributed", pytest.param("torch", marks=pytest.mark.exhaustive)]
)
def test_a_framework_would_be_noticed(name: str) -> None:
    assert name in loaded(f"import {LIBRARY}, {name}")


def test_the_import_contracts_hold() -> None:
    finished = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports"))],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert finished.returncode == 0 and "0 broken" in finished.stdout, finished.stdout


def test_a_commit_is_checked_as_make_check_does() -> None:
    (hooks,) = (
        repository["hooks"]
        for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    )
    makefile = (ROOT / "Makefile").read_text()
    commands = re.findall(r"^check-\w+:\n\t\$\(BIN\)/(.*)$", makefile, re.MULTILINE)
    assert [hook["entry"] for hook in hooks] == [
        f".venv/bin/{command}" for command in commands
    ] and len(commands) == 4


def test_a_broken_import_contract_would_be_noticed(tmp_path: Path) -> None:
    """The same contracts on a tree whose mechanisms import the orchestrator."""
    for name in (*PACKAGES, "lab"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    samplers = tmp_path / "dpicl" / "mechanisms" / "samplers.py"
    samplers.write_text(samplers.read_text() + "\n\ndef leak() -> None:\n    import prefect\n")
    program = (
        "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command "
        "as c; c(['--no-cache'])"
    )
    finished = subprocess.run(
        [sys.executable, "-P", "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert finished.returncode == 1 and "dpicl.mechanisms.samplers -> prefect" in finished.stdout, (
        finished.stdout + finished.stderr
    )


def test_one_module_knows_how_a_system_locks() -> None:
    # a program that imports the standard library only, where a system has groups of processes
    alone = "dpicl/ground/shutdown.py"
    sources = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    names = re.compile(r"^\s*(?:import|from) (?:fcntl|msvcrt)\b", re.MULTILINE)
    assert [
        path.relative_to(ROOT).as_posix()
        for path in sources
        if names.search(path.read_text("utf-8"))
    ] == ["dpicl/ground/files.py", alone]


def test_no_modules_import_each_other() -> None:
    assert House.now().circles() == []
    there = {name: f"from dpicl import {other}" for name, other in (("one", "two"), ("two", "one"))}
    trees = {Path(f"dpicl/{name}.py"): ast.parse(text) for name, text in there.items()}
    assert House(trees).circles() == ["dpicl.one dpicl.two"]
