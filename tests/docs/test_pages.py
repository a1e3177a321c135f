"""What the pages show is what happens: a reader follows them from the first line to the last."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.docs.cells import Cell
from tests.docs.looked_up import AS_THEY_STAND, OUTSIDE
from tests.docs.pages import DOCS, ROOT, Command, File, all_pages, steps, steps_of
from tests.docs.reader import new_reader
from tests.harness import World

FOLLOWED = (
    "tutorial.md",
    "notebook.md",
    "how-to/data-frames.md",
    "how-to/install.md",
    "how-to/own-table.md",
    "how-to/series.md",
    "how-to/collect.md",
    "how-to/choose-a-method.md",
    "questions/sign.md",
    "questions/breaks.md",
    "how-to/audit.md",
    "how-to/own-texts.md",
    "how-to/own-model.md",
    "how-to/reproduce.md",
)
"""Pages whose commands are run, each in an empty folder with what the page says to write there."""

NOT_RUN = {
    "pip install torch": "gigabytes from another index",
    'pip install "./dpicl': "tests/packaging installs it",
    ".venv/bin/python -m hatchling": "tests/packaging builds it",
    "python3.11 -m venv": "installs",
    "(cd lab && ../.venv/bin/python -m hatchling": "tests/packaging builds it",
    "../dpicl-installed": "installs",
    "git clone": "needs the repository's address",
    "cd dpicl": "needs the clone",
    "make setup": "installs",
    "make audit": "takes hours",
    "dpicl audit membership --runs": "takes minutes",
    "dpicl audit transcripts --runs": "takes an hour",
    "dpicl audit --target all": "needs peers",
    "dpicl audit attackers": "needs peers",
    "dpicl data fetch": "needs the network",
    "dpicl run table-3 --datasets": "needs data sets, a model or a server, and a GPU",
    "dpicl run dp-icl-generation --datasets samsum --model": "needs weights",
    "dpicl run mst-tabicl --datasets blood --model ./tabicl": "needs weights and a data set",
    "dpicl reproduce dp-tabicl --model": "needs data sets and a GPU",
    "dpicl reproduce dp-few-shot 1": "needs data sets and a GPU",
    "dpicl reproduce dp-icl": "needs data sets and a GPU",
}
"""Commands that no test can run, by how they begin."""

_SECOND = "dpicl run demo --epsilons 2 --shots 2 --seeds 0 --queries 5 --run-id second"
SHORTER = {
    "make demo": "dpicl run demo --model bundled --queries 12 --run-id demo-shown",
    _SECOND: f"{_SECOND} --model bundled",
}
"""Long commands, or such that need weights of a package index, and the same pipeline on a smaller
grid, by the bundled model.
"""
RUNS = ("make demo", "dpicl run", "dpicl reproduce")
"""How commands begin that need workers."""
FRAGMENTS = {
    "methods.md": 1,  # options of a pipeline
    "how-to/own-texts.md": 1,  # keys of a contract that is there already, for other files
    "how-to/series.md": 1,  # the same
}
"""How many blocks of YAML or JSON show some keys of a file; all others are whole files, which
readers are told to write.
"""


def reason(line: str) -> str | None:
    """Why a command is not run; None if it is."""
    return next((why for start, why in NOT_RUN.items() if line.startswith(start)), None)


def commands(page: str) -> list[Command]:
    return [step for step in steps(page) if isinstance(step, Command)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("page", FOLLOWED)
def test_a_page_can_be_followed_in_an_empty_folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    names: dict[str, Any] = {}
    with new_reader(tmp_path / "reader", monkeypatch) as reader, ExitStack() as workers:
        has_workers = False
        for step in steps(page):
            if isinstance(step, File):
                reader.write(step)
            elif isinstance(step, Cell):
                output = step.run(names)
                assert step.missing(output) is None, (
                    f"{step.code}\n{step.missing(output)!r} is not in\n{output}"
                )
            elif reason(step.line) is None:
                if step.line.startswith(RUNS) and not has_workers:
                    world: World = request.getfixturevalue("world")
                    workers.enter_context(reader.workers(world.api_url, monkeypatch))
                    has_workers = True
                code, output = reader.type(SHORTER.get(step.line, step.line))
                assert code == (2 if step.is_refused else 0), (
                    f"{step.line}: exit code {code}\n{output}"
                )
                assert step.missing(output) is None, (
                    f"{step.line}: {step.missing(output)!r} is not in\n{output}"
                )


def test_every_page_is_followed_or_its_commands_are_typed_elsewhere() -> None:
    with_steps = {
        page
        for page in all_pages()
        if any(isinstance(step, Command | Cell) for step in steps(page))
    }
    # test_certificate_page.py runs its lines
    assert with_steps - OUTSIDE - {"certificate.md"} == {*FOLLOWED, *AS_THEY_STAND}


def test_declarations_are_files_that_readers_write() -> None:
    found = {
        page: len(re.findall(r"^```(?:yaml|json)$", (DOCS / page).read_text("utf-8"), re.MULTILINE))
        for page in all_pages()
        if not page.startswith("reference/")
    }
    assert {page: count for page, count in found.items() if count} == FRAGMENTS


def test_exceptions_are_used() -> None:
    lines = [command.line for page in FOLLOWED for command in commands(page)]
    assert [start for start in NOT_RUN if not any(line.startswith(start) for line in lines)] == []
    assert set(SHORTER) <= set(lines)


@cache
def known_options() -> dict[str, set[str]]:
    """Options of every command, by its words."""
    from dpicl.cli.app import app

    def of(group: Any, words: str) -> Iterator[tuple[str, set[str]]]:
        for word, command in group.commands.items():
            yield (
                f"{words} {word}",
                {
                    option
                    for parameter in command.params
                    for option in (*parameter.opts, *parameter.secondary_opts)
                },
            )
            if hasattr(command, "commands"):
                yield from of(command, f"{words} {word}")

    return dict(of(typer.main.get_command(app), "dpicl"))


def in_sentences(page: str) -> list[str]:
    """Commands of dpicl that stand between words."""
    return re.findall(r"`(dpicl [a-z][^`\n]*)`", (DOCS / page).read_text("utf-8"))


@pytest.mark.quick(
    "decisions.md",
    "guarantee.md",
    "how-to/cluster.md",
    "how-to/data-frames.md",
    "how-to/collect.md",
    "how-to/install.md",
    "how-to/choose-a-method.md",
    "how-to/own-model.md",
    "how-to/own-table.md",
    "how-to/audit.md",
    "README.md",
    "methods.md0",
    "how-to/watch.md",
)
@pytest.mark.parametrize("page", [*all_pages(), *sorted(OUTSIDE), "../SECURITY.md"])
def test_every_command_exists_with_its_options(page: str) -> None:
    options = known_options()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for line in [*(command.line for command in commands(page)), *in_sentences(page)]:
        words = shlex.split(line)
        if words[0] == "make":
            assert {word for word in words[1:] if "=" not in word} <= targets, line
        if words[0] == "dpicl":
            name = " ".join(
                words[: 3 if words[1] in ("contract", "data", "ledger", "state") else 2]
            )
            given = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert given <= options[name], line


def test_what_is_printed_otherwise_would_be_noticed() -> None:
    page = (
        "```console\n$ dpicl a \\\n  --b\none … 3\n$ dpicl c\ndpicl: no\n```\n```sh\n# said\nmake "
        "d\n```\n```yaml file=e.yaml\nf: 1\n```\n"
    )
    first, second, third, file = steps_of(page)
    assert isinstance(first, Command) and isinstance(second, Command)
    assert (first.line, second.is_refused, third, file) == (
        "dpicl a --b",
        True,
        Command("make d"),
        File("e.yaml", "f: 1\n"),
    )
    assert first.missing("zero one  2\n 3") is None
    assert first.missing("3 one 2") == "3" and first.missing("two 3") == "one"


def test_a_cell_is_compared_with_what_a_notebook_would_display() -> None:
    page = (
        "```python\na = 1\na + 1\n```\n\n```text\n2\n```\n\nWords.\n\n```python\nraise "
        "ValueError(f'no {a}')\n```\n```text noise\nValueError: some 7\n```\n"
    )
    first, second = steps_of(page)
    assert isinstance(first, Cell) and isinstance(second, Cell)
    names: dict[str, Any] = {}
    assert first.run(names) == "2\n" and first.missing("3\n") == "2"
    assert second.missing(second.run(names)) is None
    assert second.missing("ValueError: so\n")
    assert second.missing("")
    assert second.is_noise
    optional = Cell("", "a 1\nb of 2 x …\n", is_noise=True)
    assert optional.missing("a 2\n") is None
    assert optional.missing("a 2\nb of 2 x\n") is None
    assert optional.missing("a 2\nc\n")
    begun = Cell("", "a 1\n…\n", is_noise=True)
    assert begun.missing("a 2\nc\nd e\n") is None
    assert begun.missing("c\na 2\n") and begun.missing("")
    with pytest.raises(ZeroDivisionError):
        Cell("1 / 0").run({})
