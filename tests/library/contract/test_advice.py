"""What `contract check` asks to think over: facts of the contract alone, and nothing where there is
nothing to say.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpicl.contract.draft import sampling_rate
from dpicl.contract.rules import advice
from tests.library.contract.test_derived import COLUMNS, customers

CITIES = [f"city {number}" for number in range(31)]


def with_column(**column: Any) -> dict[str, Any]:
    return {"columns": {**COLUMNS, "more": column}}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {
                **with_column(type="category", categories=CITIES),
                "privacy": {"neighbours": "replace-one", "budget": {"epsilon": 1}},
            },
            "columns.more: clients report one of 31 values",
        ),
        (
            with_column(type="integer", bounds=[0, 10_001]),
            "most values lie, state edges between bins, such as `bins: [10, 100, 1000, 10000]`",
        ),
        (
            with_column(type="real", bounds=[-20_000, -1]),
            "-1 leave its bins to a part of epsilon that chooses them; if it is publicly known",
        ),
        (
            {**with_column(type="integer", bounds=[0, 20_000]), "label": "more"},
            "make eight equal bins; if it is publicly known that most values lie in one of them, ",
        ),
        (
            {**with_column(type="integer", bounds=[0, 60]), "label": "more"},
            "most values lie in one of them, state edges between bins under `bins`; where in its b",
        ),
        (
            {
                **with_column(type="real", bounds=[0, 500_000]),
                "privacy": {"budget": {"epsilon": 1, "delta": 1e-6}},
                "source": {"file": "c.csv", "arrived": "when"},
                "releases": {"every": "month", "first": "2026-01-01", "horizon": "12 months"},
            },
            "columns.more: bounds from 0 to 500000 make eight equal bins",
        ),
        (
            {
                "columns": {
                    **with_column(type="real", bounds=[0, 500_000])["columns"],
                    **{f"lab{number}": {"type": "real", "bounds": [0, 9]} for number in range(40)},
                }
            },
            "columns.more: bounds from 0 to 500000 make eight equal bins",
        ),
        (
            {**with_column(type="category", categories=CITIES[:21]), "label": "more"},
            "label: has 21 classes",
        ),
        (
            {"population": 500, "privacy": {"budget": {"epsilon": 1}}},
            "privacy.sampling_rate: 1/10 of about 500 rows leaves 50",
        ),
    ],
)
def test_what_usually_buys_noise_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    (said,) = advice(customers(**changes))
    assert sentence in said


@pytest.mark.parametrize(
    "changes",
    [
        {},
        with_column(type="category", categories=CITIES[:30]),
        with_column(type="category", categories=CITIES),  # a curator's: no client reports them
        with_column(type="integer", bounds=[0, 1_000_000], bins=[10, 1000]),
        with_column(type="integer", bounds=[200, 1_000_000]),
        {**with_column(type="integer", bounds=[0, 12]), "label": "more"},
        {**with_column(type="integer", bounds=[0, 20_000], bins=[10, 1000]), "label": "more"},
        {
            **with_column(type="integer", bounds=[0, 20_000]),
            "label": {"column": "more", "cuts": [10], "question": "More than ten?"},
        },
        with_column(type="datetime", bounds=["2015-01-01", "2025-12-31"]),
        {"population": 500, "privacy": {"sampling_rate": 1, "budget": {"epsilon": 1}}},
        {"population": 10_000, "privacy": {"budget": {"epsilon": 1}}},
    ],
)
def test_a_contract_that_is_well_filled_in_gets_no_advice(changes: dict[str, Any]) -> None:
    assert list(advice(customers(**changes))) == []


def test_rows_are_sampled_only_where_there_are_many() -> None:
    assert [sampling_rate(rows) for rows in (None, 99_999, 100_000)] == ["1", "1", "1/10"]
