"""The papers' checklist: what each row says was seen is in what its command shows, run in its
smallest form; and a row that says more is caught.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.benchmarks.papers import evidence
from lab.benchmarks.papers.__main__ import ITEMS, fault, items, malformed, numbers
from lab.benchmarks.papers.evidence import COMMANDS, Evidence, run

ROWS = items()
BY_COMMAND = {name: [row for row in ROWS if row["run"] == name] for name in COMMANDS}
GOOD = {
    "items": "1",
    "paper": "P1",
    "what": "sizes",
    "state": "done",
    "shown by": "dpicl data list",
    "run": "list",
    "seen": "adult file … heart file",
    "note": "data_contracts/heart.yaml",
}
SHOWN = Evidence(
    (0,), "$ dpicl data list adult file, OpenML bank file heart file yes 0.9997-LDP epsilon (1.0)"
)


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("command", [name for name, rows in BY_COMMAND.items() if rows])
def test_what_a_row_says_was_seen_is_shown_by_its_command(
    command: str, tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPICL_DATA", str(data_folder))
    found = run(command, tmp_path)
    assert {row["items"]: why for row in BY_COMMAND[command] if (why := fault(row, found))} == {}


def test_every_item_stands_once_and_every_command_is_of_a_row() -> None:
    assert [number for row in ROWS for number in numbers(row)] == list(range(1, ITEMS + 1))
    assert all(BY_COMMAND.values()), [name for name, rows in BY_COMMAND.items() if not rows]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["items"])
def test_a_row_says_what_was_seen_and_where_or_why_not(row: dict[str, str]) -> None:
    assert malformed(row) == ""


def test_commands_that_a_row_names_for_people_are_commands_and_pipelines(
    contracts_folder: Path,
) -> None:
    pipelines = set(
        re.findall(
            r"^  ([a-z][a-z0-9-]*):$",
            (contracts_folder.parent / "pipelines.yaml").read_text("utf-8"),
            re.MULTILINE,
        )
    )
    named = {
        match for row in ROWS for match in re.findall(r"dpicl run ([a-z0-9-]+)", row["shown by"])
    }
    named |= {
        match
        for lines in COMMANDS.values()
        for line in lines
        for match in re.findall(r"dpicl run ([a-z0-9-]+)", line)
    }
    assert named and not named - pipelines


@pytest.mark.parametrize(
    "seen",
    [
        "adult file … heart file",
        "bank file",
        "<n>-LDP",
        "epsilon (<n>)",
        "0.9997-LDP",
        "(1.0)",
        "adult file, OpenML bank",
        "adult  file",
    ],
)
def test_what_is_there_is_seen(seen: str) -> None:
    assert (
        fault({**GOOD, "seen": seen.ljust(10)} if len(seen) < 10 else {**GOOD, "seen": seen}, SHOWN)
        == ""
    )


@pytest.mark.parametrize(
    "seen",
    [
        "heart file … adult file",
        "jungle file, OpenML",
        "9997-LDP … bank file",
        "0.99 … heart file",
        "dult file, OpenML",
        "adult file … bank file … bank file",
        "heart file <n>",
        "heart file yes | <n>",
    ],
)
def test_a_mutant_row_that_says_what_its_output_lacks_is_caught(seen: str) -> None:
    assert fault({**GOOD, "seen": seen}, SHOWN).startswith("not seen: ")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"state": "finished"}, "state finished: expected one of done, differs"),
        ({"run": "nothing"}, "run nothing: expected a command"),
        ({"seen": ""}, "seen: says nothing"),
        ({"note": "dpicl/gone.py"}, "note dpicl/gone.py: expected the file"),
        ({"state": "differs", "note": "so"}, "note: expected the reason"),
        ({"state": "impossible", "note": ""}, "note: expected the reason"),
        ({"state": "not done", "note": "later"}, "note: expected the reason"),
    ],
)
def test_a_mutant_row_that_says_too_little_is_caught(change: dict[str, str], why: str) -> None:
    assert fault({**GOOD, **change}, SHOWN).startswith(why)


@pytest.mark.parametrize(
    "shown",
    [
        Evidence((0, 2), SHOWN.text),
        Evidence((1,), SHOWN.text),
        Evidence((0,), SHOWN.text + " Traceback (most recent call last)"),
    ],
)
def test_a_mutant_command_that_fails_shows_nothing(shown: Evidence) -> None:
    assert fault(GOOD, shown).startswith("its command ends with")


def test_a_command_is_run_and_what_it_writes_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        evidence.COMMANDS,
        "both",
        ["dpicl contract show breast_cancer", "dpicl contract show nowhere"],
    )  # type: ignore[index]
    (tmp_path / "runs" / "r").mkdir(parents=True)
    (tmp_path / "runs" / "r" / "results.csv").write_text("method,accuracy\nx,0.5\n")
    found = run("both", tmp_path)
    assert found.codes == (0, 2) and found.shows(
        "$ dpicl contract show nowhere … expected … results.csv: method,accuracy x,0.5"
    )
