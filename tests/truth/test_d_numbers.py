"""D: a number is written in one way, as JSON has it: in contracts and in commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpicl.contract import base
from dpicl.contract.load import parse_contract
from dpicl.ground.errors import DeclarationError
from dpicl.ground.yaml_file import parse_yaml
from tests.harness import Place, call_main, complaint, install, new_place, shop, shop_rows

Capture = pytest.CaptureFixture[str]
NO_NUMBER = ["true", "1_000", "010", '"1"', "'1.5'", "٣", "0x10", "1,5", "+1", "yes"]
NO_SWITCH = ["1", "0", '"true"', "yes", "on", "t"]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = new_place(tmp_path / "place")
    install(place, shop(private=True), shop_rows(60))
    with place.entered():
        yield place


def _contract(change: str, key: str) -> Any:
    """The shop's contract with one more value, as it is typed."""
    text = yaml.safe_dump(shop(private=True), sort_keys=False)
    lines = text.splitlines()
    if key == "epsilon":
        lines = [
            f"{line.split(':')[0]}: {change}" if line.strip().startswith("epsilon:") else line
            for line in lines
        ]
    else:
        lines.append(f"{key}: {change}")
    return parse_contract(parse_yaml("\n".join(lines).encode(), "shop.yaml"), "shop.yaml")


@pytest.mark.parametrize("text", NO_NUMBER)
@pytest.mark.parametrize("key", ["epsilon", "population"])
def test_a_number_of_a_contract_is_one_of_json(text: str, key: str) -> None:
    with pytest.raises(
        DeclarationError,
        match=f"{key}: got .*; expected a (whole )?number as JSON writes it, without quotes",
    ):
        _contract(text, key)


@pytest.mark.parametrize(
    "text", ["١", "١/٢", "1_0/2_0", "' 1/2 '", "+1/2", "'.5'", "'1/10\n'", "1/-2", "inf", "nan"]
)
def test_so_is_a_rate_or_a_fraction_of_two(text: str) -> None:
    content = shop(private=True)
    content["privacy"]["sampling_rate"] = parse_yaml(f"r: {text}".encode(), "r.yaml")["r"]
    with pytest.raises(DeclarationError, match="sampling_rate: got .*a fraction such as 1/10"):
        parse_contract(content, "shop.yaml")
    for sound in (0.5, 1, "0.5", "1/2", "1e-3"):
        content["privacy"]["sampling_rate"] = sound
        parse_contract(content, "shop.yaml")


@pytest.mark.parametrize("text", NO_SWITCH)
def test_true_and_false_are_written_as_such(text: str) -> None:
    with pytest.raises(
        DeclarationError, match="draft: got .*; expected true or false, without quotes"
    ):
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
def test_a_number_of_a_command_is_one_of_json(
    place: Place, capsys: Capture, typed: tuple[str, ...]
) -> None:
    sentence = complaint(call_main(typed, capsys))
    assert "number" in sentence and not (Path("out.jsonl").exists() or Path("out.csv").exists())


def test_mutant_texts_taken_for_numbers_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_CHECKS", {})

    class Cap(base.Frozen):
        epsilon: float

    assert [Cap.model_validate({"epsilon": value}).epsilon for value in (True, "1_0", " 3")] == [
        1,
        10,
        3,
    ]
