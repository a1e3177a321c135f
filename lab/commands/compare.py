"""`dpicl compare`: two runs cell by cell, in a terminal, for programs, or as a page."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpicl.cli import options
from dpicl.cli.options import AsJson
from dpicl.cli.terminal import console, errors, new_table, note, say, say_json
from dpicl.ground.errors import DpiclError
from dpicl.home.settings import Settings

if TYPE_CHECKING:
    from dpicl.report.blocks import TableBlock, TableCell
    from lab.compare import Comparison
    from lab.compare.json_output import ComparedRuns


def compare(
    first: Annotated[
        str, typer.Argument(metavar="RUN", help="Name of a run.", autocompletion=options.runs)
    ],
    second: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="Name of the run to compare with it.", autocompletion=options.runs
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="A new file for the comparison as a page, .html or .md.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two runs: which is better, where, and by how much. No private row is read, and
    nothing is charged.
    """
    from dpicl.runs.run_folder import run_folder
    from lab.compare import compare, side_of
    from lab.compare.page import decision

    if first == second:
        raise DpiclError(f"run {first} is named twice; expected two runs")
    if out is not None:
        _check_page(out)
    settings = Settings.from_environment()
    compared = compare(*(side_of(run_folder(settings, name)) for name in (first, second)))
    if out is not None:
        _write(compared, out)
    if as_json:
        say_json(_for_programs(compared))
    elif out is None:
        _print(compared)
    else:
        say(decision(compared))
    if out is not None:
        note(f"page: {out}", to=errors if as_json else console)


def _check_page(out: Path) -> None:
    """Refuse a file that cannot be the page, before the runs are read."""
    if out.suffix not in (".html", ".md"):
        raise DpiclError(f"out={out.name}: expected a name that ends in .html or .md")
    if os.path.lexists(out):
        raise DpiclError(f"out={out.name}: expected a new file")
    if not out.parent.is_dir():
        raise DpiclError(
            f"out={out}: expected a file in a folder that is there; {out.parent} is none"
        )


def _write(compared: Comparison, out: Path) -> None:
    from dpicl.ground.files import write_text
    from dpicl.report.blocks import to_html, to_markdown
    from lab.compare.page import page_of

    text = (to_html if out.suffix == ".html" else to_markdown)(page_of(compared))
    write_text(out, text)


def _print(compared: Comparison) -> None:
    from dpicl.report.blocks import Banner, Bullets, Paragraph, TableBlock
    from lab.compare.page import page_of

    page = page_of(compared)
    for block in (*page.opening, *(block for section in page.sections for block in section.blocks)):
        match block:
            case Banner(lead, text):
                say(f"{lead} {text}")
            case Paragraph(text):
                say(text)
            case Bullets(items):
                note(*items)
            case TableBlock():
                say("")
                console.print(_table(block))
                say("")


def _table(table: TableBlock) -> Any:
    """For a terminal: numbers to the right."""
    shown = new_table(*map(_text, table.head))
    for column, head in zip(shown.columns, table.head, strict=True):
        column.justify = "left" if head.mark in ("text", "prose") else "right"
    for row in table.rows:
        shown.add_row(*map(_text, row))
    return shown


def _text(cell: TableCell) -> str:
    return f"{cell.text} {cell.note}".strip()


def _for_programs(compared: Comparison) -> ComparedRuns:
    from lab.compare.differing import differing
    from lab.compare.json_output import ComparedCell, ComparedRuns, ComparedTest, DifferingFact
    from lab.compare.page import MARKS, notes

    cells = []
    for pair in compared.pairs:
        named = {key: value for key, value in asdict(pair).items() if key != "gain"}
        marked = MARKS[pair.gain.sign][1] or None
        cells.append(
            ComparedCell(**named, difference=pair.gain.mean, half=pair.gain.half, marked=marked)
        )
    return ComparedRuns(
        runs=(compared.first.name, compared.second.name),
        better=compared.count(1),
        worse=compared.count(-1),
        same=compared.same,
        cells=cells,
        tests=[ComparedTest(**asdict(test)) for test in compared.tests],
        differing=[DifferingFact(*row) for row in differing(compared.first, compared.second)],
        notes=list(notes(compared)),
    )
