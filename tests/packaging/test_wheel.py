"""The wheel and the source archive hold all that the program needs, and the wheel works where no
repository is.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import lab
from dpicl.cli.executors import LAB
from tests.harness import _bare_environment, new_place

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("dpicl", "tasks", "flows", "infra", "lab")
"""Of the repository; the wheel holds the first, and that of dpicl-lab the last."""
RESOURCES = {
    "data_contracts": "dpicl/resources/data_contracts",
    "pipelines.yaml": "dpicl/resources/pipelines.yaml",
}
_COMMANDS = """
import sys
folder, repository = sys.argv[1:]
sys.path[:] = [folder, *(path for path in sys.path if path not in ("", repository))]
import dpicl
from dpicl.cli import main
assert dpicl.__file__.startswith(folder), dpicl.__file__
for command in ("list", "contract show heart", "protect breast_cancer --epsilon 1 --shots 2 --out demos.jsonl",
    "run table-3 --datasets breast_cancer --methods gdp_tabicl --epsilons 1 --shots 2 --queries 5 --model bundled --executor pool --workers 1 --run-id made",
    "report made", "budget", "contract new own.csv --label buys --positive yes --epsilon 1", "contract show own"):
    sys.argv = ["dpicl", *command.split()]
    try:
        main()
    except SystemExit as stopped:
        assert not stopped.code, command
for command in ("serve", "deploy", "metrics"):
    sys.argv = ["dpicl", command]
    try:
        main()
    except SystemExit as stopped:
        assert stopped.code == 2, command
assert not [name for name, module in sys.modules.items() if str(getattr(module, "__file__", "")).startswith(tuple(f"{repository}/{one}" for one in ("dpicl", "tasks", "flows")))]
"""  # noqa: E501


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both, made offline."""
    if not importlib.util.find_spec("hatchling"):
        pytest.skip("hatchling is not here to build with; `dpicl[dev]` names it")
    folder = tmp_path_factory.mktemp("built")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def _files(*folders: str) -> set[str]:
    """Of the working tree, without what Python leaves there."""
    found = (
        path
        for folder in folders
        for path in ((ROOT / folder).rglob("*") if (ROOT / folder).is_dir() else [ROOT / folder])
    )
    return {
        str(path.relative_to(ROOT))
        for path in found
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_every_file_of_the_packages_and_what_is_shipped_with_them(
    built: Path,
) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    shipped = {
        name.replace(place, there, 1)
        for place, there in RESOURCES.items()
        for name in _files(place)
    }
    assert names == _files("dpicl") | shipped, (
        "tasks, flows and infra are names that other projects have"
    )
    for needed in (
        "dpicl/resources/data_contracts/texts/trec.yaml",
        "dpicl/report/style.css",
        "dpicl/methods/published/table-III.csv",
    ):
        assert needed in names


def test_the_wheel_of_lab_holds_what_needs_no_repository(tmp_path: Path) -> None:
    if not importlib.util.find_spec("hatchling"):
        pytest.skip("hatchling is not here to build with; `dpicl[dev]` names it")
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path))
    subprocess.run(command, cwd=ROOT / "lab", capture_output=True, check=True)
    (path,) = tmp_path.iterdir()
    assert path.name in (ROOT / "docs" / "how-to" / "install.md").read_text("utf-8")
    with zipfile.ZipFile(path) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        points = wheel.read(f"dpicl_lab-{lab.__version__}.dist-info/entry_points.txt").decode()
    assert names == _files("lab") - _files("lab/benchmarks") - {"lab/pyproject.toml"}
    assert re.findall(r"^(\w+) = lab\.commands\.\1:\1$", points, re.MULTILINE) == list(LAB)


def test_the_page_names_the_wheel_and_extras_that_it_has(built: Path) -> None:
    (command,) = re.findall(
        r'install "dist/([^\["]+)\[([\w,]+)\]"',
        (ROOT / "docs" / "how-to" / "install.md").read_text("utf-8"),
    )
    wheel, extras = command
    assert wheel == next(built.glob("*.whl")).name
    with zipfile.ZipFile(built / wheel) as archive:
        told = archive.read(
            f"{wheel.removesuffix('-py3-none-any.whl')}.dist-info/METADATA"
        ).decode()
    assert set(extras.split(",")) <= set(re.findall(r"^Provides-Extra: (\S+)$", told, re.MULTILINE))


def test_the_source_archive_holds_what_the_wheel_is_built_from(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert _files(*PACKAGES, *RESOURCES, "pyproject.toml", "README.md") <= names
    assert not [name for name in names if name.startswith((".venv", ".dpicl", ".git/"))]


@pytest.mark.exhaustive
def test_the_wheel_works_without_the_repository(built: Path, tmp_path: Path) -> None:
    """Lists, releases, runs and reports from its own resources, in a process whose path does
    not lead here.
    """
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path / "wheel")
    place = new_place(tmp_path / "place")
    environment = {
        name: value
        for name, value in (_bare_environment() | place.environment).items()
        if name not in ("PYTHONPATH",)
    }
    for name in ("DPICL_CONTRACTS", "DPICL_PIPELINES", "DPICL_DATA"):
        del environment[name]
    (tmp_path / "elsewhere").mkdir()
    rows = [f"{20 + index % 30},{'yes' if index % 3 else 'no'}" for index in range(40)]
    (tmp_path / "elsewhere" / "own.csv").write_text("\n".join(["age,buys", *rows]))
    done = subprocess.run(
        [sys.executable, "-c", _COMMANDS, str(tmp_path / "wheel"), str(ROOT)],
        cwd=tmp_path / "elsewhere",
        env={**environment, "PATH": os.environ["PATH"], "DPICL_DATA": str(tmp_path / "elsewhere")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (
        done.stderr.count(
            "is run from the repository or the image, and is not among what pip installs"
        )
        == 3
    ), done.stderr
    assert "table-3" in done.stdout
    assert "heart disease" in done.stdout
    assert "chain intact" in done.stdout
    assert len((tmp_path / "elsewhere" / "demos.jsonl").read_text().splitlines()) == 2
    assert {"own.yaml"} == {
        path.name for path in (tmp_path / "elsewhere" / "data_contracts").iterdir()
    }
    assert "<style>" in (place.run("made") / "report.html").read_text()
