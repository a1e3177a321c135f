"""A value leaves in the type in which the contract writes it, whatever the rows hold it in; labels
that come in are converted one by one.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from threadpoolctl import threadpool_limits

import dpicl
from dpicl.contract import Contract, parse_contract
from dpicl.contract.columns import CategoryColumn
from dpicl.contract.load import contract_digest
from dpicl.data.values import Meaning
from dpicl.ground.errors import DataError, DeclarationError, DpiclError
from dpicl.release.door import schema_contract
from dpicl.release.predictor import Labels
from tests.truth.no_noise import Plain

RNG = np.random.default_rng(5)
X = RNG.integers(0, 10, 400)
HIGH = X > 4
COLUMN = {"x": {"type": "integer", "bounds": [0, 9]}}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield


def category(*categories: Any, **more: Any) -> dict[str, Any]:
    return {"type": "category", "categories": list(categories), **more}


def chosen(no: Any, yes: Any) -> list[Any]:
    """Labels of the rows, of which the first half of the values of x has one, and the second the
    other.
    """
    return [yes if one else no for one in HIGH]


BOOLEAN: dict[str, Any] = {"type": "boolean"}
CASES: dict[str, tuple[dict[str, Any], Any, pa.DataType]] = {
    "whole numbers": (category(0, 1), chosen(0, 1), pa.int64()),
    "whole numbers below zero": (category(-1, 1), pd.array(chosen(-1, 1), "int8"), pa.int64()),
    "whole numbers as floats": (category(0, 1), chosen(0.0, 1.0), pa.int64()),
    "whole numbers as texts": (category(0, 1), chosen("0", "1.0"), pa.int64()),
    "whole numbers as booleans": (category(0, 1), chosen(False, True), pa.int64()),
    "whole numbers with gaps": (
        category(1, 2, nullable=True),
        pd.array([None, *chosen(1, 2)[1:]], "Int64"),
        pa.int64(),
    ),
    "whole numbers in a dictionary": (category(1, 2), pd.Categorical(chosen(1, 2)), pa.int64()),
    "whole numbers of numpy in a schema": (category(*np.arange(2)), chosen(0, 1), pa.int64()),
    "real numbers that are whole": (category(0.0, 1.0), chosen(0, 1), pa.float64()),
    "real numbers": (category(0.5, 1.5), chosen(0.5, 1.5), pa.float64()),
    "real numbers as decimals": (
        category(1.5, 2),
        chosen(Decimal("1.50"), Decimal("2.00")),
        pa.float64(),
    ),
    "real numbers as texts": (category(0.25, 10000), chosen("2.5e-1", "1e4"), pa.float64()),
    "booleans": (BOOLEAN, chosen(False, True), pa.bool_()),
    "booleans that are listed": (category(False, True), chosen(False, True), pa.bool_()),
    "booleans as texts": (BOOLEAN, chosen("FALSE", "True"), pa.bool_()),
    "booleans as whole numbers": (BOOLEAN, chosen(0, 1), pa.bool_()),
    "booleans as floats of Arrow": (
        BOOLEAN,
        pd.array(chosen(0.0, 1.0), pd.ArrowDtype(pa.float32())),
        pa.bool_(),
    ),
    "booleans with gaps": (
        {**BOOLEAN, "nullable": True},
        pd.array([None, *chosen(False, True)[1:]], "boolean"),
        pa.bool_(),
    ),
    "booleans among objects": (
        {**BOOLEAN, "nullable": True},
        np.array([None, *chosen(False, True)[1:]], object),
        pa.bool_(),
    ),
    "texts that are numbers": (category("0", "1"), chosen(0, 1), pa.string()),
    "texts that are numbers, as floats": (category("0", "1"), chosen(0.0, 1.0), pa.string()),
    "texts with a point": (category("0.0", "1.0"), chosen(0.0, 1.0), pa.string()),
    "texts of numbers, as booleans": (category("0", "1"), chosen(False, True), pa.string()),
    "texts of Python's booleans": (category("False", "True"), chosen(False, True), pa.string()),
    "words": (category("no", "yes"), chosen("no", "yes"), pa.string()),
}
"""{name: the label's column, labels, the type that leaves}."""


def check_case(name: str) -> None:
    """What comes out is what the contract says, and labels in any type are compared as that."""
    column, labels, expected = CASES[name]
    rows = pd.DataFrame({"x": X, "y": labels})
    plain = Plain.of(rows, {**COLUMN, "y": column})
    table, predictor = plain.table(), plain.predictor()
    assert table.schema.field("y").type == expected
    known = rows["y"].notna().to_numpy()
    rows = rows[known]
    predicted = predictor.predict(rows)
    assert (
        pa.array(predicted).type in (expected, pa.string())
        and predicted.dtype == predictor.classes_.dtype
    )
    assert set(predicted.tolist()) <= set(table["y"].drop_null().to_pylist())
    assert predictor.score(rows, rows["y"]) > 0.99
    released = table.filter(pa.array(known)).column("y")
    assert (
        np.mean(
            [
                one == other
                for one, other in zip(released.to_pylist(), predicted.tolist(), strict=True)
            ]
        )
        > 0.99
    )
    for given in (
        released,
        released.combine_chunks(),
        released.to_pylist(),
        released.to_pandas(),
        released.cast(pa.string()).to_numpy(),
    ):
        assert predictor.score(rows, given) > 0.99
    if not any(isinstance(one, str) for one in rows["y"]):
        for given in (
            rows["y"].astype(float),
            rows["y"].astype("category"),
            rows["y"].astype(object),
            rows[["y"]].to_numpy(float)[:, 0],
        ):
            assert predictor.score(rows, given) > 0.99, given.dtype


@pytest.mark.parametrize("name", CASES)
def test_a_label_is_predicted_and_released_as_the_contract_writes_it(name: str) -> None:
    check_case(name)


def schemas_of(made: Callable[[Any], Any], column: dict[str, Any]) -> list[tuple[pa.Schema, Any]]:
    """What leaves for a column without a gap and for its neighbour with one, of which numpy makes
    another type.
    """
    full = [1, 0] * 20
    found = []
    for values in (
        full,
        [None, *full[1:]],
        [float(one) for one in full],
        [str(one) for one in full],
    ):
        plain = Plain.of(pd.DataFrame({"x": X[:40], "y": made(values)}), {**COLUMN, "y": column})
        found.append((plain.table().schema, plain.predictor().classes_.dtype))
    return found


def check_neighbours() -> None:
    for column in (
        category(0, 1, nullable=True),
        {**BOOLEAN, "nullable": True},
        category(0.0, 1.0, nullable=True),
        category("0", "1", nullable=True),
    ):
        for made in (lambda values: values, lambda values: pd.Series(values, dtype=object)):
            assert len({str(one) for one in schemas_of(made, column)}) == 1, column


def test_one_row_decides_no_type() -> None:
    check_neighbours()


RULES: dict[str, tuple[dict[str, Any], dict[str, Any], list[Any], list[Any]]] = {
    "two parts": (
        category(0, 1, 2),
        {"parts": [[0, 1], [2]], "question": "Is it two?"},
        [0, 1, 2],
        ["No", "No", "Yes"],
    ),
    "parts of booleans": (
        BOOLEAN,
        {"parts": [[True], [False]], "answers": ["on", "off"]},
        [True, False],
        [True, False],
    ),
    "parts with answers": (
        category("a", "b", "c"),
        {"parts": [["a"], "rest"], "answers": ["first", "later"]},
        ["a", "b", "c"],
        ["first", "later", "later"],
    ),
    "an answer that is another part's category": (
        category("a", "b", "c"),
        {"parts": [["a", "b"], ["c"]], "answers": ["c", "d"]},
        ["a", "b", "c"],
        ["c", "c", "d"],
    ),
    "answers of categories": (category(0, 1), {"answers": ["bad", "good"]}, [0, 1], [0, 1]),
    "cuts": (
        {"type": "integer", "bounds": [0, 9]},
        {"cuts": [5], "question": "Is it high?"},
        [1, 4, 5, 9],
        ["No", "No", "Yes", "Yes"],
    ),
    "cuts with answers": (
        {"type": "real", "bounds": [0, 9]},
        {"cuts": [2, 5], "answers": ["low", "mid", "high"]},
        [1, 2.5, 7],
        ["low", "mid", "high"],
    ),
    "cuts of a date": (
        {"type": "date", "bounds": ["2020-01-01", "2025-12-31"]},
        {"cuts": [19000], "question": "Is it late?"},
        ["2020-05-01", "2024-05-01"],
        ["No", "Yes"],
    ),
}
"""{name: the label's column, its rule, values, what each is predicted as}."""


@pytest.mark.parametrize("name", RULES)
def test_raw_values_and_answers_both_score_where_a_rule_makes_the_answers(name: str) -> None:
    column, rule, values, answers = RULES[name]
    places = np.arange(60) % len(values)
    rows = pd.DataFrame({"x": places, "y": [values[place] for place in places]})
    predictor = Plain.of(rows, {**COLUMN, "y": column}, {"column": "y", **rule}).predictor()
    wanted = [answers[place] for place in places]
    assert predictor.predict(rows).tolist() == wanted
    assert (
        predictor.score(rows, rows["y"]) == 1
        and predictor.score(rows, rows["y"].astype("category")) == 1
    )
    if "another" not in name:  # whose answer is a value of its own
        assert (
            predictor.score(rows, wanted) == 1
            and predictor.score(rows, pd.Series(wanted, dtype="category")) == 1
        )


@pytest.mark.parametrize(
    "dtype", ["int64", "float32", "Int64", "double[pyarrow]", "object", "str", "decimal"]
)
def test_a_number_is_compared_as_a_number(dtype: str) -> None:
    rows = pd.DataFrame({"x": X, "y": 2 * X})
    predictor = Plain.of(rows, {**COLUMN, "y": {"type": "integer", "bounds": [0, 20]}}).predictor()
    labels = (
        pd.Series([Decimal(int(one)) for one in rows["y"]], dtype=object)
        if dtype == "decimal"
        else rows["y"].astype(dtype)
    )
    assert predictor.score(rows, labels) > 0.9


REFUSED: dict[str, tuple[Any, str]] = {
    "a label that is no category": (
        ["maybe"],
        "labels: column 'y': is missing or unknown in some rows; expected 0, 1",
    ),
    "no label": ([None], "is missing or unknown in some rows"),
    "a number that is no category": ([7], "is missing or unknown in some rows"),
    "a fraction": ([0.5], "is missing or unknown in some rows"),
    "a leading zero": (["01"], "is missing or unknown in some rows"),
    "a duration": (pd.to_timedelta([1], "h"), "holds neither numbers nor text but duration"),
    "a list": ([["0"]], "expected 0, 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_label_that_is_none_is_refused_in_a_sentence_without_its_value(name: str) -> None:
    labels, sentence = REFUSED[name]
    rows = pd.DataFrame({"x": X, "y": chosen(0, 1)})
    predictor = Plain.of(rows, {**COLUMN, "y": category(0, 1)}).predictor()
    if name == "a list":
        labels = pd.Series(labels * 2, dtype=object)
    with pytest.raises((DpiclError, ValueError)) as refused:
        predictor.score(rows[: len(labels)], labels)
    assert name == "a list" or sentence in str(refused.value)
    assert "maybe" not in str(refused.value) and "7" not in str(refused.value)


def test_rows_that_a_predictor_cannot_take_are_refused_in_a_sentence() -> None:
    rows = pd.DataFrame({"x": X, "z": X % 3, "y": chosen(0, 1)})
    predictor = Plain.of(
        rows, {**COLUMN, "z": {"type": "integer", "bounds": [0, 2]}, "y": category(0, 1)}
    ).predictor()
    wrong: list[tuple[Any, str]] = [
        (
            rows.drop(columns="z"),
            "rows: column 'z': is not among the columns; expected all of x, z",
        ),
        (pa.table({"x": X}), "rows: column 'z': is not among the columns"),
        (rows[:0], "Found array with 0 sample"),
        (
            rows[["x"]].to_numpy(),
            "X has 1 features, but Bins is expecting 2 features as input: x, z",
        ),
        (X, "Expected 2D array, got 1D array instead. Reshape your data; expected a table of"),
        (np.full((4, 2), 3 + 41j), "Complex data not supported. Reshape your data"),
        (
            pd.concat([rows[["x"]] + 41, rows], axis=1),
            "rows: column 'x': stands there twice; expected columns of distinct names",
        ),
        (rows.assign(x="Ludmilla"), "rows: column 'x': holds what is no number"),
        (
            rows.assign(x=pd.to_timedelta(X, "h")),
            "rows: column 'x': holds neither numbers nor text but duration",
        ),
    ]
    for given, sentence in wrong:
        with pytest.raises(ValueError) as refused:  # noqa: PT011 - what scikit-learn expects
            predictor.predict(given)
        assert sentence in str(refused.value)
        told = "".join(traceback.format_exception(refused.value))
        assert "Ludmilla" not in told and "41" not in told.partition("Error: ")[2]


def test_a_predictor_is_copied_pickled_and_takes_rows_of_any_frame() -> None:
    rows = pd.DataFrame({"x": X, "z": chosen("a", "b"), "y": chosen(False, True)})
    predictor = Plain.of(rows, {**COLUMN, "z": category("a", "b"), "y": BOOLEAN}).predictor()
    assert list(predictor.feature_names_in_) == ["x", "z"] and predictor.n_features_in_ == 2
    assert predictor.classes_.tolist() == [False, True] and predictor.predict_proba(rows).shape == (
        400,
        2,
    )
    expected = predictor.predict(rows)
    for given in (
        rows[["z", "x"]],
        pa.Table.from_pandas(rows),
        rows[["x", "z"]].to_numpy(),
        pickle.loads(pickle.dumps(rows)),
    ):
        assert (predictor.predict(given) == expected).all()
    assert (pickle.loads(pickle.dumps(predictor)).predict(rows) == expected).all()
    again = clone(predictor).fit(rows, rows["y"].astype(int))
    assert again.score(rows, rows["y"].map({False: "false", True: "TRUE"})) > 0.99
    assert cross_val_score(predictor, rows, rows["y"], cv=3).mean() > 0.95


def test_a_release_keeps_its_types_in_files_and_reads_them_again(tmp_path: Path) -> None:
    rows = pd.DataFrame(
        {"x": X, "code": np.where(HIGH, 7, 3), "size": np.where(HIGH, 0.5, 1), "y": HIGH}
    )
    columns = {
        **COLUMN,
        "code": category(3, 7, nullable=True),
        "size": category(0.5, 1.0),
        "y": {**BOOLEAN, "nullable": True},
    }
    release = dpicl.protect(
        rows,
        {"columns": columns, "label": "y"},
        epsilon=1000,
        account="typed",
        home=tmp_path / "home",
    )
    table = release.table(200)
    assert table.dtypes.astype(str).to_dict() == {
        "x": "int64",
        "code": "Int64",
        "size": "float64",
        "y": "boolean",
    }
    arrow = release.arrow(200)
    assert arrow.schema.types == [
        pa.int64(),
        pa.int64(),
        pa.float64(),
        pa.bool_(),
    ] and table.to_arrow().schema.equals(arrow.schema)
    table.to_parquet(tmp_path / "t.parquet")
    table.to_csv(tmp_path / "t.csv")
    assert (
        pd.read_parquet(tmp_path / "t.parquet")["size"].dtype == float
        and (tmp_path / "t.csv.certificate.json").exists()
    )
    back = [
        dpicl.protect(
            given,
            {"columns": columns, "label": "y"},
            epsilon=1,
            account=f"again{place}",
            home=tmp_path / "home",
        )
        for place, given in enumerate(
            (tmp_path / "t.parquet", tmp_path / "t.csv", table, pd.read_csv(tmp_path / "t.csv"))
        )
    ]
    assert {str(one.arrow(9).schema) for one in back} == {str(arrow.schema)}
    assert "The y is" not in release.demonstrations(4).text() and {
        answer for _, answer in release.demonstrations(40)
    } <= {
        "false",
        "true",
        "unknown",
    }
    assert release.predictor().score(rows, rows["y"]) > 0.95 and release.quality(4)


WRITTEN: list[tuple[str, list[Any], list[Any], str]] = [
    ("category", [0, 1], ["0", "1"], "integer"),
    ("category", [-3, 12, 400], ["-3", "12", "400"], "integer"),
    ("category", [False, True], ["false", "true"], "boolean"),
    ("category", [True, False], ["true", "false"], "boolean"),
    ("category", [0.0, 2.0], ["0", "2"], "real"),
    ("category", [0.5, 1], ["0.5", "1"], "real"),
    ("category", ["0", "1"], ["0", "1"], "category"),
    ("category", [0, "x"], ["0", "x"], "category"),
    ("category", [True, "x"], ["true", "x"], "category"),
    ("category", ["True", "False"], ["True", "False"], "category"),
]


@pytest.mark.parametrize(("kind", "stated", "texts", "expected"), WRITTEN)
def test_a_name_is_made_of_texts_and_a_type_of_how_they_are_written(
    kind: str, stated: list[Any], texts: list[Any], expected: str
) -> None:
    def contract(categories: list[Any]) -> Contract:
        return schema_contract(
            {"columns": {**COLUMN, "y": {"type": kind, "categories": categories}}}
        )

    made = contract(stated)
    column = made.columns["y"]
    assert (
        isinstance(column, CategoryColumn)
        and column.value_type == expected
        and list(column.categories) == texts
    )
    assert contract_digest(made) == contract_digest(contract(texts)), (
        "the type is no part of the digest"
    )
    again = schema_contract(made)
    assert again == made and again.columns["y"].value_type == expected  # type: ignore[union-attr]
    assert pickle.loads(pickle.dumps(made)).columns["y"].value_type == expected


@pytest.mark.parametrize(
    "stated",
    [
        *([True, 1], [True, "yes", 1], [float("nan"), 1.0], [0, 0.0], [None, 1], [1, [2]]),
        *([2**63, 1], [-(2**63) - 1, 0], [2**53 + 1, 0.5], [10**400, 0.5]),
    ],
)
def test_categories_that_are_of_no_type_together_are_refused(stated: list[Any]) -> None:
    content = {
        "version": 2,
        "name": "t",
        "source": {"file": "t.csv"},
        "privacy": {"budget": {"epsilon": 1}},
    }
    with pytest.raises(DeclarationError):
        parse_contract(
            {**content, "columns": {**COLUMN, "y": {"type": "category", "categories": stated}}},
            "t.yaml",
        )


def test_a_boolean_states_no_other_categories_and_what_is_no_boolean_is_refused() -> None:
    with pytest.raises(
        DeclarationError,
        match="a boolean has other categories than false and true; expected no `categories`",
    ):
        schema_contract(
            {"columns": {**COLUMN, "y": {"type": "boolean", "categories": ["no", "yes"]}}}
        )
    for value in ("yes", "t", "2", "true ", "tRUE", 2):
        with pytest.raises(DataError, match="column 'y': is not one of the"):
            Plain.of(pd.DataFrame({"x": [1], "y": [value]}), {**COLUMN, "y": BOOLEAN})


def fails(check: Callable[[], None]) -> bool:
    try:
        check()
    except (AssertionError, DpiclError, TypeError, ValueError):
        return True
    return False


def test_a_type_that_is_lost_or_taken_from_rows_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as mutant:  # the fault of before: every category is a text
        mutant.setattr(CategoryColumn, "value_type", property(lambda _: "category"))
        assert all(
            fails(lambda name=name: check_case(name))
            for name in ("whole numbers", "booleans", "real numbers")
        )
    with monkeypatch.context() as mutant:  # labels are compared as they come
        mutant.setattr(Labels, "read", lambda self, labels: np.asarray(labels))
        assert fails(lambda: check_case("texts that are numbers")) and fails(
            lambda: check_case("booleans as texts")
        )
    with monkeypatch.context() as mutant:  # the type is that of the rows

        def from_rows(
            rows: Any, columns: dict[str, Any], label: Any = "y", made: Any = Plain.of
        ) -> Plain:
            plain, given = (
                made(rows, columns, label),
                "real" if rows["y"].dtype == float else "category",
            )
            meaning = Meaning("y", given, True, plain.form.label.categories)
            return replace(plain, form=replace(plain.form, label=meaning))

        mutant.setattr(Plain, "of", from_rows)
        assert fails(check_neighbours)
    check_neighbours()


@pytest.mark.parametrize("method", ["aim_tabicl", "gdp_tabicl", "ldp_tabicl"])
@pytest.mark.parametrize(
    "labels",
    [
        ["a\nb", "c"],
        ["Answer: no", "Answer: yes"],
        ["no", "Answer: no"],
        ["What is the value of y? Answer: 1", "1"],
        ["1", "1 1"],
    ],
)
def test_a_demonstration_has_its_whole_label(
    labels: list[str], method: str, tmp_path: Path
) -> None:
    """Whatever stands in it: line breaks, the words before an answer, another label."""
    columns = {
        "x": {"type": "integer", "bounds": [0, 9]},
        "y": {"type": "category", "categories": labels},
    }
    rows = pd.DataFrame({"x": [1, 2] * 100, "y": labels * 100})
    release = dpicl.protect(
        rows,
        {"columns": columns, "label": "y"},
        epsilon=40,
        account="labels",
        budget=40,
        home=tmp_path,
        method=method,
        trust="local" if method == "ldp_tabicl" else "central",
        shots=2,
    )
    pairs = release.demonstrations(2).pairs
    assert {answer for _, answer in pairs} == {*labels} and len(pairs) == 2
    assert all(before.endswith("What is the value of y? Answer:") for before, _ in pairs)
