"""What the pages show is what happens: a reader follows them from the first line to the last."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from typing import Any

import pytest
import typer

from dpicl.cli.terminal import console
from tests.docs.cells import Cell
from tests.docs.looked_up import AS_THEY_STAND, OUTSIDE
from tests.docs.pages import DOCS, ROOT, Command, File, all_pages, steps, steps_of
from tests.harness import DPICL, World, new_place, running_cluster

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
"""Pages whose commands are run, in this order, in one folder."""

NOT_RUN = {
    ".venv/bin/python -m hatchling": "tests/packaging builds it",
    "python3.11 -m venv": "installs",
    "(cd lab && ../.venv/bin/python -m hatchling": "tests/packaging builds it",
    "../dpicl-installed": "installs",
    "git clone": "needs the repository's address",
    "cd dpicl": "needs the clone",
    "make setup": "installs",
    "make audit": "takes hours",
    "dpicl audit membership --runs": "takes minutes",
    "dpicl data fetch": "needs the network",
    "dpicl run table-3 --datasets": "needs data sets, a model or a server, and a GPU",
    "dpicl run dp-icl-generation --datasets samsum --model": "needs weights",
    "dpicl run mst-tabicl --datasets blood --model ./tabicl": "needs weights and a data set",
    "dpicl reproduce dp-tabicl --model": "needs data sets and a GPU",
    "dpicl reproduce dp-few-shot 1": "needs data sets and a GPU",
    "dpicl reproduce dp-icl": "needs data sets and a GPU",
}
"""Commands that no test can run, by how they begin."""

SHORTER = {"make demo": "dpicl run shipped-demo --model bundled --queries 12 --run-id demo-shown"}
"""Long commands, and the same pipeline on a smaller grid."""


WIDTH = 100
"""Of the reader's terminal: the pages show tables as they look there."""


class Reader:
    """Somebody who types what a page says, in a folder like a fresh clone."""

    def __init__(self, world: World) -> None:
        self.world = world
        # where a clone has them; both names work
        (world.root / "contracts").rename(world.root / "data_contracts")
        for name, target in (("contracts", "data_contracts"), (".dpicl", "home")):
            (world.root / name).symlink_to(target)

    def write(self, file: File) -> None:
        path = self.world.root / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text)

    def type(self, line: str) -> tuple[int, str]:
        """Exit code and all that is printed; commands of dpicl run in this process, unless the
        shell has a part in them.
        """
        words = shlex.split(line)
        if words[0] != "dpicl" or re.search(r"[|<>;&$]", line):
            return self._in_shell(line)
        from dpicl.cli import main

        out, before = io.StringIO(), sys.argv
        sys.argv = words
        try:
            with redirect_stdout(out), redirect_stderr(out):
                main()
        except SystemExit as stopped:
            return int(stopped.code or 0), out.getvalue()
        finally:
            sys.argv = before
        raise AssertionError("the command line always exits")

    @staticmethod
    def _in_shell(line: str) -> tuple[int, str]:
        paths = f"{DPICL.parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", line],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "PATH": paths},
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def reader(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A reader with state and workers of their own, on the session's Prefect server."""
    place = new_place(tmp_path_factory.mktemp("reader") / "clone")
    with running_cluster(place, workers=1) as cluster:
        yield Reader(World(place.root, world.url, cluster.scheduler_address))


def reason(line: str) -> str | None:
    """Why a command is not run; None if it is."""
    return next((why for start, why in NOT_RUN.items() if line.startswith(start)), None)


def commands(page: str) -> list[Command]:
    return [step for step in steps(page) if isinstance(step, Command)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("page", FOLLOWED)
def test_a_page_can_be_followed(reader: Reader, monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    from prefect_dask import DaskTaskRunner

    from flows.tabicl import sweep

    runner: Any = DaskTaskRunner(address=reader.world.scheduler)
    # it was told a cluster when it was imported
    monkeypatch.setattr("flows.tabicl.sweep", sweep.with_options(task_runner=runner))
    monkeypatch.chdir(reader.world.root)
    monkeypatch.setattr(console, "width", WIDTH)  # it was told a width when it was imported
    with reader.world.entered(COLUMNS=str(WIDTH)):
        names: dict[str, Any] = {}
        for step in steps(page):
            if isinstance(step, File):
                reader.write(step)
            elif isinstance(step, Cell):
                output = step.run(names)
                assert step.missing(output) is None, (
                    f"{step.code}\n{step.missing(output)!r} is not in\n{output}"
                )
            elif reason(step.line) is None:
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
