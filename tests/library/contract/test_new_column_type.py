"""A type of columns that is added by two files, its own and the list of types, is read, planned,
protected and run like ours.
"""

from __future__ import annotations

import csv
import filecmp
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.harness import Place, new_place
from tests.library.examples import ROOT

CLOCK = ROOT / "tests" / "library" / "contract" / "clock.py"
TYPES = "dpicl/contract/columns"
CONTRACT = {
    "version": 2,
    "name": "visits",
    "source": {"file": "visits.csv"},
    "privacy": {"neighbours": "replace-one", "sampling_rate": 1, "budget": {"epsilon": 1000}},
    "columns": {
        "at": {"type": "clock", "bounds": ["06:00", "22:00"]},
        "left": {"type": "clock", "bounds": ["06:00", "23:00"], "nullable": True},
        "came": {"type": "category", "categories": ["no", "yes"]},
    },
    "label": "came",
}
METHODS_OF_ROWS = ("mst_tabicl", "ldp_tabicl")
TIME = re.compile(r"\d\d:\d\d")


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the product with the type."""
    root = tmp_path_factory.mktemp("added")
    shutil.copytree(ROOT / "dpicl", root / "dpicl", ignore=shutil.ignore_patterns("__pycache__"))
    # which Prefect runs are started from, and what comes with the product
    for beside in ("tasks", "flows", "infra", "pipelines.yaml", "data_contracts"):
        (root / beside).symlink_to(ROOT / beside)
    shutil.copy(CLOCK, root / TYPES)
    listed = root / TYPES / "__init__.py"
    before = listed.read_text()
    text = before.replace("AnyOf = ", "AnyOf = ClockColumn | ").replace(
        "\nfrom dpicl.contract.columns.date",
        "\nfrom dpicl.contract.columns.clock import ClockColumn\nfrom dpicl.contract.columns.date",
    )
    assert len(text.splitlines()) == len(before.splitlines()) + 1
    listed.write_text(text)
    return root


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place, rng = new_place(tmp_path_factory.mktemp("place")), np.random.default_rng(0)
    (place.root / "contracts" / "visits.yaml").write_text(yaml.safe_dump(CONTRACT))
    minutes = rng.integers(6 * 60, 12 * 60, 400)
    rows = [
        f"{one // 60:02}:{one % 60:02},{'12:30' if one % 9 else ''},{'yes' if one > 540 else 'no'}"
        for one in minutes
    ]
    (place.root / "data" / "visits.csv").write_text("\n".join(["at,left,came", *rows]) + "\n")
    return place


PROGRAM = """
import sys
from dpicl.cli import main
for command in sys.argv[1].splitlines():
    sys.argv = ["dpicl", *command.split()]
    try:
        main()
    except SystemExit as end:
        assert not end.code, command
"""


@pytest.fixture(scope="module")
def said(place: Place, added: Path) -> str:
    """What commands print that show, plan and protect a table with the type."""
    commands = [
        "contract show visits",
        "plan visits --rows 400 --epsilons 3",
        *(
            f"protect visits --method {method} --epsilon 50 --as csv --out {method}.csv"
            for method in METHODS_OF_ROWS
        ),
        "protect visits --method gdp_tabicl --epsilon 200 --shots 2 --out averages.jsonl",
    ]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "\n".join(commands)],
        env={**os.environ, **place.environment, "PYTHONPATH": path(added)},
        cwd=place.root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def path(added: Path) -> str:
    return os.pathsep.join(map(str, (added, ROOT)))


def test_two_files_differ(added: Path) -> None:
    compared = filecmp.dircmp(ROOT / TYPES, added / TYPES, ignore=["__pycache__"])
    assert (compared.diff_files, compared.right_only) == (["__init__.py"], ["clock.py"])


def test_it_is_shown_and_planned(said: str) -> None:
    assert "06:00 to 22:00" in said and "mst_tabicl" in said


@pytest.mark.usefixtures("said")
@pytest.mark.parametrize("method", METHODS_OF_ROWS)
def test_rows_of_it_leave_as_they_came(place: Place, method: str) -> None:
    rows = list(csv.DictReader((place.root / f"{method}.csv").open()))
    assert len(rows) > 1000 and all(TIME.fullmatch(row["at"]) for row in rows)
    assert {bool(row["left"]) for row in rows} == {True, False}
    assert np.mean([row["at"] < "12:01" for row in rows]) > 0.8, "no true row is later"


@pytest.mark.usefixtures("said")
def test_averages_of_it_are_demonstrations(place: Place) -> None:
    text = (place.root / "averages.jsonl").read_text()
    assert re.search(r"The at is (0[6-9]|1[01]):\d\d\. The left is 12:[23]\d", text)


@pytest.mark.exhaustive
@pytest.mark.parametrize("executor", ["pool", "prefect"])
def test_a_pipeline_runs_it(place: Place, added: Path, executor: str) -> None:
    options = ("--datasets", "visits", "--epsilons", "5", "--shots", "2", "--seeds", "0")
    methods = ("--methods", "gdp_tabicl,mst_tabicl", "--model", "fake", "--run-id", executor)
    command = ("run", "private", *options, *methods, "--executor", executor)
    done = place.dpicl(*command, PYTHONPATH=path(added), timeout=300)
    assert done.returncode == 0, done.stderr
    assert (place.run(executor) / "report.html").exists()


def test_the_page_for_contributors_shows_it_as_it_is() -> None:
    page = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text("utf-8")
    (shown,) = re.findall(r"```python\n(class ClockColumn.*?)```", page, re.DOTALL)
    assert shown in Path(__file__).with_name("clock.py").read_text("utf-8")
