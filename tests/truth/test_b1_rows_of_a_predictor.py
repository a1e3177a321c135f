"""B1: rows come to a predictor as they come to a release: each value is read by the contract,
however it is held or written.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dpicl
from dpicl.contract.columns import DateColumn, category
from dpicl.contract.columns.number import NumberColumn
from dpicl.data import values
from dpicl.data.reading.typed_columns import as_arrow
from dpicl.data.values import Meaning
from dpicl.ground.errors import DataError, DpiclError
from tests.truth.no_noise import Plain

Column = dict[str, Any]
INTEGER: Column = {"type": "integer", "bounds": [0, 9]}
TENTHS: Column = {
    "type": "real",
    "bounds": [0, 1],
    "bins": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9],
}
DATE: Column = {"type": "date", "bounds": ["2020-01-01", "2024-12-31"]}
TIME: Column = {"type": "datetime", "bounds": ["2020-01-01", "2024-12-31"]}
BOOLEAN: Column = {"type": "boolean"}


def gaps(column: Column, *words: Any) -> Column:
    return {**column, "nullable": True, **({"missing": list(words)} if words else {})}


def listed(*categories: Any) -> Column:
    return {"type": "category", "categories": list(categories)}


def objects(*values: Any) -> np.ndarray:
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


NARROW = np.array([0.1, 0.2, 0.3, 0.6, 0.7, 0.8, 0.9], "float32")
NARROW_BINS = np.searchsorted(np.arange(1, 10) / 10, NARROW.astype(float), side="right").tolist()
"""Of the very numbers: 0.7 of 32 bits is a little less than 0.7."""
MIDNIGHTS = pd.to_datetime(["2024-01-01", "2024-06-01"])
VALUES: dict[str, tuple[Column, Any, list[int]]] = {
    "a word": (gaps(INTEGER, "NA"), ["NA", "5", "7"], [10, 5, 7]),
    "a number as a word": (gaps(INTEGER, -9), [-9, 5, 7], [10, 5, 7]),
    "a number as a word, among gaps": (gaps(INTEGER, 99), [99.0, 5.0, np.nan], [10, 5, 10]),
    "a number as a word, as pandas writes it": (
        gaps(INTEGER, -9),
        ["-9.0", "5.0", ""],
        [10, 5, 10],
    ),
    "a real number as a word": (gaps(TENTHS, "-9.5"), ["-9.50", "0.15", "-9.5"], [10, 1, 10]),
    "several words": (gaps(TENTHS, "?", "-", -1), ["?", "-", "-1", "1e-1"], [10, 10, 10, 1]),
    "no text": (gaps(INTEGER), ["", "5", "7"], [10, 5, 7]),
    "a word among categories": (
        gaps(listed("a", "b"), "-", "n/a"),
        ["a", "-", "n/a", "b", ""],
        [0, 2, 2, 1, 2],
    ),
    "a code of a category": (gaps(listed(0, 1), 9), [0, 1, 9, None], [0, 1, 2, 2]),
    "a code of a category, as a float": (
        gaps(listed(0, 1), 9),
        ["0.0", "1.0", "9.0", ""],
        [0, 1, 2, 2],
    ),
    "words of a boolean": (
        gaps(BOOLEAN, "?", 2),
        ["True", "false", "?", "2", "2.0"],
        [1, 0, 2, 2, 2],
    ),
    "a day as a word": (gaps(DATE, "1900-01-01"), ["1900-01-01", "2020-02-02"], [8, 0]),
    "a day as a word, in a column of times": (
        gaps(DATE, "1900-01-01"),
        pd.to_datetime(["1900-01-01", "2024-12-31"]),
        [8, 7],
    ),
    "a time as a word": (gaps(TIME, "1900-01-01"), ["1900-01-01T00:00:00Z", "2020-02-02"], [8, 0]),
    "days without hyphens": (DATE, [20200229, 20241231], [0, 7]),
    "days of a week": (DATE, ["2020-W05-3", "2024-W50-1"], [0, 7]),
    "times for days": (DATE, ["2020-02-29T23:59", "2024-12-31 01:00:00.5+01:00"], [0, 7]),
    "objects for days": (
        DATE,
        objects(
            date(2020, 2, 29), datetime(2024, 12, 31, 5), "2024-12-30", pd.Timestamp("2020-03-01")
        ),
        [0, 7, 7, 0],
    ),
    "offsets": (TIME, ["2020-02-29T23:00+05:00", "2024-12-31T01:00Z"], [0, 7]),
    "fractions of a second": (TIME, ["2020-02-29 23:00:00.123456", "2024-12-31"], [0, 7]),
    "no day": (gaps(DATE), ["", "2024-12-31", None], [8, 7, 8]),
    "narrow floats": (TENTHS, NARROW, NARROW_BINS),
    "narrow floats that a row has made wide": (TENTHS, NARROW.astype(float), NARROW_BINS),
    "narrow floats of Arrow": (
        gaps(TENTHS),
        pd.array([*NARROW, None], "float[pyarrow]"),
        [*NARROW_BINS, 10],
    ),
    "narrow floats of pandas": (
        gaps(TENTHS),
        pd.array([*NARROW, None], "Float32"),
        [*NARROW_BINS, 10],
    ),
    "narrow floats among objects": (TENTHS, objects(*NARROW), NARROW_BINS),
    "narrow floats in a dictionary": (TENTHS, pd.Categorical(NARROW), NARROW_BINS),
    "categories of narrow floats": (listed(0.1, 0.9), np.array([0.1, 0.9], "float32"), [0, 1]),
    "categories of narrow floats that a row has made wide": (
        listed(0.1, 0.9),
        np.array([0.1, 0.9], "float32").astype(float),
        [0, 1],
    ),
    "categories of narrow floats among objects": (
        listed(0.1, 1e-7),
        objects(np.float32(0.1), np.float32(1e-7)),
        [0, 1],
    ),
    "texts of narrow floats": (listed("0.1", "0.7"), np.array([0.7, 0.1], "float32"), [1, 0]),
    "whole narrow floats": (INTEGER, np.array([1, 9], "float32"), [1, 9]),
    "decimals": (TENTHS, objects(Decimal("0.1"), Decimal("0.70")), [1, 7]),
    "an exponent of Python": (listed("1e-07", "2"), [1e-7, 2.0], [0, 1]),
    "an exponent of Python among objects": (listed("1e-7", "2"), objects(1e-7, "2"), [0, 1]),
    "days as categories": (listed("2024-01-01", "2024-06-01"), MIDNIGHTS, [0, 1]),
    "days as categories, in nanoseconds": (
        listed("2024-01-01", "2024-06-01"),
        MIDNIGHTS.as_unit("ns"),
        [0, 1],
    ),
    "days as categories, among objects": (
        listed("2024-01-01", "2024-06-01"),
        objects(pd.Timestamp("2024-01-01"), date(2024, 6, 1)),
        [0, 1],
    ),
    "times as categories": (
        listed("2024-01-01 00:00:00", "2024-06-01 00:00:00"),
        MIDNIGHTS.as_unit("ms"),
        [0, 1],
    ),
    "fractions of seconds as categories": (
        listed("2024-01-01 00:00:00.5", "x"),
        pd.to_datetime(["2024-01-01 00:00:00.500"]),
        [0],
    ),
    "few of many": (INTEGER, pd.arrays.SparseArray([0, 3, 0]), [0, 3, 0]),
}
"""{what they are: the column, values, the bin of each; the last one of a number that may be missing
is for none}.
"""


def check_values(name: str) -> None:
    column, given, expected = VALUES[name]
    rows = pd.DataFrame({"x": given})
    rows["y"] = np.where(np.arange(len(rows)) % 2, "yes", "no")
    plain = Plain.of(rows, {"x": column, "y": listed("no", "yes")})
    assert plain.codes[:, 0].tolist() == expected
    bins = plain.predictor().steps[0][1]
    for frame in (rows, as_arrow(rows)):
        assert bins.meanings[0].codes(as_arrow(frame).column("x")).tolist() == expected
        assert np.floor(bins.transform(frame)[:, 0]).tolist() == expected


@pytest.mark.parametrize("value", [0.0, np.inf, 0.5000001, np.float32(0.30000004)])
def test_a_number_that_only_resembles_a_category_is_none(value: float) -> None:
    rows = pd.DataFrame({"x": [value], "y": ["no"]})
    with pytest.raises(DataError, match="column 'x': is not one of the 4 categories"):
        Plain.of(rows, {"x": listed(0.5, 0.3, 1e300, 1e-50), "y": listed("no", "yes")})


@pytest.mark.parametrize("name", VALUES)
def test_a_predictor_reads_a_value_as_a_release_does(name: str) -> None:
    check_values(name)


def test_a_predictor_takes_the_rows_that_were_read_with_the_table_s_own_word() -> None:
    """One of a column that is not nullable is none of its values; a row with it is in no
    release.
    """
    rows = pd.DataFrame({"x": ["1", "2", "8", "9"] * 20, "y": ["no", "no", "yes", "yes"] * 20})
    predictor = Plain.of(
        rows, {"x": {**INTEGER, "missing": ["?"]}, "y": listed("no", "yes")}
    ).predictor()
    assert predictor.score(rows, rows["y"]) == 1
    bins = predictor.steps[0][1]
    assert np.isnan(bins.transform(pd.DataFrame({"x": ["?"]}))).all()
    assert bins.transform(pd.DataFrame({"x": ["9"]})).tolist() == [[9]]


def test_a_predictor_is_taken_apart_and_takes_labels_in_a_table_of_one_column() -> None:
    rows = pd.DataFrame({"x": np.arange(80) % 10, "y": np.arange(80) % 10 > 4})
    predictor = Plain.of(rows, {"x": INTEGER, "y": BOOLEAN}).predictor()
    assert predictor[:-1].transform(rows).shape == (80, 1) and predictor[-1] is predictor["model"]
    labels = pa.table({"y": rows["y"]})
    assert predictor.score(rows, labels) == predictor.score(rows, rows[["y"]]) == 1
    with pytest.raises(
        ValueError, match="labels: column 'y': holds neither numbers nor text but struct"
    ):
        predictor.score(rows, labels.append_column("z", labels["y"]))


DAYS = pd.to_datetime("2024-01-01") + pd.to_timedelta(np.arange(200) % 10, "D")


@pytest.mark.parametrize("kind", ["date", "datetime"])
def test_a_date_is_predicted_as_a_date_and_compared_however_it_is_written(kind: str) -> None:
    rows = pd.DataFrame({"x": np.arange(200) % 10, "y": DAYS})
    predictor = Plain.of(
        rows, {"x": INTEGER, "y": {"type": kind, "bounds": ["2024-01-01", "2024-01-12"]}}
    ).predictor()
    predicted = predictor.predict(rows)
    assert predicted.dtype == ("datetime64[D]" if kind == "date" else "datetime64[s]")
    assert abs(
        pd.Series(predicted).astype("datetime64[s]") - rows["y"].astype("datetime64[s]")
    ).max() < pd.Timedelta(days=1.5)
    labels: list[Any] = [
        rows["y"],
        rows["y"].dt.strftime("%Y-%m-%d"),
        rows["y"].dt.strftime("%Y%m%d").astype(int),
        rows["y"].dt.date.tolist(),
    ]
    scores = {
        predictor.score(rows, given)
        for given in (
            *labels,
            rows["y"].dt.tz_localize("UTC"),
            rows["y"].astype(str) + "T00:00+00:00",
        )
    }
    assert len(scores) == 1 and scores.pop() > 0.9
    with pytest.raises(ValueError, match=f"labels: column 'y': is no {kind} such as 2026-11-25"):
        predictor.score(rows, ["01/02/2024"] * 200)


ODD: dict[str, Callable[[], Any]] = {
    "lists": lambda: [["a"]] * 40,
    "arrays": lambda: [np.zeros(3)] * 40,
    "mappings": lambda: [{"a": 1}] * 40,
    "bytes": lambda: [b"\xff\x00"] * 40,
    "sets": lambda: [{1}] * 40,
    "complex numbers": lambda: np.arange(40) * 1j,
    "a list among texts": lambda: objects(*["a"] * 39, ["b"]),
    "durations among texts": lambda: objects(*["a"] * 39, pd.Timedelta("1h")),
    "few complex numbers": lambda: pd.arrays.SparseArray(np.arange(40) * 1j),
    "intervals": lambda: pd.cut(np.arange(40), 4),
    "a type of its own": lambda: [object()] * 40,
}


@pytest.mark.quick("lists", "few complex numbers", "intervals")
@pytest.mark.parametrize("name", ODD)
def test_a_column_that_no_contract_can_describe_is_left_out_by_its_name(
    name: str, tmp_path: Path
) -> None:
    rows = pd.DataFrame({"x": np.arange(40) % 10, "y": ["no", "yes"] * 20, "odd": ODD[name]()})
    schema: dict[str, Any] = {"columns": {"x": INTEGER, "y": listed("no", "yes")}, "label": "y"}

    def released(schema: dict[str, Any]) -> Any:
        return dpicl.protect(rows, schema, epsilon=1, account="odd", home=tmp_path / "home")

    with pytest.raises(DataError) as unknown:
        released(schema)
    assert (
        str(unknown.value)
        == "odd: column 'odd': is not in the contract; expected its columns, or `source: {ignore: "
        '["odd"]}`'
    )
    with pytest.raises(DataError) as wanted:
        released({**schema, "columns": {**schema["columns"], "odd": listed("a", "b")}})
    assert "column 'odd': holds neither numbers nor text" in str(
        wanted.value
    ) and "; expected " in str(wanted.value)
    assert not any(account.epsilon_spent for account in dpicl.Session(tmp_path / "home").budget())
    ignored = released({**schema, "source": {"ignore": ["odd"]}})
    assert ignored.arrow(3).column_names == ["x", "y"]


def fails(name: str) -> bool:
    try:
        check_values(name)
    except (AssertionError, DpiclError, ValueError, pa.ArrowException):
        return True
    return False


def test_mutant_rows_that_a_predictor_reads_without_the_contract_s_words_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = Meaning.positions
    monkeypatch.setattr(
        Meaning,
        "positions",
        lambda self, given: read(Meaning(**{**vars(self), "missing": ()}), given),
    )
    assert all(
        fails(name)
        for name in (
            "a number as a word",
            "a word among categories",
            "a day as a word, in a column of times",
        )
    )
    assert not fails("offsets")


def test_mutant_words_that_are_compared_as_texts_alone_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for kind in (NumberColumn, DateColumn):
        monkeypatch.setattr(kind, "number", lambda *_: None)
    for module in (category, values):
        monkeypatch.setattr(
            module,
            "is_word",
            lambda text, words, _: pc.is_in(
                text, value_set=pa.array(words, pa.string())
            ).combine_chunks(),
        )
    assert all(
        fails(name)
        for name in (
            "a number as a word, as pandas writes it",
            "a real number as a word",
            "words of a boolean",
        )
    )
    assert not fails("a word")
