"""The packaged tables: one CSV file per table of a paper, one row per cell."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from importlib import resources


def read_table(name: str) -> Iterator[dict[str, str]]:
    """The rows of one packaged file, `table-V` for example, as text by column."""
    text = resources.files("dpicl.methods.published").joinpath(f"{name}.csv").read_text(encoding="utf-8")
    return csv.DictReader(text.splitlines())
