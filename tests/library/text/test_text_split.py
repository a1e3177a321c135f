"""Texts are parted as their files say and cut one by one; their rules tell counts."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.data.text_files import split_texts, text_rules, text_violations, texts_digest
from dpicl.ground.errors import DataError
from dpicl.ground.types import PrivateTable, QueryTable

from ..text_contracts import as_extraction, text_contract

CONTRACT, EXTRACTION = text_contract(), text_contract(as_extraction)
GOOD = [
    *(("train", label, f"t{number}") for number in range(5) for label in ("good", "bad")),
    *(("test", "good", f"q{number}") for number in range(6)),
]


def table(rows: list[tuple[str, str | None, str | None]]) -> pa.Table:
    return pa.table(
        {
            name: pa.array([row[place] for row in rows], pa.string())
            for place, name in enumerate(("part", "label", "text"))
        }
    )


def test_parts_have_their_trust_in_the_type_and_a_fixed_order() -> None:
    """Private ones by label and text, held-out ones as they stand in the file."""
    split = split_texts(table(GOOD), CONTRACT)
    assert isinstance(split.train, PrivateTable) and isinstance(split.test, QueryTable)
    assert split.train.data.column_names == split.test.data.column_names == ["label", "text"]
    assert split.train.data.column("text").to_pylist() == [row[2] for row in sorted(GOOD[:10])]
    assert split.test.data.column("text").to_pylist() == [row[2] for row in GOOD[10:]]
    assert split.queries.data.column("text").to_pylist() == [
        f"q{number}" for number in split.query_positions
    ]


def test_the_queries_asked_are_always_the_same_and_hang_on_the_name_alone() -> None:
    asked = split_texts(table(GOOD), CONTRACT).query_positions
    assert len(asked) == len(set(asked)) == CONTRACT.query_count and list(asked) == sorted(asked)
    assert np.array_equal(asked, split_texts(table(GOOD[3:]), CONTRACT).query_positions), (
        "private texts do not matter"
    )
    named = [
        split_texts(
            table(GOOD), text_contract(lambda content, n=n: content.update(name=f"mail{n}"))
        ).query_positions
        for n in range(8)
    ]
    assert len({tuple(one) for one in named}) > 1


@given(
    st.lists(st.text("ab ", min_size=1).map(lambda text: f"x{text}x"), min_size=1, max_size=6),
    st.integers(1, 12),
)
def test_every_text_is_cut_on_its_own(texts: list[str], longest: int) -> None:
    contract = text_contract(lambda content: content.update(max_characters=longest))
    rows = [("train", "good", text) for text in texts] + [("test", "good", "q" * 20)] * 2
    split = split_texts(table(rows), contract)
    assert split.train.data.column("text").to_pylist() == sorted(
        text[:longest].rstrip() for text in texts
    )
    assert set(split.test.data.column("text").to_pylist()) == {"q" * longest}


@pytest.mark.parametrize(
    "rows, told", [(GOOD[10:], "has 6 texts to ask"), (GOOD[:11], "has 1 texts to ask")]
)
def test_a_part_that_is_too_small_is_refused(rows: list[Any], told: str) -> None:
    with pytest.raises(DataError, match=f"mail: {told}; expected 2, and at least one to protect"):
        split_texts(table(rows), CONTRACT)


def found(rows: list[Any], contract: Any = CONTRACT) -> list[tuple[str, str | None, str, int]]:
    return [
        (one.rule.rule, one.rule.column, one.rule.severity, one.count)
        for one in text_violations(table(rows), contract)
    ]


def test_the_rules_of_both_tasks() -> None:
    rules = [(rule.rule, rule.column, rule.severity) for rule in text_rules(CONTRACT)]
    assert rules == [
        ("no_empty", "label", "fail"),
        ("no_empty", "text", "fail"),
        ("known_labels", "label", "fail"),
        ("text_length", "text", "warn"),
    ]
    assert [rule for rule in rules if rule[0] != "known_labels"] == [
        (rule.rule, rule.column, rule.severity) for rule in text_rules(EXTRACTION)
    ]
    assert "at most 60 characters" in text_rules(CONTRACT)[-1].description


def test_good_texts_break_nothing_however_few() -> None:
    assert found(GOOD) == found(GOOD[:1]) == found([]) == []
    assert found([(part, "ann", text) for part, _, text in GOOD], EXTRACTION) == []


Violation = tuple[str, str | None, str, int]
BROKEN: dict[str, tuple[list[Any], list[Violation]]] = {
    "empty texts": (
        [("train", "bad", ""), ("test", "bad", None)],
        [("no_empty", "text", "fail", 2)],
    ),
    "unknown labels": ([("train", "Zebra", "x")], [("known_labels", "label", "fail", 1)]),
    "long texts": (
        [("train", "bad", "é" * 61), ("train", "bad", "é" * 60)],
        [("text_length", "text", "warn", 1)],
    ),
    "missing labels": (
        [("train", None, "x")],
        [("no_empty", "label", "fail", 1), ("known_labels", "label", "fail", 1)],
    ),
}


@pytest.mark.parametrize("more, violations", BROKEN.values(), ids=BROKEN)
def test_what_breaks_a_rule_is_counted_and_never_shown(
    more: list[Any], violations: list[Violation]
) -> None:
    assert found([*GOOD, *more]) == violations
    broken = text_violations(table([*GOOD, *more]), CONTRACT)
    told = json.dumps([[str(one.rule), one.count] for one in broken])
    assert "Zebra" not in told and "é" not in told


def test_a_shuffled_file_gives_the_same_rows_in_the_same_places() -> None:
    """Its content version is the same, and so must be what is drawn by place."""
    one, other = (
        split_texts(table(rows), CONTRACT).train.data for rows in (GOOD, GOOD[9::-1] + GOOD[10:])
    )
    assert one.equals(other) and texts_digest(one) == texts_digest(other)
