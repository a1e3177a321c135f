"""Somebody at a terminal: a shell that stays, in which what a page shows is typed as it stands."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.docs.pages import DOCS
from tests.guard import stop_with_parent
from tests.harness import DPICL, REPOSITORY, end, until

_TYPED = re.compile(r"^```(?:sh|bash)\n(.*?)^```$|^(## [^\n]*)$", re.MULTILINE | re.DOTALL)
_MARK = "typed and done:"


def commands_by_section(page: str) -> dict[str, list[str]]:
    """Commands of a page's `sh` and `bash` blocks below each heading; here-documents and loops are
    one command each.
    """
    found: dict[str, list[str]] = {}
    section = ""
    for block, heading in _TYPED.findall((DOCS / page).read_text("utf-8")):
        section = heading.removeprefix("## ") or section
        if block:
            found.setdefault(section, []).extend(_commands(block))
    return found


def _commands(block: str) -> Iterator[str]:
    """Whole commands: what a shell would wait for the end of is not cut."""
    begun, until_line = list[str](), ""
    for line in block.replace("\\\n", " ").splitlines():
        begun.append(line)
        opened = re.search(r"<<(\w+)$", line)
        until_line = opened[1] if opened else "done" if line.startswith("for ") else until_line
        if not until_line or line == until_line:
            yield re.sub(r"\s+# .*", "", "\n".join(begun)) if len(begun) == 1 else "\n".join(begun)
            begun, until_line = [], ""
    assert not begun, f"never ends: {begun}"


class Terminal:
    """A shell with this Python's programs on its path; what stays up stays up until it is
    closed.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        paths = os.pathsep.join([str(DPICL.parent), os.environ["PATH"]])
        self._shell = subprocess.Popen(
            ["bash", "--norc"],
            env={**environment, "PATH": paths, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "200"},
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._guards = [stop_with_parent(self._shell.pid)]

    def type(self, command: str) -> str:
        """What a command prints that ends well; nobody answers its questions."""
        code, said = self._typed(f"{{\n{command}\n}} < /dev/null")
        assert code == 0, f"{command}\nexit code {code}\n{said}"
        return said

    def start(self, command: str, is_ready: Callable[[str], bool], seconds: float = 120) -> int:
        """Type what stays up, in the background, until it is ready; gives its process, which leads
        a group of its own.
        """
        log = self.folder / f"stays-up-{self._shell.pid}-{len(self._guards)}.log"
        log.touch()
        program = f"set -m; {command.strip()} < /dev/null > '{log}' 2>&1 & set +m; echo $!"
        code, said = self._typed(program)
        assert code == 0, said
        process = int(said.split()[-1])
        self._guards.append(stop_with_parent(process))
        until(
            lambda: is_ready(log.read_text()) or not _lives(process),
            seconds,
            f"{command}, whose words are in {log}",
        )
        assert is_ready(log.read_text()), f"{command}\n{log.read_text()}"
        return process

    def stop(self, process: int) -> None:
        """Interrupt what stays up, as a user does by Ctrl+C, and wait for it."""
        _signal(process, signal.SIGINT)
        until(lambda: not _lives(process), 60, "the end of what was interrupted")

    def _typed(self, text: str) -> tuple[int, str]:
        assert self._shell.stdin is not None and self._shell.stdout is not None
        self._shell.stdin.write(f"{text}\necho; echo {_MARK} $?\n")
        self._shell.stdin.flush()
        said = list[str]()
        for line in self._shell.stdout:
            if line.startswith(_MARK):
                return int(line.removeprefix(_MARK)), "".join(said)
            said.append(line)
        raise AssertionError("the shell has ended:\n" + "".join(said))

    def close(self) -> None:
        """End the shell and what was started in it."""
        started = [int(word) for word in self._typed("jobs -p")[1].split()]
        for sign in (signal.SIGTERM, signal.SIGKILL):
            for process in started:
                _signal(process, sign)
            with suppress(AssertionError):
                until(lambda: not any(map(_lives, started)), 20, "their end")
        for guard in self._guards:
            guard.kill()
            guard.wait()
        end(self._shell)


def _signal(process: int, sign: signal.Signals) -> None:
    """To all of a group; to nobody if it is gone."""
    with suppress(ProcessLookupError):
        os.killpg(process, sign)


def _lives(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@contextmanager
def terminals(
    folder: Path, environment: Mapping[str, str], **homes: Path
) -> Iterator[list[Terminal]]:
    """Terminals of somebody in a folder, one for each home; all that they started is stopped at the
    end.
    """
    opened = [Terminal(folder, {**environment, "HOME": str(home)}) for home in homes.values()]
    try:
        yield opened
    finally:
        for terminal in opened:
            terminal.close()
