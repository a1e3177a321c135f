"""What a plain `pip install ./dpicl` gives: the library, and a command line that says in one
sentence what it needs.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dpicl.ground.installed import _EXTRAS
from tests.harness import SMALL_OPTIONS, new_place

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
_HIDING = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
sys.argv = {words!r}
"""
_LIBRARY = """
from importlib import import_module
for name in {modules!r}:
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        print(name, error.name.partition(".")[0])
"""
NEEDED = {
    "pipeline": ("dpicl.report.figures", "dpicl.data.reading.postgresql"),
    "endpoint": (
        "dpicl.models.endpoint",
        "dpicl.ground.downloads",
        "dpicl.data.reading.repository",
    ),
    "local": ("dpicl.models",),
}
"""Which extra a part of the library may need; all other parts need none."""
PROGRAM = "from dpicl.cli import main\nmain()"


def brought_by(extra: str) -> set[str]:
    """Packages of an extra and of those that it names, as they are imported."""
    found = set[str]()
    for requirement in PROJECT["optional-dependencies"][extra]:
        named = re.match(r"dpicl\[(.*)\]", requirement)
        found |= (
            set[str]().union(*map(brought_by, named[1].split(",")))
            if named
            else {_imported(requirement)}
        )
    return found


def own(extra: str) -> set[str]:
    """The same without what the extras that it names bring, and without a bound on what is
    installed anyway.
    """
    return {
        _imported(one)
        for one in PROJECT["optional-dependencies"][extra]
        if not one.startswith("dpicl[")
    } - set(map(_imported, PROJECT["dependencies"]))


def _imported(requirement: str) -> str:
    match = re.match(r"[\w-]+", requirement)
    assert match is not None, requirement
    name = match[0].lower().replace("-", "_")
    return {"mlflow_skinny": "mlflow", "openlineage_python": "openlineage"}.get(name, name)


EXTRAS = brought_by("pipeline") | brought_by("local")


def without(
    hidden: set[str], program: str, *words: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A program in a Python that does not find these packages."""
    text = _HIDING.format(hidden=sorted(hidden), words=["dpicl", *words]) + program
    return subprocess.run(
        [sys.executable, "-c", text],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


TYPE = "in the folder that contains the clone of dpicl type `pip install"


def test_the_program_is_the_one_that_can_say_what_it_needs() -> None:
    assert PROJECT["scripts"] == {"dpicl": "dpicl.cli:main"}
    assert {name: own(name) for name in _EXTRAS} == {
        name: set(packages) for name, packages in _EXTRAS.items()
    }


def test_the_command_line_says_in_one_sentence_what_it_needs() -> None:
    done = without(EXTRAS, PROGRAM, "serve")
    sentence = f"dpicl: prefect is not installed; {TYPE} './dpicl[pipeline]'`\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)


def test_a_command_whose_packages_are_missing_says_so_in_the_list() -> None:
    done = without({"prefect", "prefect_dask"}, PROGRAM, "--help")
    told = dict(re.findall(r"^  ([a-z]+) +(\S.*)$", done.stdout, re.MULTILINE))
    assert done.returncode == 0
    missing = {name for name, text in told.items() if text.startswith("(not installed here; call")}
    assert missing == {"serve", "deploy", "metrics"}
    assert {"protect", "ask", "report", "run"} <= told.keys()


def test_a_command_that_no_installed_package_has_says_what_to_install() -> None:
    nothing = "import importlib.metadata as m\nm.entry_points = lambda **_: m.EntryPoints()\n"
    done = without(set(), nothing + PROGRAM, "serve")
    assert done.returncode == 2 and done.stderr == (
        f"dpicl: serve: no installed package has this command; {TYPE} "
        "'./dpicl[pipeline,local]'` (docs/how-to/install.md: without CUDA), or in the clone "
        "`make setup`\n"
    )


@pytest.mark.exhaustive
def test_a_run_needs_no_orchestrator(tmp_path: Path) -> None:
    """On a pool where Prefect is not installed; asked for, it is named."""
    place = new_place(tmp_path / "place")
    grid = (
        "run",
        "demo",
        "--datasets",
        "breast_cancer",
        "--methods",
        "gdp_tabicl",
        *SMALL_OPTIONS,
        "--workers",
        "1",
        "--run-id",
        "r",
    )
    done = without(EXTRAS - brought_by("endpoint"), PROGRAM, *grid, **place.environment)
    assert done.returncode == 0 and (place.run("r") / "results.csv").exists(), done.stderr
    (left_out,) = json.loads((place.run("r") / "manifest.json").read_text())["left_out"]
    assert left_out.endswith(
        f"are left out: diffprivlib is not installed; {TYPE} './dpicl[evaluation]'`."
    )
    assert f"matplotlib is not installed; {TYPE} './dpicl[plot]'`" in html.unescape(
        (place.run("r") / "report.html").read_text()
    )
    refused = without(EXTRAS, PROGRAM, *grid, "--executor", "prefect", **place.environment)
    assert refused.returncode == 2 and refused.stderr.startswith(
        f"dpicl: prefect is not installed; {TYPE} './dpicl[pipeline]'`"
    )


@pytest.mark.exhaustive
def test_a_package_of_no_extra_that_is_missing_is_shown_as_a_defect() -> None:
    done = without({"pydantic"}, PROGRAM, "list")
    assert done.returncode == 1 and done.stderr.endswith(
        "ModuleNotFoundError: No module named 'pydantic'\n"
    )


@pytest.mark.exhaustive
def test_the_command_line_can_be_run_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dpicl", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0 and "protect" in done.stdout


_STATED = """
from tests.library.methods.test_few_shot_plan import told
print(told())
"""


def test_a_statement_has_the_second_accountant_s_bounds_where_that_is_installed() -> None:
    with_it, without_it = (
        without(set(), _STATED).stdout,
        without({"prv_accountant"}, _STATED).stdout,
    )
    assert (
        re.sub(r"; prv-accountant bounds epsilon by [\d.]+ and [\d.]+\d", "", with_it) == without_it
    )
    assert with_it != without_it and "-DP and answers any number of queries" in without_it


def allowed(module: str) -> set[str]:
    """Packages that a module of the library may need beyond a plain installation."""
    return set[str]().union(
        *(
            brought_by(extra)
            for extra, parts in NEEDED.items()
            if f"{module}.".startswith(tuple(f"{part}." for part in parts))
        )
    )


@pytest.mark.exhaustive
def test_the_library_can_be_imported_without_extras_but_for_the_parts_that_need_one() -> None:
    files = (
        path.relative_to(ROOT).with_suffix("")
        for path in (ROOT / "dpicl").rglob("*.py")
        if path.stem not in ("__main__", "env")
    )
    modules = sorted(".".join(path.parts).removesuffix(".__init__") for path in files)
    done = without(EXTRAS, _LIBRARY.format(modules=[*modules, "dpicl.client.__main__"]))
    assert done.returncode == 0, done.stderr
    failed = dict(line.split() for line in done.stdout.splitlines())
    assert {
        module: package for module, package in failed.items() if package not in allowed(module)
    } == {}
    assert failed.keys() >= {"dpicl.models.local.loading", "dpicl.models.endpoint.client"}, (
        "nothing was hidden"
    )
    assert not failed.keys() & {
        "dpicl",
        "dpicl.contract",
        "dpicl.methods.gdp_tabicl",
        "dpicl.mechanisms",
        "dpicl.session",
        "dpicl.client.__main__",
    }


@pytest.mark.exhaustive
def test_the_readme_s_first_example_runs_with_the_extra_that_it_installs(
    tmp_path: Path,
) -> None:
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert example is not None
    program = f"import os; os.chdir({str(tmp_path)!r})\n{example[1]}\nprint(len(release.table(20)))"
    places = {"DPICL_HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    done = without(EXTRAS - own("plot"), program, **places, PYTHONPATH=str(ROOT))
    assert done.returncode == 0 and done.stdout.endswith("20\n"), done.stderr
