"""A private table that breaks its contract is refused with one sentence that quotes no value."""

from __future__ import annotations

import traceback
from pathlib import Path

import pyarrow as pa
import pytest

from dpicl.ground.errors import DpiclError
from dpicl.ground.types import PrivateTable
from dpicl.runs import prepare as rules
from dpicl.runs.plan import make_plan
from tasks.stages import ingest, split, validate
from tests.harness import SMALL, Place, content, install, new_place, shop, shop_rows

SECRET = "zq7secret"
GOOD = shop_rows(40)
LINES = GOOD.splitlines()


def with_value(column: str, value: str) -> bytes:
    """Good rows, one value replaced."""
    number = LINES[0].split(",").index(column)
    fields = LINES[5].split(",")
    fields[number] = value
    return "\n".join([*LINES[:5], ",".join(fields), *LINES[6:]]).encode()


BAD = {
    "a column too many": (
        "\n".join([f"{LINES[0]},extra", *(f"{line},{SECRET}" for line in LINES[1:])]).encode(),
        "is not in the contract",
    ),
    "text in place of a number": (with_value("spent", SECRET), "'spent'"),
    "an unknown category": (with_value("colour", SECRET), "'colour'"),
    "NaN": (with_value("spent", "nan"), "is not a finite number"),
    "UTF-16": (GOOD.encode("utf-16"), "UTF-8"),
    "an open quote": (f'{GOOD}1,"2,red,no,no\n'.encode(), "closed quotes"),
}
"""Further ones are in tests/library/tabular/test_read.py."""


def prepare(place: Place) -> str:
    """Plan, ingest, validate and split; gives the sentence of the refusal."""
    with place.entered():
        run = make_plan("demo", {**SMALL, "datasets": ["shop"]}, "r")
        with pytest.raises(DpiclError) as refused:
            for stage in (ingest, validate, split):
                stage.fn(str(run), "shop")
    return refused.value.details()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = new_place(tmp_path / "place")
    install(place, shop(), GOOD)
    return place


def check(place: Place, sentence: str, expected: str) -> None:
    assert expected in sentence
    assert "\n" not in sentence and SECRET not in sentence
    assert all(
        b"\0" not in data and SECRET.encode() not in data
        for data in content(place.run("r")).values()
    )


@pytest.mark.parametrize("name", BAD)
def test_a_bad_table_is_refused_with_one_sentence(place: Place, name: str) -> None:
    data, expected = BAD[name]
    (place.root / "data" / "shop.csv").write_bytes(data)
    check(place, prepare(place), expected)


def held_by(error: BaseException | None) -> list[object]:
    """What the frames hold that an error keeps alive, its own causes included."""
    held: list[object] = []
    while error is not None:
        held += [
            value
            for frame, _ in traceback.walk_tb(error.__traceback__)
            for value in frame.f_locals.values()
        ]
        error = error.__cause__ or error.__context__
    return held


def test_an_error_that_is_kept_keeps_no_rows(place: Place) -> None:
    """A run notes what refused it until it ends."""
    (place.root / "data" / "shop.csv").write_bytes(with_value("age", "4000"))
    with place.entered():
        run = make_plan("demo", {**SMALL, "datasets": ["shop"]}, "r")
        ingest.fn(str(run), "shop")
        with pytest.raises(DpiclError, match="in_bounds") as refused:
            rules.validate(str(run), "shop")
    held = held_by(refused.value)
    assert len(held) > 10 and not [one for one in held if isinstance(one, pa.Table | PrivateTable)]


def test_a_link_out_of_the_data_folder_is_refused(place: Place, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.csv").write_text(GOOD)
    (place.root / "data" / "shop.csv").unlink()
    (place.root / "data" / "shop.csv").symlink_to(tmp_path / "elsewhere.csv")
    with place.entered(), pytest.raises(DpiclError, match="leads out of the data folder"):
        make_plan("demo", {**SMALL, "datasets": ["shop"]}, "r")
    assert not place.run("r").exists()
