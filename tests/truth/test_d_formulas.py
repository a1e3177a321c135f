"""D, F8: a released CSV file holds every value as it is, and one line says where a spreadsheet
would take one for a formula.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dpicl.contract import Contract, models, parse_contract
from tests.harness import Place, install, new_place, said, shop, shop_rows

Capture = pytest.CaptureFixture[str]
FORMULAS = (
    "=1+1",
    "=HYPERLINK(A1)",
    "+1-1@SUM(A1)",
    "-2+3",
    "@SUM(A1)",
    "＝1",
    "＋x",
    "－x",
    "＠x",
    "=cmd|' /C calc'!A0",
    "+red",
    "-red",
    "@red",
)
PLAIN = (
    "red",
    "a=b",
    "1-2",
    "-1",
    "+1.5",
    "x@y.org",
    "'=1",
    "-1e3",
    "north-west",
    "100%",
    "#1",
    "(a)",
)


def contract_with(text: str) -> Contract:
    content = {**shop(private=True), "version": 2}
    content["columns"]["colour"]["categories"] = list(dict.fromkeys([text, "red", "green", "blue"]))
    content["columns"]["colour"].pop("texts", None)
    for part in ("groups", "local", "prompts"):
        content.pop(part, None)
    contract = parse_contract(content, "shop.yaml")
    assert isinstance(contract, Contract)
    return contract


@pytest.mark.parametrize("text", FORMULAS)
def test_a_category_that_a_spreadsheet_would_run_is_told_by_its_column(text: str) -> None:
    assert (
        contract_with(text).formula_warning
        == "; a spreadsheet would take texts of colour for formulas: import them as text"
    )


@pytest.mark.parametrize("text", PLAIN)
def test_of_others_nothing_is_said(text: str) -> None:
    assert contract_with(text).formula_warning == ""


def test_the_file_is_faithful_and_the_line_is_printed_once(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = new_place(tmp_path / "place")
    with place.entered():
        check_file(place, capsys, monkeypatch)


def check_file(place: Place, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    content: dict[str, Any] = contract_with("=1+1").model_dump(mode="json", exclude_unset=True)
    table = install(place, content, shop_rows(60).replace(",red,", ",=1+1,"))
    told = said(
        capsys,
        "synth",
        table,
        "--epsilon",
        "20",
        "--rows",
        "200",
        "--out",
        str(place.root / "a.csv"),
    )
    assert told.count("a spreadsheet would take texts of colour for formulas") == 1
    with (place.root / "a.csv").open(newline="") as file:
        assert (
            "=1+1"
            in {row["colour"] for row in csv.DictReader(file)}
            <= {"=1+1", "red", "green", "blue"}
        )
    assert (
        "=1+1"
        in set(pd.read_csv(place.root / "a.csv")["colour"])
        <= {"=1+1", "red", "green", "blue"}
    )
    as_parquet = said(
        capsys,
        "synth",
        table,
        "--epsilon",
        "20",
        "--rows",
        "200",
        "--out",
        str(place.root / "a.parquet"),
    )
    assert "spreadsheet" not in as_parquet
    monkeypatch.setattr(models, "harmless", lambda text: text)  # the mutant: nothing is a formula
    silent = said(
        capsys,
        "synth",
        table,
        "--epsilon",
        "20",
        "--rows",
        "200",
        "--out",
        str(place.root / "b.csv"),
    )
    assert (
        "spreadsheet" not in silent
        and (place.root / "b.csv").read_bytes() == (place.root / "a.csv").read_bytes()
    )
