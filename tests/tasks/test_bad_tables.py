"""A private table that breaks its contract is refused with one sentence that quotes no value."""

from __future__ import annotations

import gzip
import traceback
from collections.abc import Callable
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


def with_header(change: Callable[[str], str]) -> bytes:
    return "\n".join([change(LINES[0]), *LINES[1:]]).encode()


def without(column: str) -> bytes:
    number = LINES[0].split(",").index(column)
    return "\n".join(
        ",".join(f for i, f in enumerate(line.split(",")) if i != number) for line in LINES
    ).encode()


BAD: dict[str, tuple[bytes, str]] = {
    "a column is missing": (without("age"), "'age'"),
    "a column too many": (
        "\n".join([f"{LINES[0]},extra", *(f"{line},{SECRET}" for line in LINES[1:])]).encode(),
        "is not in the contract",
    ),
    "a name stands twice": (with_header(lambda head: head.replace("spent", "age")), "column"),
    "no header": ("\n".join(LINES[1:]).encode(), "column"),
    "text in place of a number": (with_value("spent", SECRET), "'spent'"),
    "a fraction in place of a whole number": (with_value("age", "40.5"), "whole number (1 value)"),
    "a date in place of a number": (with_value("age", "2024-01-01"), "'age'"),
    "NaN": (with_value("spent", "nan"), "finite number (1 value)"),
    "infinity": (with_value("spent", "inf"), "finite number (1 value)"),
    "minus infinity": (with_value("spent", "-inf"), "finite number (1 value)"),
    "beyond the doubles": (with_value("spent", "1e999"), "finite number (1 value)"),
    "two to the 63": (with_value("age", str(2**63)), "64 bits (1 value)"),
    "an empty value": (with_value("colour", ""), "`nullable: true` (1 value)"),
    "an unknown category": (with_value("colour", SECRET), "'colour'"),
    "a category in other case": (with_value("colour", "RED"), "categories (1 value)"),
    "a category with a blank": (with_value("colour", " red"), "categories (1 value)"),
    "0 bytes": (b"", "empty"),
    "not UTF-8": (with_value("colour", "ré").decode().encode("latin-1"), "UTF-8"),
    "UTF-16": (GOOD.encode("utf-16"), "UTF-8"),
    "ragged rows": (f"{GOOD}1,2\n".encode(), "ragged"),
    "an open quote": (f'{GOOD}1,"2,red,no,no\n'.encode(), "closed quotes"),
    "binary": (bytes(range(256)) * 20, "UTF-8"),
}


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


@pytest.mark.parametrize("cut", [0, 5, 200, -1])
def test_a_truncated_gzip_file_is_refused(place: Place, cut: int) -> None:
    contract = shop()
    contract["source"]["file"] = "shop.csv.gz"
    install(place, contract, GOOD)
    (place.root / "data" / "shop.csv.gz").write_bytes(gzip.compress(GOOD.encode())[:cut])
    check(place, prepare(place), "shop.csv.gz")


@pytest.mark.quick("age--9223372036854775808")
@pytest.mark.parametrize(
    ("column", "value"),
    [("spent", "-0"), ("spent", "-0.0"), ("age", "-0"), ("spent", "1e3"), ("age", str(-(2**63)))],
)
def test_odd_but_honest_numbers_are_let_through(place: Place, column: str, value: str) -> None:
    """Numbers out of bounds are counted by a check and clipped by the mechanisms."""
    (place.root / "data" / "shop.csv").write_bytes(with_value(column, value))
    contract = shop(checks=[])
    install(place, contract, with_value(column, value).decode())
    with place.entered():
        run = make_plan("demo", {**SMALL, "datasets": ["shop"]}, "r")
        for stage in (ingest, validate, split):
            stage.fn(str(run), "shop")


def test_rows_that_changed_since_the_contract_pinned_them_are_refused(place: Place) -> None:
    contract = shop()
    contract["source"]["content_sha256"] = "0" * 64
    install(place, contract, GOOD)
    assert "content_sha256" in prepare(place)


def test_a_link_out_of_the_data_folder_is_refused(place: Place, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.csv").write_text(GOOD)
    (place.root / "data" / "shop.csv").unlink()
    (place.root / "data" / "shop.csv").symlink_to(tmp_path / "elsewhere.csv")
    with place.entered(), pytest.raises(DpiclError, match="leads out of the data folder"):
        make_plan("demo", {**SMALL, "datasets": ["shop"]}, "r")
    assert not place.run("r").exists()
