"""Every table is held to the same rules, which a contract may sharpen; results are counts."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from dpicl.data.reading.checks import rules_of, violations
from dpicl.ground.errors import DeclarationError

from ..table_contracts import small_contract

CONTRACT = small_contract()


def _category(values: list[str | None], categories: list[str]) -> pa.DictionaryArray:
    codes = [None if value is None else categories.index(value) for value in values]
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int16()), pa.array(categories))


def _table(**columns: object) -> pa.Table:
    """Three rows that break nothing, with some columns replaced."""
    good = {
        "age": pa.array([31, 48, 67]),
        "height": pa.array([1.75, 1.6, 1.82]),
        "colour": _category(["red", "blue", "red"], ["red", "green", "blue"]),
        "y": _category(["no", "yes", "yes"], ["no", "yes"]),
    }
    return pa.table({**good, **columns})


def _found(table: pa.Table, *checks: dict[str, object]) -> list[tuple[str, str | None, str, int]]:
    return [
        (v.rule.rule, v.rule.column, v.rule.severity, v.count)
        for v in violations(table, small_contract(checks=checks))
    ]


def test_the_default_rules_cover_every_column_and_not_the_table() -> None:
    rules = rules_of(CONTRACT)
    assert [(rule.rule, rule.column, rule.severity, rule.at_least) for rule in rules] == [
        *(("no_missing", name, "fail", None) for name in CONTRACT.columns),
        *(("known_categories", name, "fail", None) for name in ("colour", "y")),
        *(("in_bounds", name, "warn", None) for name in ("age", "height")),
    ]
    descriptions = [rule.description for rule in rules]
    assert descriptions[7] == "height lies between 0.5 and 2.5; values outside are clipped"
    assert len(set(descriptions)) == len(descriptions)
    stated = rules_of(small_contract(checks=({"rule": "row_count"}, {"rule": "both_labels"})))
    assert [rule.description for rule in stated[-2:]] == [
        "the table has at least 2 rows",
        "each label has at least 1 row",
    ]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (_table(age=pa.array([31, None, None])), ("no_missing", "age", "fail", 2)),
        (
            _table(colour=_category(["red", None, "red"], ["red", "green", "blue"])),
            ("no_missing", "colour", "fail", 1),
        ),
        (
            _table(colour=_category(["red", "mauve", "pink"], ["pink", "mauve", "red"])),
            ("known_categories", "colour", "fail", 2),
        ),
        (_table(age=pa.array([-1, 0, 121])), ("in_bounds", "age", "warn", 2)),
        (_table(height=pa.array([0.5, 2.5, 2.51])), ("in_bounds", "height", "warn", 1)),
    ],
)
def test_what_breaks_a_rule_is_counted(
    table: pa.Table, expected: tuple[str, str | None, str, int]
) -> None:
    assert _found(table) == [expected]


def test_how_many_rows_there_are_breaks_what_is_stated_alone() -> None:
    stated = ({"rule": "row_count"}, {"rule": "both_labels"})
    for table in (
        _table().slice(0, 0),
        _table().slice(0, 1),
        _table(y=_category(["no", "no", "no"], ["no", "yes"])),
    ):
        assert _found(table) == []
    assert _found(_table().slice(0, 0), *stated) == [
        ("row_count", None, "fail", 2),
        ("both_labels", None, "fail", 2),
    ]


def test_a_missing_label_is_no_label() -> None:
    table = _table(y=_category([None, "no", None], ["no", "yes"]))
    assert _found(table, {"rule": "both_labels"}) == [
        ("no_missing", "y", "fail", 2),
        ("both_labels", None, "fail", 1),
    ]


def test_a_numeric_label_counts_by_its_cut() -> None:
    content = json.loads(CONTRACT.model_dump_json())
    content["label"] = {"column": "age", "cuts": [40], "question": "Old?"}
    content["checks"] = [{"rule": "both_labels"}]
    contract = type(CONTRACT).model_validate(content)
    assert violations(_table(), contract) == ()
    (found,) = violations(_table(age=pa.array([40, 41, 42])), contract)
    assert found.rule.rule == "both_labels"


def test_a_check_without_a_column_stands_for_all_that_it_suits() -> None:
    bad = _table(age=pa.array([-1, 0, 1]), height=pa.array([9.0, 1.0, 1.0]))
    assert _found(bad, {"rule": "in_bounds", "severity": "fail"}) == [
        ("in_bounds", "age", "fail", 1),
        ("in_bounds", "height", "fail", 1),
    ]
    one = _found(bad, {"rule": "in_bounds", "column": "height", "severity": "fail"})
    assert one == [("in_bounds", "age", "warn", 1), ("in_bounds", "height", "fail", 1)]


def test_counts_can_be_sharpened_and_uniqueness_added() -> None:
    repeated = pa.concat_tables([_table(), _table().slice(0, 1)])
    for check, column, severity, count in (
        ({"rule": "row_count", "at_least": 10}, None, "fail", 6),
        ({"rule": "both_labels", "at_least": 3}, None, "fail", 2),
        ({"rule": "unique", "severity": "warn"}, None, "warn", 1),
        ({"rule": "unique", "column": "y"}, "y", "fail", 2),
    ):
        assert _found(repeated, check) == [(check["rule"], column, severity, count)]
    assert _found(_table(), {"rule": "unique", "column": "age"}) == []


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (
            {"rule": "in_bounds", "column": "colour"},
            "people.yaml: checks.0.column: 'colour' does not suit in_bounds; expected age, height",
        ),
        (
            {"rule": "known_categories", "column": "age"},
            "people.yaml: checks.0.column: 'age' does not suit known_categories; expected colour",
        ),
        (
            {"rule": "row_count", "column": "age"},
            "people.yaml: checks.0.column: 'age' does not suit row_count; expected no column",
        ),
        (
            {"rule": "unique", "at_least": 3},
            "people.yaml: checks.0.at_least: has no meaning for unique; expected row_count or both",
        ),
    ],
)
def test_a_check_that_makes_no_sense_is_refused(check: dict[str, object], message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        rules_of(small_contract(checks=(check,)))
    assert str(caught.value).startswith(message)
