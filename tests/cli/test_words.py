"""Words of the command line: one for each meaning, other spellings, what a shell completes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from dpicl.cli.app import app
from dpicl.cli.options import SAME
from dpicl.methods import METHODS
from tests.cli.conftest import Cli
from tests.harness import SMALL_OPTIONS, Place, install, last_written, python, shop


def commands(group: Any = None, words: str = "dpicl") -> Iterator[tuple[str, Any]]:
    for word, command in (group or typer.main.get_command(app)).commands.items():
        yield f"{words} {word}", command
        if hasattr(command, "commands"):
            yield from commands(command, f"{words} {word}")


@pytest.fixture
def till(place: Place) -> Place:
    install(place, shop("till", private=True))
    return place


def test_no_command_has_two_options_of_one_meaning() -> None:
    for name, command in commands():
        options = [
            option.removeprefix("--")
            for parameter in command.params
            for option in parameter.opts
            if option.startswith("--")
        ]
        same = [SAME.get(option, option) for option in options]
        assert len(same) == len(set(same)), name


def test_a_contract_is_called_so_wherever_one_is_named() -> None:
    named = {
        name: parameter.metavar
        for name, command in commands()
        for parameter in command.params
        if parameter.name == "contract"
    }
    assert set(named.values()) == {"CONTRACT"}
    assert {"dpicl protect", "dpicl plan", "dpicl data fetch", "dpicl ask"} <= named.keys()


def test_first_sentences_are_whole_in_the_list_of_commands(cli: Cli) -> None:
    for group in ("", "contract", "data", "ledger", "state"):
        helped = cli(f"{group} --help")
        assert "..." not in helped.partition("Commands:" if group else "Protect:")[2], group


@pytest.mark.parametrize(
    ("today", "other"),
    [
        ("run private --epsilons 0", "run private --epsilon 0"),
        ("run private --datasets none", "run private --dataset none"),
        ("protect till --dry-run --epsilon 0", "protect till --dry-run --epsilons 0"),
        ("plan till --epsilons 0", "plan till --epsilon 0"),
        ("ask who? --contract none", "ask who? --account none"),
    ],
)
def test_another_spelling_says_the_same(till: Place, cli: Cli, today: str, other: str) -> None:
    sentence = cli.refused(today)
    assert sentence == cli.refused(other)
    helped = cli(f"{today.split()[0]} --help")
    assert today.split()[-2] in helped and not re.search(rf"{other.split()[-2]}\b", helped)


def test_quiet_stands_before_a_command_or_after_it_and_ends_with_it(till: Place, cli: Cli) -> None:
    release = "protect till --method gdp_tabicl --shots 2"
    assert cli(f"-q {release} --out {till.root / 'a.jsonl'}") == ""
    assert cli(f"{release} -q --out {till.root / 'b.jsonl'}") == ""
    assert (till.root / "a.jsonl").read_bytes() == (till.root / "b.jsonl").read_bytes() != b""
    assert "till" in (quiet := cli("budget --quiet"))
    assert quiet == cli("budget").partition("4 records")[0]
    assert cli.ended("--quiet report nowhere")[1].startswith("dpicl: ")


def completed(place: Place, line: str, **extra: str) -> list[str]:
    """What bash is offered for the last word of a line."""
    asked = place.dpicl(
        _DPICL_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(line.count(" ")), **extra
    )
    assert asked.returncode == 0 and not asked.stderr, asked.stderr
    return asked.stdout.split()


@pytest.mark.exhaustive
def test_names_are_completed(place: Place) -> None:
    install(place, shop("till", private=True))
    assert (
        place.dpicl(
            "run demo", *SMALL_OPTIONS, "--executor", "pool", "--run-id", "first", timeout=300
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
        "import sys, dpicl.cli.app; from dpicl.cli import options as names; names.contracts(''); "
        "names.pipelines(''); names.methods(''); names.runs('');"
        "print(*{'pyarrow', 'numpy', 'sqlalchemy', 'dpicl.methods', 'dpicl.contract'} & "
        "{*sys.modules})"
    )
    assert python(code) == ""


def test_it_can_be_installed(place: Place) -> None:
    shown = place.dpicl(
        "--show-completion bash",
        SHELL="/bin/bash",
        _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1",
    )
    assert shown.returncode == 0 and "_DPICL_COMPLETE=complete_bash" in shown.stdout
