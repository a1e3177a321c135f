"""A7 and D: a number is written in one way, and an epsilon that no noise fits is refused before it is charged."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

import dpicl
from dpicl import pipeline
from dpicl.contract import base
from dpicl.contract.load import parse_contract
from dpicl.errors import DeclarationError, ParameterError
from dpicl.methods import METHODS
from dpicl.pipeline import read_epsilon
from dpicl.yaml_file import parse_yaml
from tests.harness import Place, call_main, complaint, install, new_place, shop, shop_rows

Capture = pytest.CaptureFixture[str]
CENTRAL = [name for name, method in METHODS.items() if method.data == "table" and method.trust == "central"]
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
]
NO_NUMBER = ["true", "1_000", "010", '"1"', "'1.5'", "٣", "0x10", "1,5", "+1", "yes"]
NO_SWITCH = ["1", "0", '"true"', "yes", "on", "t"]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = new_place(tmp_path / "place")
    install(place, shop(private=True), shop_rows(60))
    with place.entered():
        yield place


@pytest.mark.parametrize("text", NO_EPSILON)
def test_another_epsilon_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="expected a number >= 1e-06, or inf"):
        read_epsilon(text)


@pytest.mark.parametrize(("text", "epsilon"), [("1", 1.0), ("0.5", 0.5), ("1e-6", 1e-6), ("1E2", 100.0), ("inf", math.inf)])
def test_an_epsilon_is_a_number_of_json(text: str, epsilon: float) -> None:
    assert read_epsilon(text) == epsilon


def _contract(change: str, key: str) -> Any:
    """The shop's contract with one more value, as it is typed."""
    text = yaml.safe_dump(shop(private=True), sort_keys=False)
    lines = text.splitlines()
    if key == "epsilon":
        lines = [f"{line.split(':')[0]}: {change}" if line.strip().startswith("epsilon:") else line for line in lines]
    else:
        lines.append(f"{key}: {change}")
    return parse_contract(parse_yaml("\n".join(lines).encode(), "shop.yaml"), "shop.yaml")


@pytest.mark.parametrize("text", NO_NUMBER)
@pytest.mark.parametrize("key", ["epsilon", "population"])
def test_a_number_of_a_contract_is_one_of_json(text: str, key: str) -> None:
    with pytest.raises(DeclarationError, match=f"{key}: got .*; expected a (whole )?number as JSON writes it, without quotes"):
        _contract(text, key)


@pytest.mark.parametrize("text", NO_SWITCH)
def test_true_and_false_are_written_as_such(text: str) -> None:
    with pytest.raises(DeclarationError, match="draft: got .*; expected true or false, without quotes"):
        _contract(text, "draft")


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(DeclarationError, match="population: got a number beyond 64 bits"):
        _contract("9" * 4000, "population")


@pytest.mark.parametrize(
    "typed",
    [
        ("budget", "shop", "--cap", "1_0"),
        ("budget", "shop", "--cap", "nan"),
        ("protect", "shop", "--epsilon", "1", "--shots", "1_0", "--out", "out.jsonl"),
        ("protect", "shop", "--epsilon", "1", "--shots", " 2", "--out", "out.jsonl"),
        ("synth", "shop", "--epsilon", "1", "--rows", "١٠", "--out", "out.csv"),
        ("run", "demo", "--seeds", "0_1"),
        ("run", "demo", "--shots", "+2"),
    ],
    ids=" ".join,
)
def test_a_number_of_a_command_is_one_of_json(place: Place, capsys: Capture, typed: tuple[str, ...]) -> None:
    sentence = complaint(call_main(typed, capsys))
    assert "number" in sentence and not (Path("out.jsonl").exists() or Path("out.csv").exists())


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
    return dpicl.protect(frame, schema, epsilon=epsilon, account="least", budget=50, method=method, shots=2, anyway=True)


@pytest.mark.parametrize("method", CENTRAL)
def test_the_least_epsilon_is_released_and_a_smaller_one_is_never_charged(place: Place, method: str) -> None:
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


def test_mutant_texts_taken_for_numbers_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_CHECKS", {})

    class Cap(base.Frozen):
        epsilon: float

    assert [Cap.model_validate({"epsilon": value}).epsilon for value in (True, "1_0", " 3")] == [1, 10, 3]
