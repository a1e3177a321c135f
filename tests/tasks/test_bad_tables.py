"""A private table that breaks its contract: what refuses it keeps no rows; no link leads elsewhere.

That it is refused in one sentence without a value is in tests/lab/test_hostile.py and
tests/library/tabular/test_read.py.
"""

from __future__ import annotations

import traceback
from pathlib import Path

import pyarrow as pa
import pytest

from dpicl.ground.errors import DpiclError
from dpicl.ground.types import PrivateTable
from dpicl.runs import prepare as rules
from dpicl.runs.plan import make_plan
from tasks.stages import ingest
from tests.harness import Place, grid_of, install, shop, shop_rows


def held_by(error: BaseException | None) -> list[object]:
    """What the frames hold that an error keeps alive, its own causes included."""
    held: list[object] = []
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            held += frame.f_locals.values()
        error = error.__cause__ or error.__context__
    return held


def test_an_error_that_is_kept_keeps_no_rows(place: Place) -> None:
    """A run notes what refused it until it ends."""
    install(place, shop(private=True), f"{shop_rows(40)}4000,1.5,red,no,no\n")
    run = str(make_plan("private", grid_of("shop"), "r"))
    ingest.fn(run, "shop")
    with pytest.raises(DpiclError, match="in_bounds") as refused:
        rules.validate(run, "shop")
    held = held_by(refused.value)
    assert len(held) > 10 and not [one for one in held if isinstance(one, pa.Table | PrivateTable)]


def test_a_link_out_of_the_data_folder_is_refused(place: Place, tmp_path: Path) -> None:
    install(place, shop(private=True))
    inside = place.root / "data" / "shop.csv"
    inside.rename(tmp_path / "elsewhere.csv")
    inside.symlink_to(tmp_path / "elsewhere.csv")
    with pytest.raises(DpiclError, match="leads out of the data folder"):
        make_plan("private", grid_of("shop"), "r")
    assert not place.run("r").exists()
