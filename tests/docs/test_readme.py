"""README.md is followed from its first line to its last, in an empty folder."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.cells import Cell
from tests.docs.looked_up import README
from tests.docs.pages import Command, steps
from tests.docs.terminal import terminals

NOT_RUN = {"pip install": "installs"}
ANSWER = re.compile(r'"(Yes|No)", "yes": [0-9.]+')


@pytest.mark.exhaustive
def test_the_readme_can_be_followed_in_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that it names is missing; what varies with the noise is compared by its form."""
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in [name for name in os.environ if name.startswith("DPICL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DPICL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    names: dict[str, Any] = {}
    with terminals(folder, os.environ, reader=tmp_path) as (terminal,):
        for step in steps(README):
            if isinstance(step, Cell):
                output = step.run(names)
                assert step.missing(output) is None, f"{step.code}\n{output}"
            elif isinstance(step, Command) and not step.line.startswith(tuple(NOT_RUN)):
                output = terminal.type(step.line)
                shown = Command(step.line, ANSWER.sub("…", step.shown))
                assert shown.missing(output) is None, f"{step.line}\n{output}"
                assert len(ANSWER.findall(output)) == len(ANSWER.findall(step.shown))
    assert {path.name for path in folder.iterdir()} >= {
        "released.svg",
        "released.parquet",
        "released.parquet.certificate.json",
        "demos.jsonl",
    }


def test_its_first_result_is_a_screen_away() -> None:
    install, first = [step for step in steps(README) if isinstance(step, Cell | Command)][:2]
    assert isinstance(install, Command) and install.line.startswith("pip install")
    assert isinstance(first, Cell) and "dpicl.example()" in first.code
    assert len(first.code.splitlines()) + len(first.shown.splitlines()) <= 20
