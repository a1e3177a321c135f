"""Files that appear whole or not at all, and once.

A writer that is killed leaves only a temporary file; of two that race, the first to finish
wins and the other reads the winner's file.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dpicl.files.durable import write_whole

PUBLIC_MODE, PRIVATE_MODE = 0o644, 0o600
_FORMULA_STARTS = frozenset("=+-@\t\r\n＝＋－＠")


def publish(
    path: Path,
    write: Callable[[BinaryIO], object],
    *,
    mode: int = PUBLIC_MODE,
    replace: bool = False,
) -> Path:
    """Write `path` through a temporary file in its folder, which is made for the owner alone if the
    file is, and so are those above; an existing file stays unless `replace`. An OSError leaves
    nothing behind.
    """
    if not path.parent.exists():
        # `parents=True` makes these for everybody
        for folder in reversed((path.parent, *path.parent.parents)):
            folder.mkdir(mode=0o700 if mode == PRIVATE_MODE else 0o777, exist_ok=True)
    write_whole(path, write, mode=mode, replace=replace)
    return path


def write_text(path: Path, text: str, *, mode: int = PUBLIC_MODE, replace: bool = False) -> Path:
    """The same of text, in UTF-8."""
    return publish(path, lambda file: file.write(text.encode()), mode=mode, replace=replace)


def write_json(path: Path, content: Any, *, mode: int = PUBLIC_MODE, replace: bool = False) -> Path:
    """Readable JSON; infinity is not JSON and is refused."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    return write_text(path, text, mode=mode, replace=replace)


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    return json.loads(path.read_text("utf-8"))


def write_arrays(path: Path, arrays: dict[str, np.ndarray], *, mode: int = PUBLIC_MODE) -> Path:
    """Named arrays in one file, without pickle."""
    return publish(path, lambda file: np.savez(file, **arrays), mode=mode)  # type: ignore[arg-type]


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Named arrays of one file; refuses pickled content."""
    with np.load(path, allow_pickle=False) as content:
        return {name: content[name] for name in content.files}


def finite(value: float) -> float | str:
    """JSON has no infinity."""
    return "inf" if np.isinf(value) else value


def harmless(cell: Any) -> Any:
    """The cell of a CSV file; text that a spreadsheet would run as a formula gets an apostrophe
    before it, numbers stay numbers.
    """
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
        # on one line: the csv module leaves a carriage return unquoted, and a reader takes it for
        # the end of the row
        writer.writerow(
            {
                name: " ".join(cell.splitlines()) if isinstance(cell, str) else cell
                for name, cell in cells.items()
            }
        )
    write_text(path, text.getvalue(), replace=True)
