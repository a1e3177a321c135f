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
from dpicl.tabular.reports.schema import SCHEMA
from tests.cli.test_client import collection, counted, held, run
from tests.harness import shop

FIRST, SECOND = "2026-12-01", "2026-12-02"


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    return declare(tmp_path / "shop.yaml")


def declare(path: Path, **columns: Any) -> Path:
    """The contract, with further columns of two categories."""
    content = shop(path.stem, private=True)
    content["columns"] = {**content["columns"], **columns}
    new = [
        {
            "name": name,
            "column": name,
            "parts": [[one] for one in column["categories"]],
            "texts": [*column["categories"]],
        }
        for name, column in columns.items()
    ]
    content["local"] = [*content["local"], *new]
    content["prompts"]["local"]["text"] += "".join(f" {{{name}}}" for name in columns)
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def reports(contract: Path, records: str, *arguments: str) -> list[str]:
    done = run(contract, records, *arguments)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return str(done.stdout).splitlines()


def read(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def of_clients(contract: Path, lines: list[str], period: str, **how: Any) -> list[dict[str, Any]]:
    """Reports in the order of clients, which nobody but the wallet knows."""
    asked, by_who = collection(contract, **how), {one["who"]: one for one in read(lines)}
    with open_wallet(contract.with_name("memory.jsonl")) as wallet:
        names = [
            hashlib.sha256(f"client {number}, turn 0".encode()).hexdigest()
            for number in range(len(lines))
        ]
        return [by_who[wallet.pseudonym(asked.name, name, period)] for name in names]


def spent(contract: Path) -> float:
    lines = read(contract.with_name("memory.jsonl").read_text().splitlines())
    return sum(line["epsilon"] for line in lines if "epsilon" in line)


def test_a_report_says_who_to_its_own_collection_and_period_alone(contract: Path) -> None:
    records = held(5)
    how = ("--epsilon", "1", "--cap", "10")
    sent = {
        "first": reports(contract, records, *how),
        "again": reports(contract, records, *how),
        "period": reports(contract, records, *how, "--period", FIRST),
        "design": reports(contract, records, *how, "--design", "pairs"),
    }
    plain, dated = (
        of_clients(contract, sent[name], period, epsilon=1)
        for name, period in (("first", "once"), ("period", FIRST))
    )
    assert [{**one, "period": FIRST, "who": 0} for one in plain] == [
        {**one, "who": 0} for one in dated
    ]
    contract.with_name("memory.jsonl").unlink()
    sent["other wallet"] = reports(contract, records, *how)
    who = {name: {one["who"] for one in read(lines)} for name, lines in sent.items()}
    assert sent["first"] == sent["again"] and all(len(names) == 5 for names in who.values())
    assert len(set().union(*who.values())) == 4 * 5, "none is the same twice"
    assert {*read(sent["first"])[0]} == {*SCHEMA.names} - {"period", "bits"}


def test_noise_is_drawn_anew_for_each_period_and_once_in_it_and_the_answer_is_paid_once(
    contract: Path,
) -> None:
    records, how = held(400), ("--epsilon", "2", "--sending-epsilon", "1")
    first = reports(contract, records, *how, "--period", FIRST)
    second = reports(contract, records, *how, "--period", SECOND)
    assert reports(contract, records, *how, "--period", FIRST) == first
    asked = {"epsilon": 2.0, "sending_epsilon": 1.0}
    ordered = [
        of_clients(contract, lines, period, **asked)
        for lines, period in ((first, FIRST), (second, SECOND))
    ]
    cells = [[(one["question"], one["answer"]) for one in lines] for lines in ordered]
    same = sum(one == other for one, other in zip(*cells, strict=True))
    assert 0.2 * 400 < same < 0.9 * 400 and [one[0] for one in cells[0]] == [
        one[0] for one in cells[1]
    ]
    assert spent(contract) == pytest.approx(2, rel=1e-3), "any number of sendings is of one answer"
    _, found = counted(contract, [*first, *second, *first], FIRST, **asked)
    assert (found.counted, found.duplicate, found.elsewhen) == (400, 400, 400)
    assert counted(contract, first, FIRST, epsilon=2.0)[1].foreign == 400, "its law is another one"
    plain = reports(contract, records, "--epsilon", "2")
    assert spent(contract) == pytest.approx(2, rel=1e-3), (
        "the permanent answer itself is the same one"
    )
    assert {one["question"] for one in read(plain)} == {one[0] for one in cells[0]}


@pytest.mark.parametrize("sending", ["2", "0", pytest.param("nan", marks=pytest.mark.exhaustive)])
def test_a_sending_that_tells_no_less_than_the_answer_is_refused(
    contract: Path, sending: str
) -> None:
    refused = run(contract, held(3), "--epsilon", "1", "--sending-epsilon", sending)
    assert refused.returncode == 2 and not refused.stdout and "sending epsilon" in refused.stderr
    assert not contract.with_name("memory.jsonl").exists()


def test_a_contract_that_gains_a_column_is_another_collection_and_costs_anew_under_the_cap(
    contract: Path, tmp_path: Path
) -> None:
    records, cap = held(6), ("--cap", "1.5")
    before = reports(contract, records, "--epsilon", "1", *cap)
    grown = declare(
        tmp_path / "grown.yaml", pets={"type": "category", "categories": ["none", "some"]}
    )
    with_pets = (
        "\n".join(
            f"{line},{'pets' if not number else 'some'}"
            for number, line in enumerate(records.splitlines())
        )
        + "\n"
    )
    refused = run(grown, with_pets, "--epsilon", "1")
    assert (
        refused.returncode == 2 and not refused.stdout and "of cap 1.5 is spent" in refused.stderr
    )
    alone = read(
        reports(grown, with_pets, "--epsilon", "0.5", "--design", "pairs", "--about", "pets")
    )
    asked = collection(grown, epsilon=0.5, design="pairs", about=["pets"])
    assert {one["collection"] for one in alone} == {asked.name} and len(
        asked.questions.questions
    ) == 1
    assert spent(contract) == pytest.approx(1.5, rel=1e-3)
    assert reports(contract, records, "--epsilon", "1") == before, (
        "the answers of before stand, and cost nothing"
    )
    assert counted(contract, [json.dumps(one) for one in alone], epsilon=1.0)[1].foreign == 6


def test_a_wallet_of_before_there_were_pseudonyms_keeps_its_answers(contract: Path) -> None:
    first = of_clients(contract, reports(contract, held(5), "--epsilon", "1"), "once", epsilon=1)
    memory = contract.with_name("memory.jsonl")
    memory.write_text(
        "".join(f"{line}\n" for line in memory.read_text().splitlines() if '"key"' not in line)
    )
    again = of_clients(contract, reports(contract, held(5), "--epsilon", "1"), "once", epsilon=1)
    assert [{**one, "who": 0} for one in again] == [{**one, "who": 0} for one in first]
    memory.write_text(memory.read_text() + '{"key": "12"}\n')
    assert "is no wallet of reports" in run(contract, held(5), "--epsilon", "1").stderr


def test_a_key_that_a_kill_broke_off_was_never_used(contract: Path) -> None:
    first = read(reports(contract, held(1), "--epsilon", "1"))
    memory = contract.with_name("memory.jsonl")
    memory.write_bytes(memory.read_bytes()[:-20])
    again = read(reports(contract, held(1), "--epsilon", "1"))
    assert again[0]["who"] != first[0]["who"] and again[0]["question"] == first[0]["question"]
