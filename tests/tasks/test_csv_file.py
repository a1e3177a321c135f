"""A spreadsheet that opens our tables finds text and numbers, never a formula."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest

from dpicl.ground.files import harmless, write_csv
from dpicl.report.blocks import escaped

FORMULAS = [
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3+cmd",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    " =1+1",
    "\n=1",
    "＝1",
    '=HYPERLINK("http://x","y")',
]
HONEST = ["adult", "", "1.5", "-1.5", "+2", "-inf", "1e-3", "a=b", "x@y", "'=1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_text_that_would_run_gets_an_apostrophe_in_the_markdown_report_too(text: str) -> None:
    assert harmless(text) == f"'{text}"
    assert escaped(text).startswith("'")


@pytest.mark.parametrize("cell", [*HONEST, 0, -1, -0.5, -math.inf, None, True])
def test_numbers_and_other_text_stay(cell: object) -> None:
    assert harmless(cell) is cell


def test_a_written_table_reads_back_with_every_formula_defused(tmp_path: Path) -> None:
    rows = [{"name": text, "value": -1.5} for text in (*FORMULAS, *HONEST)]
    write_csv(tmp_path / "t.csv", ("name", "value"), rows)
    with (tmp_path / "t.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [row["name"] for row in read] == [
        *(" ".join(f"'{text}".splitlines()) for text in FORMULAS),
        *HONEST,
    ]
    assert {row["value"] for row in read} == {"-1.5"}
