"""The public functions refuse an argument of another type by one sentence that names it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpicl
from dpicl.ground.errors import ParameterError, one_of
from dpicl.ground.typed_calls import typed_call

SCHEMA = {"columns": {"age": {"type": "integer", "bounds": [0, 120]}}}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"options": [1]}, "options=<list>: expected a mapping"),
        ({"anyway": "no"}, "anyway='no': expected True or False"),
        ({"shots": "4"}, "shots='4': expected a whole number"),
        ({"shots": True}, "shots=True: expected a whole number"),
        ({"trust": None}, "trust=<NoneType>: expected a text"),
        ({"population": 2.5}, "population=2.5: expected a whole number"),
        ({"epsilon": "1"}, "epsilon='1': expected a number"),
        ({"epsilon": True}, "epsilon=True: expected a number"),
        ({"epsilon": None}, "epsilon=<NoneType>: expected a number"),
        ({"budget": "3"}, "budget='3': expected a number"),
        ({"population": "90"}, "population='90': expected a whole number"),
        ({"window": "2"}, "window='2': expected a whole number"),
    ],
)
@pytest.mark.parametrize("call", ["protect", "quote"])
def test_an_argument_of_another_type_is_named(
    tmp_path: Path, changes: dict[str, Any], sentence: str, call: str
) -> None:
    session = dpicl.Session(tmp_path / "home")
    with pytest.raises(ParameterError, match=sentence):
        getattr(session, call)("rows.csv", SCHEMA, **{"epsilon": 1} | changes)
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("call", "changes", "sentence"),
    [
        ("ask", {"epsilon": "1"}, "epsilon='1': expected a number"),
        ("ask", {"epsilon": 1, "count": "9"}, "count='9': expected a whole number"),
        ("collect", {"epsilon": "1"}, "epsilon='1': expected a number"),
        ("collect", {"epsilon": 1, "sending_epsilon": "1"}, "sending_epsilon='1': expected a num"),
        ("plan", {"rows": "9"}, "rows='9': expected a whole number"),
        ("plan", {"epsilons": ["1"]}, "epsilons=<list>: expected a list of numbers"),
        ("plan", {"epsilons": "1"}, "epsilons='1': expected a list of numbers"),
    ],
)
def test_a_text_is_no_number_of_any_call(
    tmp_path: Path, call: str, changes: dict[str, Any], sentence: str
) -> None:
    session = dpicl.Session(tmp_path / "home")
    places = {"ask": ("letters", ["Who?"]), "collect": ("shop", "reports"), "plan": (SCHEMA,)}
    with pytest.raises(ParameterError, match=sentence):
        getattr(session, call)(*places[call], **changes)


@pytest.mark.parametrize("value", [1, 1.0, np.float32(1), np.int8(1), Fraction(1), Decimal(1)])
def test_every_number_is_one(value: Any) -> None:
    @typed_call
    def called(epsilon: float, epsilons: Sequence[float] = ()) -> float:
        return float(epsilon)

    assert called(value, [value, value]) == called(value, np.array([1.0, 2])) == 1


@pytest.mark.parametrize("rows", ["10", 2.5, True])
def test_an_example_has_a_number_of_rows(rows: Any) -> None:
    with pytest.raises(ParameterError, match="rows=.*: expected a whole number"):
        dpicl.example(rows)


def test_a_single_query_is_no_list_of_letters(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="queries='Who.*: expected a list of texts"):
        dpicl.Session(tmp_path).ask("letters", "Who wrote?", epsilon=1)


def test_numbers_of_numpy_are_numbers_and_what_is_private_is_not_shown() -> None:
    @typed_call
    def called(count: int, anyway: bool = False) -> int:
        return int(count) + int(anyway)

    assert called(np.int64(3), anyway=np.True_) == 4
    with pytest.raises(ParameterError) as refused:
        called({"a name": "a secret"})  # type: ignore[arg-type]
    assert "secret" not in str(refused.value)
    with pytest.raises(TypeError, match="missing a required argument"):
        called()  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("adlt", "one of these (did you mean 'adult'?): adult, some"), ("zzz", "one of adult, some")],
)
def test_a_close_name_is_asked_for_before_a_long_list(name: str, expected: str) -> None:
    known = ["adult", *(f"some_longer_table_{number}" for number in range(90))]
    sentence = str(ParameterError("dataset", name, one_of(name, known)))
    assert sentence.startswith(f"dataset={name}: expected {expected}")
    assert sentence.endswith("…") and one_of("aa", ["aab", "b"]).endswith("; did you mean 'aab'?")
