"""B4: a word that stands for a missing value is no value, and which word it is can differ from
column to column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from dpicl.contract import Contract, parse_contract, rules
from dpicl.contract.load import contract_digest
from dpicl.data.reading.parse import typed_table
from dpicl.ground.errors import DeclarationError
from tests.harness import Place, call_main, complaint, install, said

Column = Mapping[str, Any]
NO_YES: Column = {"type": "category", "categories": ["no", "yes"]}
CITY: Column = {"type": "category", "categories": ["NA", "DE", "n/a"]}


def declared(x: Column, *, missing: str | None = None, **more: Any) -> Contract:
    content = {
        "name": "shop",
        "source": {"file": "shop.csv", **({} if missing is None else {"missing": missing})},
        "privacy": {"budget": {"epsilon": 5}},
        "columns": {
            "x": x,
            "z": {"type": "integer", "bounds": [0, 9], "nullable": True},
            "y": NO_YES,
        },
        "label": "y",
        **more,
    }
    contract = parse_contract(content, "shop.yaml")
    assert isinstance(contract, Contract)
    return contract


def read(
    contract: Contract, x: Sequence[Any], z: Sequence[Any] | None = None
) -> list[tuple[Any, Any]]:
    """Columns x and z of the rows that are read."""
    rows = pa.table({"x": pa.array(x), "z": pa.array(z or ["1"] * len(x)), "y": ["no"] * len(x)})
    table = typed_table(rows, contract, "shop.csv")
    return list(zip(table.column("x").to_pylist(), table.column("z").to_pylist(), strict=True))


@pytest.mark.parametrize(
    "column",
    [
        {"type": "category", "categories": ["1", "2"], "nullable": True},
        {"type": "category", "categories": [1, 2], "nullable": True},
        {"type": "category", "categories": [0.5, 1], "nullable": True},
        {"type": "date", "bounds": ["2020-01-01", "2021-01-01"], "nullable": True},
        {"type": "datetime", "bounds": ["2020-01-01", "2021-01-01"], "nullable": True},
        {"type": "integer", "bounds": [0, 9], "nullable": True},
    ],
    ids=lambda column: str(list(column.values())[:2]),
)
@pytest.mark.parametrize("written", ["-9", "-9.0", "-9.00"])
def test_a_number_for_missing_is_it_in_any_way_of_writing_it(column: Column, written: str) -> None:
    contract = declared({**column, "missing": [-9]})
    assert read(contract, [written]) == read(contract, [""])


CONTRADICTIONS: dict[str, tuple[Column, str | None]] = {
    "a category": (CITY, "n/a"),
    "a country": (CITY, "NA"),
    "a column's own word": ({**CITY, "missing": ["DE"]}, None),
    "one of several": ({**CITY, "missing": ["", "?", "NA"][1:]}, None),
    "a nullable column": ({**CITY, "nullable": True}, "NA"),
    "a number within bounds": ({"type": "integer", "bounds": [0, 120]}, "99"),
    "a number written otherwise": ({"type": "integer", "bounds": [0, 120]}, "99.0"),
    "a bound": ({"type": "real", "bounds": [-9, 9]}, "-9"),
    "a number's own word": ({"type": "real", "bounds": [0, 9], "missing": ["1e0"]}, None),
    "a number without quotes": ({"type": "integer", "bounds": [0, 9], "missing": [7]}, None),
    "a day": ({"type": "date", "bounds": ["1900-01-01", "2030-01-01"]}, "1900-01-01"),
    "a time": (
        {
            "type": "datetime",
            "bounds": ["1900-01-01", "2030-01-01"],
            "missing": ["1999-12-31T00:00:00"],
        },
        None,
    ),
    "a boolean": ({"type": "boolean"}, "0"),
    "a whole number as a category": ({"type": "category", "categories": [0, 1, 9]}, "9"),
    "a real number as a category": ({"type": "category", "categories": [0.5, 9.0]}, "9"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_word_that_is_a_value_too_is_refused(name: str) -> None:
    column, missing = CONTRADICTIONS[name]
    with pytest.raises(
        DeclarationError,
        match=r"^shop.yaml: columns\.x\.(categories|bounds): has .* stands for a missing one; "
        r"expected ",
    ):
        declared(column, missing=missing)


CONSISTENT: dict[str, tuple[Column, str | None]] = {
    "another word": (CITY, "?"),
    "a column without one": ({**CITY, "missing": []}, "n/a"),
    "a column with another": ({**CITY, "missing": ["?"]}, "NA"),
    "a number out of bounds": ({"type": "integer", "bounds": [0, 98]}, "99"),
    "a word beside numbers": ({"type": "real", "bounds": [0, 9]}, "NA"),
    "a day out of bounds": ({"type": "date", "bounds": ["1950-01-01", "2030-01-01"]}, "1900-01-01"),
    "no date at all": ({"type": "date", "bounds": ["1950-01-01", "2030-01-01"]}, "0000-00-00"),
    "another spelling of a category": (CITY, "na"),
}


@pytest.mark.parametrize("name", CONSISTENT)
def test_a_word_that_is_none_is_not(name: str) -> None:
    column, missing = CONSISTENT[name]
    if column is CITY and missing == "?":
        assert read(declared(column, missing=missing), ["NA", "?", "n/a"]) == [
            ("NA", 1),
            ("n/a", 1),
        ]
    assert declared({**column, "nullable": True}, missing=missing).missing_words("x") == tuple(
        column.get("missing", [missing])
    )


def test_namibia_stays_where_numbers_miss_values() -> None:
    """One word of the table, none of a column that means something by it."""
    contract = declared({**CITY, "missing": []}, missing="NA")
    assert read(contract, ["NA", "DE", "NA"], ["NA", "3", "4"]) == [
        ("NA", None),
        ("DE", 3),
        ("NA", 4),
    ]


def test_a_column_has_several_words() -> None:
    contract = declared(
        {
            "type": "integer",
            "bounds": [0, 9],
            "nullable": True,
            "missing": ["NULL", "n/a", -9, "-9.0"],
        }
    )
    assert read(contract, ["NULL", "1", "n/a", "-9", "", "-9.0"]) == [
        (None, 1),
        (1, 1),
        *[(None, 1)] * 4,
    ]
    assert read(contract, pa.array([-9, 1, None])) == [(None, 1), (1, 1), (None, 1)]
    assert read(contract, pa.array([-9.0, 1.0, None])) == [(None, 1), (1, 1), (None, 1)]


def test_a_row_with_a_word_in_a_column_without_gaps_is_left_out() -> None:
    contract = declared({"type": "integer", "bounds": [0, 9], "missing": ["?", "-"]})
    assert read(contract, ["1", "?", "2", "-"]) == [(1, 1), (2, 1)]


def test_names_of_releases_change_only_where_the_key_is_used() -> None:
    number: Column = {"type": "integer", "bounds": [0, 9]}
    plain, own = (
        declared(number, missing="NA"),
        declared({**number, "missing": ["NA"]}, missing="NA"),
    )
    assert "missing" not in plain.model_dump()["columns"]["x"]
    assert contract_digest(plain) != contract_digest(own)


@pytest.mark.parametrize(
    ("word", "nullable", "told"),
    [(None, (), True), ("?", (), False), ("?", ("x",), False), ("?", ("x", "y", "z"), True)],
)
def test_the_number_of_rows_is_not_told_where_a_word_leaves_some_out(
    word: str | None, nullable: Sequence[str], told: bool
) -> None:
    """Of exchanged rows it is public, else: whether one of them holds the word would be seen."""
    number: Column = {"type": "integer", "bounds": [0, 9]}
    columns = {
        name: {**column, "nullable": name in nullable}
        for name, column in {"x": number, "y": NO_YES, "z": number}.items()
    }
    privacy = {"neighbours": "replace-one", "budget": {"epsilon": 5}}
    contract = declared(number, missing=word, privacy=privacy, columns=columns)
    assert contract.exchanges and contract.tells_row_count is told


def test_contract_check_refuses_and_says_how_to_mend_it(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    content = {
        "name": "trips",
        "source": {"file": "trips.csv", "missing": "NA"},
        "privacy": {"budget": {"epsilon": 2000}},
        "columns": {
            "country": dict(CITY),
            "nights": {"type": "integer", "bounds": [0, 9], "nullable": True},
            "y": dict(NO_YES),
        },
        "label": "y",
    }
    rows = pd.DataFrame(
        {
            "country": ["NA", "DE", "n/a"] * 100,
            "nights": ["1", "NA", "3"] * 100,
            "y": ["no", "yes", "no"] * 100,
        }
    )
    name = install(place, content, rows.to_csv(index=False))
    sentence = complaint(call_main(("contract", "check", name), capsys))
    assert (
        "columns.country.categories: has 'NA' among its values" in sentence
        and "`missing: [...]` in this column" in sentence
    )
    content["columns"]["country"]["missing"] = []
    install(place, content, rows.to_csv(index=False))
    said(capsys, "contract", "check", name)
    said(
        capsys,
        "synth",
        name,
        "--epsilon",
        "1000",
        "--rows",
        "600",
        "--out",
        str(place.root / "out.csv"),
    )
    released = pd.read_csv(place.root / "out.csv", keep_default_na=False)
    assert (released.country == "NA").mean() > 0.25 and (released.nights == "").mean() > 0.25


def test_mutant_a_contradiction_that_is_let_through_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rules, "_check_missing", lambda *_: ())
    contract = declared(CITY, missing="n/a")
    # a third of the rows gone, no word
    assert read(contract, ["NA", "DE", "n/a"]) == [
        ("NA", 1),
        ("DE", 1),
    ]


def test_mutant_one_word_for_the_whole_table_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Contract,
        "missing_words",
        lambda self, _: () if self.source.missing is None else (self.source.missing,),
    )
    with pytest.raises(DeclarationError):
        declared({**CITY, "missing": []}, missing="NA")
