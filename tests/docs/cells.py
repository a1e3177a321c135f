"""Cells of a notebook in a page: `python` blocks without a file, each with the `text` block that
shows what it displays.
"""

from __future__ import annotations

import ast
import io
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

NOT_INSTALLED = ("langchain_core",)
"""Packages that pages use and dpicl does not need: their cells are run where they are installed,
and otherwise only compiled.
"""


@dataclass(frozen=True)
class Cell:
    """Lines of Python that are run together, and what the page shows below them.

    Attributes:
        is_noise: words and numbers are others in every installation: the shape is compared, see
            `alike`.
    """

    code: str
    shown: str = ""
    is_noise: bool = False

    def run(self, names: dict[str, Any]) -> str:
        """What a notebook displays: what is printed, the value of the last line, or the name and
        words of an error that the page shows.
        """
        tree, out = ast.parse(self.code), io.StringIO()
        imported = {
            name
            for name in NOT_INSTALLED
            if re.search(rf"^(?:from|import) {name}\b", self.code, re.MULTILINE)
        }
        if any(find_spec(name) is None for name in imported):
            return self.shown
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        with redirect_stdout(out), redirect_stderr(out):
            try:
                exec(compile(tree, "cell", "exec"), names)
                value = (
                    None
                    if last is None
                    else eval(compile(ast.Expression(last.value), "cell", "eval"), names)
                )  # type: ignore[attr-defined]
                if value is not None:
                    print(repr(value))
            except Exception as error:
                if f"{type(error).__name__}: " not in self.shown:
                    raise
                print(f"{type(error).__name__}: {error}")
        return out.getvalue()

    def missing(self, output: str) -> str | None:
        """What is shown and was not displayed; None if all was."""
        if self.is_noise:
            return None if alike(self.shown, output) else self.shown
        return missing(self.shown, output)


def missing(shown: str, output: str) -> str | None:
    """The first words that are shown and were not printed in their place; `…` stands for anything,
    blanks for blanks.
    """
    said, place = " ".join(output.split()), 0
    for piece in " ".join(shown.split()).split("…"):
        found = said.find(piece.strip(), place)
        if found < 0:
            return piece.strip()
        place = found + len(piece.strip())
    return None


def alike(shown: str, output: str) -> bool:
    """Whether two outputs have as many lines, each with the same first word and as many words.

    A line that is shown with `…` may be there or not: one of its first three words. Below a last
    line of `…` alone there may be more.
    """
    one, other = ([line.split() for line in text.strip().splitlines()] for text in (shown, output))
    goes_on = one[-1:] == [["…"]]
    loose = [line[:3] for line in one if "…" in line]
    one, other = ([line for line in lines if line[:3] not in loose] for lines in (one, other))
    other = other[: len(one)] if goes_on else other
    return [(line[0], len(line)) for line in one] == [(line[0], len(line)) for line in other]
