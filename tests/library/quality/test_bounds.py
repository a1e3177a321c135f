"""Bounds that the rows do not lie between are asked about, from the released rows alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpicl
from dpicl.report.quality import quality_page

ROWS = 1500


def released(home: Path, values: Any, column: dict[str, Any], method: str) -> dpicl.Release:
    chance = np.random.default_rng(1)
    table = pd.DataFrame(
        {
            "spent": values,
            "member": chance.choice(["no", "yes"], ROWS),
            "age": chance.normal(45, 9, ROWS),
        }
    )
    schema = {
        "columns": {
            "spent": column,
            "member": {"type": "category", "categories": ["no", "yes"]},
            "age": {"type": "real", "bounds": [18, 100]},
        },
        "label": "member",
    }
    return dpicl.protect(
        table, schema, epsilon=8, account="shop", method=method, population=ROWS, home=home
    )


def amounts(centre: float) -> np.ndarray:
    return np.random.default_rng(0).normal(centre, 5, ROWS)


REAL, WHOLE = "real", "integer"
WRONG = [
    (amounts(30_000), {"type": REAL, "bounds": [0, 100]}, "at its upper bound, 100"),
    (amounts(30), {"type": REAL, "bounds": [500, 10_000]}, "at its lower bound, 500"),
    (amounts(-900), {"type": REAL, "bounds": [0, 100]}, "at its lower bound, 0"),
    (amounts(900).round(), {"type": WHOLE, "bounds": [0, 10]}, "at its upper bound, 10"),
]
RIGHT = [
    (amounts(50), {"type": REAL, "bounds": [0, 100]}),
    (np.arange(ROWS) % 2, {"type": WHOLE, "bounds": [0, 1]}),
    (np.arange(ROWS) % 50 == 0, {"type": WHOLE, "bounds": [0, 1]}),
    # most customers spend nothing
    (np.where(np.arange(ROWS) % 4, 0, amounts(50)), {"type": REAL, "bounds": [0, 100]}),
    (np.where(np.arange(ROWS) % 4, 0, 3), {"type": WHOLE, "bounds": [0, 12]}),
]


@pytest.mark.parametrize(("values", "column", "question"), WRONG)
def test_bounds_that_hold_no_row_are_asked_about_at_once(
    tmp_path: Path, values: Any, column: dict[str, Any], question: str
) -> None:
    sentence = f"shop: .*% of spent lie {question}: are the bounds right"
    with pytest.warns(UserWarning, match=sentence) as warned:
        release = released(tmp_path, values, column, "mst_tabicl")
    assert [Path(warning.filename).name for warning in warned] == ["test_bounds.py"]
    (asked,) = release.doubted_bounds
    assert asked in release.worth and asked in release.caveats
    assert asked in release._repr_html_()
    quality = release.quality(4)
    assert asked in str(quality) and "spent lie in one bin" not in str(quality)
    assert asked in quality_page(quality)


@pytest.mark.parametrize("method", ["aim_tabicl", "ldp_tabicl", "tab_pe"])
def test_every_method_that_releases_rows_asks(tmp_path: Path, method: str) -> None:
    with pytest.warns(UserWarning, match="are the bounds right"):
        released(tmp_path, *WRONG[0][:2], method)


@pytest.mark.parametrize(("values", "column"), RIGHT)
def test_bounds_that_hold_the_rows_are_not_asked_about(
    tmp_path: Path, values: Any, column: dict[str, Any], recwarn: pytest.WarningsRecorder
) -> None:
    release = released(tmp_path, np.asarray(values, float), column, "mst_tabicl")
    assert release.doubted_bounds == () and not recwarn.list


def test_averages_have_no_rows_to_ask_about(tmp_path: Path) -> None:
    assert released(tmp_path, *WRONG[0][:2], "gdp_tabicl").doubted_bounds == ()
