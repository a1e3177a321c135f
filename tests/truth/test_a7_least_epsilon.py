"""A7: an epsilon that no noise fits is refused before it is charged, and is a number as JSON writes
it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpicl
from dpicl.contract import pipeline
from dpicl.contract.pipeline import read_epsilon
from dpicl.ground.errors import DpiclError, ParameterError
from dpicl.methods import METHODS
from tests.harness import Place, install, new_place, shop, shop_rows

Capture = pytest.CaptureFixture[str]
CENTRAL = [
    name for name, method in METHODS.items() if method.data == "table" and method.trust == "central"
]
NO_EPSILON = [
    "1_0",
    "+1",
    " 1",
    "1 ",
    "01",
    "1.",
    ".5",
    "1,5",
    "0x1",
    "١",
    "Infinity",
    "INF",
    "+inf",
    "nan",
    "1e-20",
    "9e-7",
    "5e-324",
    "1e-400",
    "1e400",
    "-1e400",
]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = new_place(tmp_path / "place")
    install(place, shop(private=True), shop_rows(60))
    with place.entered():
        yield place


@pytest.mark.parametrize("text", NO_EPSILON)
def test_another_epsilon_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="expected a number >= 1e-06.*, or inf") as refused:
        read_epsilon(text)
    is_written_oddly = text in ("1_0", "+1", " 1", "1 ", "01", "1.", ".5", "١")
    assert (" as JSON writes it, such as 0.5" in str(refused.value)) == is_written_oddly


@pytest.mark.parametrize(
    "value",
    [
        *NO_EPSILON,
        True,
        np.True_,
        b"1",
        [1],
        None,
        np.array([1.0]),
        1j,
        10**400,
        Decimal("1e-400"),
        math.nan,
    ],
)
def test_nor_is_it_taken_from_a_program(place: Place, value: Any) -> None:
    session, rows, schema = (
        dpicl.Session(),
        pd.DataFrame({"x": [0, 1]}),
        {"columns": {"x": {"type": "integer", "bounds": [0, 1]}}},
    )
    calls: list[Callable[[], object]] = [
        lambda: session.protect(rows, schema, epsilon=value, account="a", budget=9),
        lambda: session.quote(rows, schema, epsilon=value, account="a", budget=9),
        lambda: session.collect("shop", "reports.jsonl", epsilon=value),
        lambda: session.ask("shop", ["who?"], epsilon=value),
        lambda: session.collect(
            "shop", "reports.jsonl", epsilon=1, sending_epsilon="0.5" if value is None else value
        ),
    ]
    for call in calls:
        with pytest.raises(ParameterError, match="epsilon=.*expected a (finite )?number"):
            call()
    with pytest.raises(DpiclError, match="epsilon: got|budget=.*: expected a number"):
        session.protect(
            rows, schema, epsilon=1, account="a", budget="9" if value is None else value
        )
    assert session.budget() == ()


@pytest.mark.parametrize("value", [1, np.int8(1), np.float32(1), Decimal(1), Fraction(1)])
def test_a_number_of_a_program_is_one_of_any_type(value: Any) -> None:
    assert read_epsilon(value) == 1


@pytest.mark.parametrize(
    ("text", "epsilon"),
    [("1", 1.0), ("0.5", 0.5), ("1e-6", 1e-6), ("1E2", 100.0), ("inf", math.inf)],
)
def test_an_epsilon_is_a_number_of_json(text: str, epsilon: float) -> None:
    assert read_epsilon(text) == epsilon


def _released(epsilon: float, method: str) -> dpicl.Release:
    """Of rows with bounds as wide as they may be."""
    frame = pd.DataFrame({"x": [0, 5] * 30, "spent": [0.5, 1e6] * 30, "y": ["no", "yes"] * 30})
    columns = {
        "x": {"type": "integer", "bounds": [-(2**52), 2**52]},
        "spent": {"type": "real", "bounds": [0, 2e9], "step": 1e-6},
        "y": {"type": "category", "categories": ["no", "yes"]},
    }
    schema = {
        "columns": columns,
        "label": "y",
        "source": {"ignore": ["who"]},
    }
    return dpicl.protect(
        frame,
        schema,
        epsilon=epsilon,
        account="least",
        budget=50,
        method=method,
        shots=2,
        anyway=True,
    )


@pytest.mark.parametrize("method", CENTRAL)
def test_the_least_epsilon_is_released_and_a_smaller_one_is_never_charged(
    place: Place, method: str
) -> None:
    assert len(_released(pipeline.LEAST_EPSILON, method).demonstrations(2).text().splitlines()) == 2
    spent = list(dpicl.Session().budget())
    with pytest.raises(ParameterError, match="epsilon"):
        _released(1e-20, method)
    assert list(dpicl.Session().budget()) == spent


def test_mutant_numbers_by_pythons_own_reading_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "is_number", lambda text: True)
    assert read_epsilon("1_0") == 10  # what the tests above refuse
    monkeypatch.setattr(pipeline, "LEAST_EPSILON", 5e-324)
    assert read_epsilon("1e-20") == 1e-20
