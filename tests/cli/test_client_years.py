"""A client for years: one permanent answer, noise anew for each period, pseudonyms that link
nothing, and a questionnaire that grows.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpicl.client.wallet import open_wallet
from dpicl.data.reports import SCHEMA
from tests.cli.holder import held, refusal
from tests.cli.test_client import collection, counted, reports, run, spent
from tests.harness import shop

FIRST, SECOND = "2026-12-01", "2026-12-02"


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    return declare(tmp_path / "shop.yaml")


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    return tmp_path / "memory.jsonl"


def declare(path: Path, **columns: Any) -> Path:
    """The contract, with further columns of two categories."""
    content = shop(path.stem, private=True)
    content["columns"] |= columns
    content["local"] += [
        {
            "name": name,
            "column": name,
            "parts": [[category] for category in column["categories"]],
            "texts": [*column["categories"]],
        }
        for name, column in columns.items()
    ]
    content["prompts"]["local"]["text"] += "".join(f" {{{name}}}" for name in columns)
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def read(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def of_clients(contract: Path, lines: list[str], period: str, **how: Any) -> list[dict[str, Any]]:
    """Reports in the order of clients, which nobody but the wallet knows."""
    asked, by_who = collection(contract, **how), {report["who"]: report for report in read(lines)}
    with open_wallet(contract.with_name("memory.jsonl")) as wallet:
        names = (
            hashlib.sha256(f"client {number}, turn 0".encode()).hexdigest()
            for number in range(len(lines))
        )
        return [by_who[wallet.pseudonym(asked.name, name, period)] for name in names]


def but_who(sent: list[dict[str, Any]], **others: Any) -> list[dict[str, Any]]:
    return [{**report, **others, "who": 0} for report in sent]


def test_a_report_says_who_to_its_own_collection_and_period_alone(
    contract: Path, memory: Path
) -> None:
    more = {"first": "", "again": "", "period": f" --period {FIRST}", "design": " --design pairs"}
    how = "--epsilon 1 --cap 10"
    sent = {name: reports(contract, held(5), how + words) for name, words in more.items()}
    plain = of_clients(contract, sent["first"], "once", epsilon=1)
    dated = of_clients(contract, sent["period"], FIRST, epsilon=1)
    assert but_who(plain, period=FIRST) == but_who(dated)
    memory.unlink()
    sent["other wallet"] = reports(contract, held(5), how)
    who = [{report["who"] for report in read(lines)} for lines in sent.values()]
    assert sent["first"] == sent["again"] and all(len(names) == 5 for names in who)
    # none is the same twice
    assert len(set().union(*who)) == 4 * 5
    assert {*read(sent["first"])[0]} == {*SCHEMA.names} - {"period", "bits"}


def test_noise_is_drawn_anew_for_each_period_and_once_in_it_and_the_answer_is_paid_once(
    contract: Path, memory: Path
) -> None:
    records, how = held(400), "--epsilon 2 --sending-epsilon 1 --period"
    first, second, again = (
        reports(contract, records, f"{how} {period}") for period in (FIRST, SECOND, FIRST)
    )
    assert again == first
    asked = {"epsilon": 2.0, "sending_epsilon": 1.0}
    cells = [
        [
            (report["question"], report["answer"])
            for report in of_clients(contract, lines, period, **asked)
        ]
        for lines, period in ((first, FIRST), (second, SECOND))
    ]
    same = sum(cell == other for cell, other in zip(*cells, strict=True))
    questions = [[question for question, _ in of_period] for of_period in cells]
    assert 0.2 * 400 < same < 0.9 * 400 and questions[0] == questions[1]
    # any number of sendings is of one answer
    assert spent(memory) == pytest.approx(2, rel=1e-3)
    _, found = counted(contract, [*first, *second, *first], FIRST, **asked)
    assert (found.counted, found.duplicate, found.elsewhen) == (400, 400, 400)
    # its law is another one
    assert counted(contract, first, FIRST, epsilon=2.0)[1].foreign == 400
    plain = read(reports(contract, records, "--epsilon 2"))
    # the permanent answer is the same one
    assert spent(memory) == pytest.approx(2, rel=1e-3)
    assert {report["question"] for report in plain} == {*questions[0]}


@pytest.mark.parametrize("sending", ["2", "0"])
def test_a_sending_that_tells_no_less_than_the_answer_is_refused(
    contract: Path, memory: Path, sending: str
) -> None:
    refused = run(contract, held(3), f"--epsilon 1 --sending-epsilon {sending}")
    assert "sending epsilon" in refusal(refused) and not memory.exists()


def test_a_contract_that_gains_a_column_is_another_collection_and_costs_anew_under_the_cap(
    contract: Path, memory: Path
) -> None:
    before = reports(contract, held(6), "--epsilon 1 --cap 1.5")
    pets = {"type": "category", "categories": ["none", "some"]}
    grown = declare(contract.with_name("grown.yaml"), pets=pets)
    head, *lines = held(6).splitlines()
    with_pets = "\n".join([f"{head},pets", *(f"{line},some" for line in lines), ""])
    assert "of cap 1.5 is spent" in refusal(run(grown, with_pets, "--epsilon 1"))
    alone = reports(grown, with_pets, "--epsilon 0.5 --design pairs --about pets")
    asked = collection(grown, epsilon=0.5, design="pairs", about=["pets"])
    assert {report["collection"] for report in read(alone)} == {asked.name}
    assert len(asked.questions.questions) == 1 and spent(memory) == pytest.approx(1.5, rel=1e-3)
    # earlier answers stand, and cost nothing
    assert reports(contract, held(6)) == before
    assert counted(contract, alone, epsilon=1.0)[1].foreign == 6


def test_a_key_that_a_kill_broke_off_was_never_used(contract: Path, memory: Path) -> None:
    (first,) = read(reports(contract, held(1)))
    memory.write_bytes(memory.read_bytes()[:-20])
    (again,) = read(reports(contract, held(1)))
    assert again["who"] != first["who"] and again["question"] == first["question"]
