"""CSV that a spreadsheet opens as text and numbers, never as formulas."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dpicl.engine.files import publish

_FORMULA_STARTS = frozenset("=+-@\t\r\n＝＋－＠")


def harmless(cell: Any) -> Any:
    """The cell; text that a spreadsheet would run gets an apostrophe before it, numbers stay numbers."""
    if not isinstance(cell, str) or not {cell[:1], cell.lstrip()[:1]} & _FORMULA_STARTS:
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def write_csv(path: Path, columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """A table with a header line; replaces what was there, whole or not at all."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        cells = {name: harmless(cell) for name, cell in row.items()}
        # on one line: the csv module leaves a carriage return unquoted, and a reader takes it for the end of the row
        writer.writerow({name: " ".join(cell.splitlines()) if isinstance(cell, str) else cell for name, cell in cells.items()})
    publish(path, lambda file: file.write(text.getvalue().encode()), replace=True)
