"""A kind of model that is added by two files, its own and the list of kinds, is checked and asked
like ours.
"""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.harness import Place, new_place
from tests.library.examples import ROOT

COUNTING = ROOT / "tests" / "library" / "lm" / "counting.py"
KINDS = "dpicl/models/kinds"


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the product with the kind."""
    root = tmp_path_factory.mktemp("added")
    shutil.copytree(ROOT / "dpicl", root / "dpicl", ignore=shutil.ignore_patterns("__pycache__"))
    for beside in ("tasks", "flows", "infra", "pipelines.yaml"):
        (root / beside).symlink_to(ROOT / beside)
    shutil.copy(COUNTING, root / KINDS)
    listed = root / KINDS / "__init__.py"
    before = listed.read_text()
    text = before.replace("Fake())", "Fake(), Counting())").replace(
        "\nfrom dpicl.models.kinds.endpoint",
        "\nfrom dpicl.models.kinds.counting import Counting\nfrom dpicl.models.kinds.endpoint",
    )
    assert len(text.splitlines()) == len(before.splitlines()) + 1
    listed.write_text(text)
    return root


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = new_place(tmp_path_factory.mktemp("place"))
    file = place.root / "pipelines.yaml"
    pipelines = yaml.safe_load(file.read_text())
    pipelines["models"]["mine"] = {"kind": "counting"}
    file.write_text(yaml.safe_dump(pipelines))
    return place


def test_two_files_differ(added: Path) -> None:
    compared = filecmp.dircmp(ROOT / KINDS, added / KINDS, ignore=["__pycache__"])
    assert (compared.diff_files, compared.right_only) == (["__init__.py"], ["counting.py"])


def test_a_run_asks_it(place: Place, added: Path) -> None:
    command = "run private --methods gdp_tabicl --model mine --epsilons 5 --shots 2 --seeds 0"
    path = os.pathsep.join(map(str, (added, ROOT)))
    done = place.dpicl(f"{command} --run-id one --executor pool", PYTHONPATH=path, timeout=300)
    assert done.returncode == 0, done.stderr
    model = json.loads((place.run("one") / "manifest.json").read_text())["model"]
    assert (model["name"], model["kind"]) == ("mine", "counting")


def test_the_page_for_contributors_shows_it_as_it_is() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    (shown,) = re.findall(r"```python\n(class Counting.*?)```", page, re.DOTALL)
    assert shown in COUNTING.read_text("utf-8")
