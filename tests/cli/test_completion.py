"""What a shell completes, by the protocol that it speaks: the variable that its script sets, one
word on each line.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from dpicl.methods import METHODS
from tests.harness import SMALL_OPTIONS, Place, install, last_written, shop, shop_rows


def completed(place: Place, line: str, **extra: str) -> list[str]:
    """What bash is offered for the last word of a line."""
    asked = place.dpicl(
        _DPICL_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(line.count(" ")), **extra
    )
    assert asked.returncode == 0 and not asked.stderr, asked.stderr
    return asked.stdout.split()


@pytest.mark.exhaustive
def test_names_are_completed(place: Place) -> None:
    install(place, shop("till", private=True), shop_rows(60))
    assert (
        place.dpicl(
            "run", "demo", *SMALL_OPTIONS, "--executor", "pool", "--run-id", "first", timeout=300
        ).returncode
        == 0
    )
    assert {"protect", "plan"} == {*completed(place, "dpicl p")}
    assert (
        completed(place, "dpicl protect ti")
        == completed(place, "dpicl contract show ti")
        == ["till"]
    )
    assert completed(place, "dpicl run few-shot-d") == ["few-shot-demo"]
    assert completed(place, "dpicl run demo --model ll") == ["llama-2-13b", "llama-2-7b"]
    assert {*completed(place, "dpicl run demo --methods ")} == {*METHODS}
    before = last_written(place.home)
    assert completed(place, "dpicl budget br") == ["breast_cancer", "breast_cancer-clients"]
    assert last_written(place.home) == before
    assert (
        completed(place, "dpicl report f")
        == completed(place, "dpicl run --resume f")
        == completed(place, "dpicl compare first f")
        == ["first"]
    )


def test_each_name_of_a_list_is_completed_and_none_twice(place: Place) -> None:
    assert completed(place, "dpicl run demo --datasets adult,b") == [
        "adult,bank",
        "adult,blood",
        "adult,breast_cancer",
    ]
    assert completed(place, "dpicl run demo --datasets adult,bank,ba") == []


@pytest.mark.parametrize("line", ["dpicl run d", "dpicl budget b", "dpicl report f"])
def test_where_nothing_can_be_read_nothing_is_offered_and_nothing_is_made(
    place: Place, line: str
) -> None:
    (place.root / "pipelines.yaml").write_text("pipelines: [")
    before = sorted(place.root.rglob("*"))
    assert completed(place, line) == [] and sorted(place.root.rglob("*")) == before


def test_completion_imports_nothing_heavy() -> None:
    """Typer alone takes a third of a second: no table, no number and no ledger beside it."""
    code = (
        "import sys, dpicl.cli.app; from dpicl.cli import names; names.contracts(''); "
        "names.pipelines(''); names.methods(''); names.runs('');"
        "print(*{'pyarrow', 'numpy', 'sqlalchemy', 'dpicl.methods', 'dpicl.contract'} & "
        "{*sys.modules})"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        == "\n"
    )


def test_it_can_be_installed(place: Place) -> None:
    shown = place.dpicl(
        "--show-completion",
        "bash",
        SHELL="/bin/bash",
        _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1",
    )
    assert shown.returncode == 0 and "_DPICL_COMPLETE=complete_bash" in shown.stdout
