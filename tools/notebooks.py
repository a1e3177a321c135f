"""Pages of docs as notebooks, `make notebooks`: the cells that tests run, with what the pages show
below them.

    python -m tools.notebooks build/notebooks
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbformat import v4

from tools.words import ROOT

PAGES = ("notebook.md", "how-to/data-frames.md")
"""Pages that are cells of Python from the first block to the last."""
_BLOCK = re.compile(
    r"^```(python|console)\n(.*?)^```$(?:\s+^```text(?: noise)?\n(.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
_ENDS = re.compile(r"^\w+Error: |^(?:from|import) langchain_core\b", re.MULTILINE)
"""Of a cell that is refused, or needs a package of its own: the cells below it are run all the
same.
"""
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)")


def notebook(page: str, folder: Path) -> Any:
    """A page as a notebook that is written into this folder, from where its links lead to the
    pages.
    """
    path = ROOT / "docs" / page

    def moved(link: re.Match[str]) -> str:
        return f"]({os.path.relpath(path.parent / link[1], folder)}"

    cells: list[Any] = []
    # between blocks: what is before one, its kind, its content and what is shown
    before, *blocks = _BLOCK.split(path.read_text("utf-8"))
    texts = [before, *blocks[3::4]]
    for text, kind, content, shown in zip(
        texts, blocks[::4], blocks[1::4], blocks[2::4], strict=False
    ):
        cells.append(v4.new_markdown_cell(_LINK.sub(moved, text.strip())))
        if kind == "console":
            commands, shown = _typed(content)
            content = "\n".join(f"!{command}" for command in commands)
        outputs = [v4.new_output("stream", name="stdout", text=shown)] if shown else []
        tags = {"tags": ["raises-exception"]} if _ENDS.search(f"{content}{shown or ''}") else {}
        cells.append(v4.new_code_cell(content.rstrip("\n"), outputs=outputs, metadata=tags))
    cells.append(v4.new_markdown_cell(_LINK.sub(moved, texts[-1].strip())))
    cells = [cell for cell in cells if cell.source]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    python = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return v4.new_notebook(
        cells=cells, metadata={"kernelspec": python, "language_info": {"name": "python"}}
    )


def _typed(content: str) -> tuple[list[str], str]:
    """What is typed after `$ `, and what is printed."""
    lines = content.replace("\\\n", " ").splitlines(keepends=True)
    typed = [line[2:].strip() for line in lines if line.startswith("$ ")]
    return typed, "".join(line for line in lines if not line.startswith("$ "))


def main() -> None:
    """Write all of them."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for page in PAGES:
        made = notebook(page, folder)
        nbformat.validate(made)
        path = (folder / Path(page).name).with_suffix(".ipynb")
        nbformat.write(made, path)
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
