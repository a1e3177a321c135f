"""What people and their tools look for in a Python package, wherever they come from."""

from __future__ import annotations

import json
import re
import rlcompleter
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from trove_classifiers import classifiers

import dpicl
from tests.docs.pages import Cell, Command, all_pages, steps
from tools import notebooks
from tools.packages import locked

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
SCHEMAS = {
    "CITATION.cff": "citation-file-format",
    ".github/workflows/ci.yml": "github-workflows",
    ".github/ISSUE_TEMPLATE/config.yml": "github-issue-config",
    ".github/ISSUE_TEMPLATE/fault.yml": "github-issue-forms",
    ".github/ISSUE_TEMPLATE/wish.yml": "github-issue-forms",
}
"""By file the published schema that it is of, as check-jsonschema ships it."""


def in_python(program: str) -> list[str]:
    """Lines that a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


# The package.


def test_types_of_the_package_are_for_its_users_too() -> None:
    assert (Path(dpicl.__file__).parent / "py.typed").read_bytes() == b""
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_the_metadata_says_who_made_it_for_whom_and_on_which_pythons() -> None:
    assert set(PROJECT["classifiers"]) <= classifiers
    assert PROJECT["authors"] == CITATION["authors"] == [{"name": "the dpicl maintainers"}]
    assert PROJECT["keywords"] == sorted(PROJECT["keywords"]) == CITATION["keywords"]
    stated = re.findall(r"Python :: 3\.(\d+)", " ".join(PROJECT["classifiers"]))
    allowed = SpecifierSet(PROJECT["requires-python"])
    assert stated == [str(minor) for minor in range(30) if f"3.{minor}.0" in allowed]


def test_a_module_of_the_name_is_the_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dpicl", "--version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"dpicl {dpicl.__version__}\n")


def test_dir_and_completion_know_every_public_name_before_it_was_used() -> None:
    names, loaded = in_python(
        "import dpicl, sys\nprint(*dir(dpicl))\nprint('dpicl.session' in sys.modules)"
    )
    assert set(names.split()) >= set(dpicl.__all__) and loaded == "False"
    completed = rlcompleter.Completer({"dpicl": dpicl}).attr_matches("dpicl.pro")  # type: ignore[attr-defined]
    assert [one.rstrip("(") for one in completed] == ["dpicl.protect"]
    assert all(getattr(dpicl, name) is not None for name in dpicl.__all__)


# Dependencies: a bound is where it is needed.


def bound(name: str, extra: str = "") -> SpecifierSet | None:
    """Versions of a package that an extra takes, or the core; None where it is not named."""
    part = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    found = [one.specifier for one in map(Requirement, part) if one.name == name]
    return found[0] if found else None


def test_the_core_takes_new_versions_of_scikit_learn_and_the_private_baselines_do_not() -> None:
    core, evaluation = bound("scikit-learn"), bound("scikit-learn", "evaluation")
    assert core is not None and evaluation is not None
    assert "1.9.1" in core and "1.7.2" in core and "2.0" not in core
    assert "1.7.2" in evaluation and "1.8.0" not in evaluation


def test_torch_is_a_range_for_users_and_one_version_in_the_locks() -> None:
    torch = bound("torch", "local")
    assert torch is not None and "2.9.0" in torch and "2.14.0" in torch and "3.0" not in torch
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["uv"]
    (constraint,) = map(Requirement, settings["constraint-dependencies"])
    version = locked()["torch"]["version"]
    assert (constraint.name, str(constraint.specifier)) == ("torch", f"=={version}")
    assert [one["version"] for one in settings["dependency-metadata"]] == [version]
    for lock in ("requirements.lock", "requirements-dev.lock"):
        assert f"\ntorch=={version} \\\n" in (ROOT / lock).read_text("utf-8")


def test_the_second_accountant_comes_with_the_models_that_write_texts() -> None:
    assert bound("prv-accountant") is None and bound("prv-accountant", "local") is not None


def test_the_locks_are_for_every_python_that_is_allowed() -> None:
    lock = tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))
    assert SpecifierSet(lock["requires-python"]) == SpecifierSet(PROJECT["requires-python"])


# Files that programs read.


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_file_has_the_form_that_is_published_for_it(name: str) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "check_jsonschema",
            "--builtin-schema",
            f"vendor.{SCHEMAS[name]}",
            name,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_file_of_the_forge_is_checked() -> None:
    there = {
        str(path.relative_to(ROOT)) for path in (ROOT / ".github").rglob("*") if path.is_file()
    }
    assert there == {name for name in SCHEMAS if name.startswith(".github")}


def test_the_citation_is_of_this_version_and_of_the_page() -> None:
    assert CITATION["version"] == dpicl.__version__
    assert CITATION["license"] == PROJECT["license"]
    assert CITATION["title"] == f"dpicl: {_lower(PROJECT['description'])}"
    released = f"## [{CITATION['version']}] - {CITATION['date-released']}"
    assert isinstance(CITATION["date-released"], date)
    assert released in (ROOT / "CHANGELOG.md").read_text("utf-8")
    page = (ROOT / "docs" / "how-to" / "reproduce.md").read_text("utf-8")
    (author,) = CITATION["authors"]
    assert f"{{{CITATION['title']}}}" in page and f"{{{{{author['name']}}}}}" in page


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]


def test_a_form_asks_that_nothing_private_is_told_and_where_vulnerabilities_go() -> None:
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / "fault.yml").read_text("utf-8"))
    assert "SECURITY.md" in form["body"][0]["attributes"]["value"]
    (stated,) = (one for one in form["body"] if one["type"] == "checkboxes")
    assert all(option["required"] for option in stated["attributes"]["options"])


def test_the_hosted_checks_are_those_of_the_repository_and_each_python_that_is_allowed() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    jobs = workflow["jobs"]
    assert {"run": ".ci/run"} in jobs["all"]["steps"]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    tested = {jobs["all"]["container"].partition(":")[2].partition("-")[0]}
    tested |= set(jobs["core"]["strategy"]["matrix"]["python"])
    minors = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert tested == set(minors)
    used = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert used and all(re.search(r"@[0-9a-f]{40}$", name) for name in used), "a tag may move"
    assert workflow["permissions"] == {"contents": "read"}


# Texts that programs read.

_LISTED = re.compile(r"^- \[([^\]]+)\]\(([^)]+)\): (.+)$", re.MULTILINE)
OUTSIDE = {"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}


def test_the_index_for_language_models_has_every_page_once_with_its_heading() -> None:
    text = (ROOT / "llms.txt").read_text("utf-8")
    assert re.match(r"# dpicl\n\n> .+\n\n", text)
    listed = _LISTED.findall(text)
    assert len(listed) == text.count("\n- ")
    paths = [path for _, path, _ in listed]
    assert sorted(paths) == sorted(OUTSIDE | {f"docs/{page}" for page in all_pages()})
    headings = {
        path: (ROOT / path).read_text("utf-8").partition("\n")[0].removeprefix("# ")
        for path in paths
    }
    assert {path: title for title, path, _ in listed} == headings
    odd = [told for *_, told in listed if not told.endswith(".") or len(told) > 130]
    assert odd == [], "one short sentence each"


def test_the_page_of_the_interface_has_every_public_name_and_what_it_takes() -> None:
    page = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
    headings = re.findall(r"^## (\w+)$", page, re.MULTILINE)
    assert headings == [name for name in dpicl.__all__ if name != "__version__"]
    (protect,) = re.findall(r"^## protect\n\n```py\n(.*?)```", page, re.MULTILINE | re.DOTALL)
    assert "    epsilon: float,\n" in protect and protect.endswith(") -> Release\n")
    for heading in ("### Release.table", "### Session.quote", "### ReleasedTable"):
        assert f"{heading}\n" in page


@pytest.mark.parametrize("page", notebooks.PAGES)
def test_a_notebook_has_the_cells_of_its_page_and_what_they_show(page: str, tmp_path: Path) -> None:
    """Its page is followed by test_pages.py, cell by cell."""
    made = notebooks.notebook(page, tmp_path)
    nbformat.validate(json.loads(nbformat.writes(made)))
    assert (made.nbformat, made.nbformat_minor) >= (4, 5)
    cells = [cell for cell in made.cells if cell.cell_type == "code"]
    assert [_of(cell) for cell in cells] == [
        (f"!{step.line}" if isinstance(step, Command) else step.code.strip(), step.shown)
        for step in steps(page)
        if isinstance(step, Cell | Command)
    ]
    words = "".join(cell.source for cell in made.cells if cell.cell_type == "markdown")
    links = re.findall(r"\]\((?!https?:)([^)#]+)", words)
    assert links and all((tmp_path / link).exists() for link in links)


def _of(cell: Any) -> tuple[str, str]:
    return " ".join(cell.source.split()) if cell.source[0] == "!" else cell.source, "".join(
        output.text for output in cell.outputs
    )


def test_a_cell_that_is_refused_does_not_end_its_notebook(tmp_path: Path) -> None:
    cells = notebooks.notebook("notebook.md", tmp_path).cells
    tagged = [cell.source for cell in cells if cell.metadata.get("tags") == ["raises-exception"]]
    assert [source.partition("\n")[0] for source in tagged] == [
        "from langchain_core.prompts import ChatPromptTemplate, FewShotChatMessagePromptTemplate",
        'dpicl.protect(stays, schema, epsilon=2, account="stays")',
    ]
