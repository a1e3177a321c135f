"""Heads, docstrings, sizes and names that the house rules ask for."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
import yaml

from dpicl.contract import load_contract
from dpicl.contract.load import json_schema
from dpicl.methods import METHODS
from dpicl.methods.base import head_of
from dpicl.release.pipelines import load_pipelines, units_of
from tasks.expectations import suite

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("dpicl", "tasks", "flows", "infra", "lab")
BENCHMARKS = ROOT / "lab" / "benchmarks"
MODULES = sorted(
    path
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if BENCHMARKS not in path.parents
)
HEAD = ("Trust", "Unit", "Neighbours", "Guarantee", "Paper", "Symbols", "Not covered")
HEADED = sorted(
    [path for path in (ROOT / "dpicl" / "mechanisms").glob("*.py") if path.name != "__init__.py"]
    + [ROOT / "dpicl" / "data" / "central" / "aggregate.py"]
    + [ROOT / "dpicl" / "methods" / f"{method}.py" for method in METHODS]
)
PIPELINES = ROOT / "pipelines.yaml"
MAX_FILE_LINES, MAX_BODY_LINES = 600, 100
Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def head_fields(text: str) -> list[str]:
    """Fields of a module's head, in the order they stand."""
    return re.findall(rf"^({'|'.join(HEAD)})\s+\S", text, re.MULTILINE)


@pytest.mark.parametrize("path", HEADED, ids=name_of)
def test_a_mechanism_states_its_terms_in_order(path: Path) -> None:
    head = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert head_fields(head) == list(HEAD)


@pytest.mark.parametrize("path", HEADED, ids=name_of)
def test_a_head_can_be_read_alone(path: Path) -> None:
    """It is printed on certificates and cards, where no other head is."""
    _, fields = head_of(ast.get_docstring(ast.parse(path.read_text())) or "")
    heads = "|".join(other.stem for other in HEADED)
    assert not re.search(rf"(those of|what|as|see) `({heads})`", " ".join(fields.values()))


def test_a_title_of_a_pipeline_can_be_read_alone() -> None:
    titles = [each["title"] for each in yaml.safe_load(PIPELINES.read_text())["pipelines"].values()]
    assert len(set(titles)) == len(titles)
    assert not [
        title for title in titles if re.match(r"(The same|These|Those|It|As above)\b", title)
    ]


def test_a_head_out_of_order_or_with_a_gap_would_be_noticed() -> None:
    lines = [f"{field}  something" for field in HEAD]
    assert head_fields("\n".join(lines)) == list(HEAD)
    assert head_fields("\n".join(lines[::-1])) != list(HEAD)
    assert head_fields("\n".join([*lines[:3], *lines[4:]])) != list(HEAD)


def public(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Public functions, classes and their public methods."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | Function) and not node.name.startswith("_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public(node, f"{prefix}{node.name}.")


def undocumented(text: str) -> list[str]:
    tree = ast.parse(text)
    names = ["module"] if not ast.get_docstring(tree) else []
    return names + [name for name, node in public(tree) if not ast.get_docstring(node)]  # type: ignore[arg-type]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_everything_public_has_a_docstring(path: Path) -> None:
    assert undocumented(path.read_text()) == []


def test_a_missing_docstring_would_be_noticed() -> None:
    assert undocumented("class A:\n    def b(self): pass\n") == ["module", "A", "A.b"]


def too_long(text: str) -> list[str]:
    """Functions whose body, without signature and docstring, is over the limit."""
    return [
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, Function)
        and (node.end_lineno or 0)
        - node.body[ast.get_docstring(node) is not None and len(node.body) > 1].lineno
        >= MAX_BODY_LINES
    ]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_files_and_functions_are_small(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= MAX_FILE_LINES
    assert too_long(text) == []


def test_a_long_function_would_be_noticed() -> None:
    assert too_long("def long():\n" + "    pass\n" * (MAX_BODY_LINES + 1)) == ["long"]
    assert too_long("def short():\n" + "    pass\n" * MAX_BODY_LINES) == []


@pytest.mark.parametrize("method", METHODS)
def test_one_name_in_four_places(method: str) -> None:
    """Method, pipeline, tests, and the artefacts of a run."""
    pipelines = load_pipelines(ROOT / "pipelines.yaml").pipelines
    assert (ROOT / "dpicl" / "methods" / f"{method}.py").exists()
    assert pipelines[method.replace("_", "-")].methods == (method,)
    assert any(
        method in path.read_text()
        for path in (ROOT / "tests").rglob("test_*.py")
        if path != Path(__file__)
    )
    assert all(
        unit.key.startswith(f"{method}__") for unit in units_of(pipelines[method.replace("_", "-")])
    )


def test_the_stored_schema_is_the_generated_one() -> None:
    assert json.loads((ROOT / "data_contracts" / "schema.json").read_text()) == json_schema()


def test_the_stored_suites_are_the_contracts() -> None:
    made = {
        path.stem: suite(load_contract(path)) for path in (ROOT / "data_contracts").rglob("*.yaml")
    }
    stored = {
        path.stem: json.loads(path.read_text())
        for path in (ROOT / "data_contracts" / "expectations").glob("*.json")
    }
    assert stored == json.loads(json.dumps(made))


def test_every_shipped_contract_fits_the_schema() -> None:
    validator = jsonschema.Draft202012Validator(
        json.loads((ROOT / "data_contracts" / "schema.json").read_text())
    )
    for path in sorted((ROOT / "data_contracts").glob("*.yaml")):
        # keys of a JSON object are text
        content = json.loads(json.dumps(yaml.safe_load(path.read_text())))
        assert [error.message for error in validator.iter_errors(content)] == [], path.name
