"""What a page tells its reader to do: files to write, commands to type, and what these print.

How pages are tested: lines after `$ ` in a `console` block and lines of an `sh` block are commands,
and a block with `file=PATH` is a file. Each page is followed from beginning to end, and the output
compared; `…` matches any text, white space any white space. A `python` block without a file is a
cell of a notebook, and a `text` block below it what it displays; in `text noise` values are drawn
anew, so the first word and the number of words of each line are compared.

Commands that are not run are listed with reasons in test_pages.py; README is followed by
test_readme.py; commands of CONTRIBUTING and docs/methods.md are run by the tests that looked_up.py
lists; those that keep running or need
several hosts by test_typed.py. docs/reference is written by `make reference`, and test_reference.py
compares it with the code. `make docs` refuses a dead link, a missing heading and a page outside the
site's menu.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.docs.cells import Cell, missing

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_BLOCK = re.compile(
    r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$(?:\s+^```text( noise)?\n(.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
"""A block; right below one of Python, what it displays."""


@dataclass(frozen=True)
class File:
    """A file as it should stand."""

    path: str
    text: str


@dataclass(frozen=True)
class Command:
    """A line to type, and what the page shows of its output: nothing where it shows none."""

    line: str
    shown: str = ""

    @property
    def is_refused(self) -> bool:
        """Whether the page shows the one sentence of a mistake."""
        return self.shown.startswith("dpicl: ")

    def missing(self, output: str) -> str | None:
        """See `cells.missing`."""
        return missing(self.shown, output)


def unnamed_blocks(text: str) -> int:
    """Blocks that do not say of what kind they are."""
    return sum(line.strip() == "```" for line in re.findall(r"^```.*$", text, re.MULTILINE)[::2])


def all_pages() -> list[str]:
    """Every page by its path below docs."""
    return sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def steps(page: str) -> list[File | Command | Cell]:
    """Files, commands and cells of a page in their order."""
    return steps_of((DOCS / page).read_text("utf-8"))


def steps_of(text: str) -> list[File | Command | Cell]:
    """Steps of a page's text: blocks with `file=`, `console`, `sh`, and `python` with what it
    displays.
    """
    found: list[File | Command | Cell] = []
    for language, path, content, noise, shown in _BLOCK.findall(text):
        if path:
            found.append(File(path, content))
        elif language == "sh":
            joined = content.replace("\\\n", " ").splitlines()
            found += [
                Command(re.sub(r"\s+# .*", "", line.strip()))
                for line in joined
                if line.strip() and not line.startswith("#")
            ]
        elif language == "console":
            found += _typed(content)
        elif language == "python":
            found.append(Cell(content, shown, bool(noise)))
    return found


def _typed(content: str) -> list[Command]:
    """Lines after `$ ` are typed, the others printed; a line that ends in a backslash goes on."""
    joined = content.replace("\\\n", " ")
    typed = re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]
    return [
        Command(" ".join(line.split()), shown)
        for line, _, shown in (one.partition("\n") for one in typed)
    ]
