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
    # of another test's garbage there are warnings too
    ours = [one.filename for one in warned if one.category is not ResourceWarning]
    assert [Path(file).name for file in ours] == ["test_bounds.py"]
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
    assert release.doubted_bounds == ()
    assert not [one for one in recwarn if one.category is not ResourceWarning]


def test_averages_have_no_rows_to_ask_about(tmp_path: Path) -> None:
    assert released(tmp_path, *WRONG[0][:2], "gdp_tabicl").doubted_bounds == ()


def money(centre: float) -> np.ndarray:
    return np.exp(np.random.default_rng(0).normal(np.log(centre), 1.0, ROWS))


@pytest.mark.parametrize(
    ("values", "bounds", "place"),
    [
        (money(700), [0, 10_000_000], r"the first 0\.[0-9]% of its bounds, 0 to "),
        (-money(700), [-10_000_000, 0], r"the last 0\.[0-9]% of its bounds, .* to 0"),
    ],
)
def test_money_far_below_its_bound_is_asked_about_though_several_bins_hold_it(
    tmp_path: Path, values: Any, bounds: list[float], place: str
) -> None:
    """Bins are chosen where most values lie, so that none of them alone has nearly all."""
    sentence = f"spent lie in {place}.*what noise puts beyond moves their mean: are the bounds rig"
    with pytest.warns(UserWarning, match=sentence):
        release = released(tmp_path, values, {"type": REAL, "bounds": bounds}, "aim_tabicl")
    (asked,) = release.doubted_bounds
    assert asked in release.caveats and asked in str(release.quality(4))


@pytest.mark.parametrize(
    "column",
    [
        {"type": REAL, "bounds": [0, 10_000_000], "bins": [100, 1000, 10_000, 100_000]},
        {"type": REAL, "bounds": [0, 20_000]},
    ],
)
def test_of_stated_bins_and_of_money_up_to_its_bound_nothing_is_asked(
    tmp_path: Path, column: dict[str, Any], recwarn: pytest.WarningsRecorder
) -> None:
    release = released(tmp_path, money(700).clip(0, 20_000), column, "aim_tabicl")
    assert release.doubted_bounds == ()
    assert not [one for one in recwarn if one.category is not ResourceWarning]


def test_a_release_says_what_bins_its_label_has(tmp_path: Path) -> None:
    table = pd.DataFrame({"age": np.arange(ROWS) % 80 + 18, "spent": money(700)})
    columns = {
        "age": {"type": WHOLE, "bounds": [18, 100]},
        "spent": {"type": REAL, "bounds": [0, 20_000]},
    }
    release = dpicl.protect(
        table,
        {"columns": columns, "label": "spent"},
        epsilon=8,
        account="label",
        population=ROWS,
        home=tmp_path,
    )
    (said,) = [caveat for caveat in release.caveats if "eight equal bins" in caveat]
    assert said.startswith("columns.spent: bounds from 0 to 20000 make eight equal bins")
