"""The data holder's command: reports that are remembered, budgets that hold, nothing of the pipeline loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from dpicl.client.reports import tally_reports
from dpicl.contract import Contract, load_contract
from dpicl.errors import DataError
from dpicl.tabular.encode import LocalEncoding, label_codes
from dpicl.tabular.log_linear import log_linear
from dpicl.tabular.observed import observed_tally
from dpicl.tabular.questions import Questionnaire, questionnaire
from dpicl.types import PrivateTable
from tests.harness import shop, shop_rows
from tests.library.examples import random_table, small_contract

HEAVY = ("prefect", "dask", "distributed", "torch", "transformers", "pandas", "sklearn", "great_expectations", "sqlalchemy")


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    path = tmp_path / "shop.yaml"
    path.write_text(yaml.safe_dump(shop(private=True), sort_keys=False))
    return path


def run(contract: Path, records: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dpicl.client", str(contract), "--memory", str(contract.with_name("memory.jsonl")), *arguments]
    return subprocess.run(command, input=records, capture_output=True, text=True, cwd=contract.parent, check=False)


def reports(*arguments: object) -> list[str]:
    done = run(*arguments)  # type: ignore[arg-type]
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.splitlines()


def asked_with(path: Path, epsilon: float) -> Questionnaire:
    declared = load_contract(path)
    assert isinstance(declared, Contract)
    return questionnaire(LocalEncoding.of(declared, "k-ary").sizes, "pairs", epsilon)


def test_asked_again_a_client_gives_the_same_answer_even_if_its_record_has_changed(contract: Path) -> None:
    records = shop_rows(60)
    first = reports(contract, records, "--epsilon", "1")
    assert len(first) == 60 and len(set(first)) > 5
    head, *lines = records.splitlines()
    assert reports(contract, records, "--epsilon", "1") == first
    assert reports(contract, "\n".join([head, *lines[::-1]]) + "\n", "--epsilon", "1") == first
    assert contract.with_name("memory.jsonl").stat().st_mode & 0o777 == 0o600


def test_two_holders_draw_different_noise(contract: Path) -> None:
    first = reports(contract, shop_rows(60), "--epsilon", "1")
    contract.with_name("memory.jsonl").unlink()
    assert reports(contract, shop_rows(60), "--epsilon", "1") != first


def test_collections_of_one_client_add_up_to_no_more_than_the_cap(contract: Path) -> None:
    content, cap = shop(private=True), 5
    content["privacy"]["budget"]["epsilon"] = cap
    contract.write_text(yaml.safe_dump(content, sort_keys=False))
    reports(contract, shop_rows(10), "--epsilon", str(0.75 * cap))
    refused = run(contract, shop_rows(10), "--epsilon", str(0.5 * cap))
    assert refused.returncode == 2 and not refused.stdout
    assert refused.stderr.startswith("dpicl.client: clients: another collection asks epsilon=") and f"of cap {cap:g}" in refused.stderr
    assert reports(contract, shop_rows(10), "--epsilon", str(0.75 * cap))


def test_a_line_that_a_killed_client_broke_off_was_never_sent(contract: Path) -> None:
    first = reports(contract, shop_rows(20), "--epsilon", "1")
    memory = contract.with_name("memory.jsonl")
    memory.write_bytes(memory.read_bytes()[:-10])
    again = reports(contract, shop_rows(20), "--epsilon", "1")
    assert again[:-1] == first[:-1] and reports(contract, shop_rows(20), "--epsilon", "1") == again


def test_a_collector_finds_the_population_in_the_reports(contract: Path) -> None:
    content = shop(private=True)
    content["privacy"]["budget"]["epsilon"] = 100
    contract.write_text(yaml.safe_dump(content, sort_keys=False))
    sent = [json.loads(line) for line in reports(contract, shop_rows(4000), "--epsilon", "8", "--design", "pairs")]
    found = observed_tally(tally_reports(sent, asked_with(contract, 8.0)))
    truth = label_codes(PrivateTable(random_table(small_contract(), 4000, 0)), small_contract())
    share = log_linear(found).reshape(-1, 2).sum(axis=0)
    assert abs(share[1] - truth.mean()) < 0.03


def test_reports_of_another_collection_are_refused(contract: Path) -> None:
    wrong = [{"question": 99, "answer": 0}, {"question": 0, "answer": 10**6}, {"question": 0, "bits": [1, 1]}, {"question": "0"}, {}]
    with pytest.raises(DataError, match=r"no answer to a question of this collection.*\(5"):
        tally_reports(wrong, asked_with(contract, 1.0))


@pytest.mark.parametrize(
    ("records", "arguments", "phrase"),
    [
        ("a,b\n1,2\n", ("--epsilon", "1"), "standard input"),
        ("", ("--epsilon", "1"), "standard input"),
        (None, ("--epsilon", "0"), "expected a finite number > 0"),
        (None, ("--epsilon", "inf"), "expected a finite number > 0"),
        (None, ("--epsilon", "1", "--memory", "shop.yaml"), "is no memory of reports"),
    ],
)
def test_a_mistake_is_one_sentence(contract: Path, records: str | None, arguments: tuple[str, ...], phrase: str) -> None:
    done = run(contract, shop_rows(5) if records is None else records, *arguments)
    assert done.returncode == 2 and not done.stdout and phrase in done.stderr and done.stderr.count("\n") == 1


def test_nothing_of_the_pipeline_is_loaded(contract: Path) -> None:
    code = f"import sys, dpicl.client.__main__; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
