"""What `lab` may import of dpicl, and that dpicl and what stands on it never import `lab`."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARY = "accounting contract data ground ledger mechanisms methods models"
"""Packages of which all modules may be imported."""
FACE = """
cli.executors cli.options cli.planned_run cli.terminal client.__main__ client.wallet home.accounts
home.benchmarks home.settings observers.mlflow release.card
release.certificate_files release.horizon release.journal
release.pipelines release.readers release.releases release.rows report report.blocks report.cells
report.decision report.load report.opening report.sentences report.tables report.words
runs.artefacts runs.chain runs.execute runs.observed runs.plan runs.probe runs.results
runs.run_folder runs.stage session
"""
"""Modules besides: a name that is not here is dpicl's own."""
MEASURED = """
cli.app cli.ask installation.clean quality quality.gate quality.measures quality.outlook
quality.replicates quality.shown quality.simulate quality.worth recompute.prices recompute.stated
release.certificate_issue release.one_release release.predictor release.request
release.table_files runs.draw
runs.evaluate
"""
"""Modules besides, that only benchmarks may import."""


@cache
def imported(folder: str) -> list[tuple[Path, str]]:
    """Files of a folder, each with every module of this repository that it imports."""
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{one.name}" for one in node.names]
            else:
                continue
            for name in names:
                place = ROOT.joinpath(*name.split("."))
                is_module = place.is_dir() or place.with_suffix(".py").exists()
                found.append((path, name if is_module else name.rpartition(".")[0] or name))
    return found


def used(*, by_benchmarks: bool) -> set[str]:
    return {
        name
        for path, name in imported("lab")
        if (ROOT / "lab" / "benchmarks" in path.parents) is by_benchmarks
    }


def beyond(names: set[str], face: str) -> set[str]:
    """What is of dpicl and neither of the library nor of the face."""
    listed = {f"dpicl.{one}" for one in face.split()}
    return {
        name
        for name in names
        if name.startswith("dpicl.")
        and name not in listed
        and name.split(".")[1] not in LIBRARY.split()
    }


def test_lab_imports_the_face_alone_and_the_face_is_no_longer_than_that() -> None:
    own, measured = used(by_benchmarks=False), used(by_benchmarks=True)
    assert beyond(own, FACE) == set()
    assert beyond(measured, FACE + MEASURED) == set()
    assert {f"dpicl.{one}" for one in FACE.split()} <= own
    assert {f"dpicl.{one}" for one in MEASURED.split()} <= measured - own


def test_only_benchmarks_need_the_repository() -> None:
    roots = {name.partition(".")[0] for name in used(by_benchmarks=False)}
    assert not roots & {"tasks", "flows", "infra", "tests", "tools"}


def test_nothing_below_imports_lab_by_name_or_by_a_string() -> None:
    for folder in ("dpicl", "tasks", "flows", "infra"):
        assert not [path for path, name in imported(folder) if name.partition(".")[0] == "lab"]
        for path in (ROOT / folder).rglob("*.py"):
            assert not re.search(r"[\"']lab[.\"']", path.read_text("utf-8")), path


def test_a_module_beside_the_face_would_be_noticed() -> None:
    names = {"dpicl.release.names", "dpicl.models.opening", "dpicl.ground.errors", "numpy"}
    assert beyond(names, FACE) == {"dpicl.release.names"}
