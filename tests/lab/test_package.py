"""dpicl-lab is a package of its own: it fits one version of dpicl, and dpicl does without it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import lab
from dpicl import __version__
from dpicl.cli.executors import LAB
from tests.packaging.test_without_extras import PROGRAM, without

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_package_states_the_version_and_the_commands_that_dpicl_knows() -> None:
    assert lab.__version__ == __version__
    assert [one.partition("==")[2] for one in PROJECT["dependencies"]] == [__version__]
    assert set(PROJECT["entry-points"]["dpicl.commands"]) == set(LAB)


@pytest.mark.quick("compare")
@pytest.mark.parametrize("name", LAB)
def test_where_it_is_not_installed_its_commands_name_it(name: str) -> None:
    nothing = "import importlib.metadata as m\nm.entry_points = lambda **_: m.EntryPoints()\n"
    done = without(set(), nothing + PROGRAM, name, "--all")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"dpicl: {name}: no installed package has this command; in the folder that contains the "
        "clone of dpicl type `pip install ./dpicl ./dpicl/lab`, or in the clone `make setup`\n"
    )
    shown = without(set(), nothing + PROGRAM, "--help").stdout
    (line,) = (line for line in shown.splitlines() if line.startswith(f"  {name} "))
    assert "(not installed here; called, it says what is missing)" in line


def test_beside_another_version_its_commands_say_so_and_the_others_work() -> None:
    other = 'import dpicl\ndpicl.__version__ = "9.9.9"\n'
    done = without(set(), other + PROGRAM, "audit", "--all")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"dpicl: dpicl-lab {lab.__version__}: is installed beside dpicl 9.9.9; expected the same "
        "version: in the folder that contains the clone of dpicl type `pip install ./dpicl "
        "./dpicl/lab`\n"
    )
    assert without(set(), other + PROGRAM, "--version").stdout == "dpicl 9.9.9\n"
