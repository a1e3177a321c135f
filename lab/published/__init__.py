"""Every number that the papers print: the tables that reports show are dpicl's, the others here.

Every CSV is one table of a paper, one row per cell; accuracies are fractions, deviations are over
five runs. What a paper got wrong is quoted as printed, see `dpicl.methods.published`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from dpicl.methods import published


def read_table(name: str) -> Iterator[dict[str, str]]:
    """The rows of one table, `table-IV` for example, as text by column."""
    own = Path(__file__).with_name(f"{name}.csv")
    return (
        csv.DictReader(own.read_text("utf-8").splitlines())
        if own.exists()
        else published.read_table(name)
    )
