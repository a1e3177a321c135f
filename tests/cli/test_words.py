"""One word for one thing, in every command; other spellings mean the same. With --quiet a command
says its result alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from dpicl.cli.app import app
from dpicl.cli.options import SAME
from tests.harness import SMALL_OPTIONS, Place, call_main, install, said, shop, shop_rows

Capture = pytest.CaptureFixture[str]


def commands(group: Any = None, words: str = "dpicl") -> Iterator[tuple[str, Any]]:
    for word, command in (group or typer.main.get_command(app)).commands.items():
        yield f"{words} {word}", command
        if hasattr(command, "commands"):
            yield from commands(command, f"{words} {word}")


@pytest.fixture
def till(place: Place) -> Place:
    install(place, shop("till", private=True), shop_rows(60))
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
    assert (
        set(named.values()) == {"CONTRACT"}
        and {"dpicl protect", "dpicl plan", "dpicl data fetch", "dpicl ask"} <= named.keys()
    )


def test_first_sentences_are_whole_in_the_list_of_commands(capsys: Capture) -> None:
    for group in ((), ("contract",), ("data",), ("ledger",), ("state",)):
        assert "..." not in said(capsys, *group, "--help").partition("Commands:")[2], group


@pytest.mark.parametrize(
    ("today", "other"),
    [
        (("run", "private", "--epsilons", "0"), ("run", "private", "--epsilon", "0")),
        (("run", "private", "--datasets", "none"), ("run", "private", "--dataset", "none")),
        (
            ("protect", "till", "--dry-run", "--epsilon", "0"),
            ("protect", "till", "--dry-run", "--epsilons", "0"),
        ),
        (("plan", "till", "--epsilons", "0"), ("plan", "till", "--epsilon", "0")),
        (("ask", "who?", "--contract", "none"), ("ask", "who?", "--account", "none")),
    ],
)
def test_another_spelling_says_the_same(
    till: Place, capsys: Capture, today: tuple[str, ...], other: tuple[str, ...]
) -> None:
    code, sentence = call_main(today, capsys)
    assert code == 2 and (code, sentence) == call_main(other, capsys)
    helped = said(capsys, today[0], "--help")
    assert today[-2] in helped and not re.search(rf"{other[-2]}\b", helped)


@pytest.mark.exhaustive
def test_with_quiet_a_run_prints_where_its_report_is(place: Place) -> None:
    done = place.dpicl(
        "run",
        "private",
        *SMALL_OPTIONS,
        "--executor",
        "pool",
        "--run-id",
        "silent",
        "--quiet",
        timeout=300,
    )
    assert (
        done.returncode == 0
        and done.stdout == f"report: {place.run('silent') / 'report.html'}\n"
        and not done.stderr
    )


def test_quiet_stands_before_a_command_or_after_it_and_ends_with_it(
    till: Place, capsys: Capture
) -> None:
    release = ("protect", "till", "--method", "gdp_tabicl", "--shots", "2")
    assert said(capsys, "-q", *release, "--out", str(till.root / "a.jsonl")) == ""
    assert said(capsys, *release, "-q", "--out", str(till.root / "b.jsonl")) == ""
    assert (till.root / "a.jsonl").read_bytes() == (till.root / "b.jsonl").read_bytes() != b""
    assert (
        "till" in (quiet := said(capsys, "budget", "--quiet"))
        and quiet == said(capsys, "budget").partition("4 records")[0]
    )
    assert call_main(("--quiet", "report", "nowhere"), capsys)[1].startswith("dpicl: ")
