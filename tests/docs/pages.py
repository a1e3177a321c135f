"""What a page tells its reader to do: files to write, commands to type, and what these print."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


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
        """The first words that are shown and were not printed in their place; `…` stands for anything, blanks for blanks."""
        said, place = " ".join(output.split()), 0
        for piece in " ".join(self.shown.split()).split("…"):
            found = said.find(piece.strip(), place)
            if found < 0:
                return piece.strip()
            place = found + len(piece.strip())
        return None


def unnamed_blocks(text: str) -> int:
    """Blocks that do not say of what kind they are."""
    return sum(line.strip() == "```" for line in re.findall(r"^```.*$", text, re.MULTILINE)[::2])


def all_pages() -> list[str]:
    """Every page by its path below docs."""
    return sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def steps(page: str) -> list[File | Command]:
    """Files and commands of a page in their order."""
    return steps_of((DOCS / page).read_text("utf-8"))


def steps_of(text: str) -> list[File | Command]:
    """Files and commands of a page's text: blocks with `file=`, `console` and `sh`."""
    found: list[File | Command] = []
    for language, path, content in _BLOCK.findall(text):
        if path:
            found.append(File(path, content))
        elif language == "sh":
            joined = content.replace("\\\n", " ").splitlines()
            found += [Command(re.sub(r"\s+# .*", "", line.strip())) for line in joined if line.strip() and not line.startswith("#")]
        elif language == "console":
            found += _typed(content)
    return found


def _typed(content: str) -> list[Command]:
    """Lines after `$ ` are typed, the others printed; a line that ends in a backslash goes on."""
    joined = content.replace("\\\n", " ")
    typed = re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]
    return [Command(" ".join(line.split()), shown) for line, _, shown in (one.partition("\n") for one in typed)]
