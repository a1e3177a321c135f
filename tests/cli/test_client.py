"""The data holder's command: reports that are remembered, budgets that hold, nothing of the
pipeline loaded.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpicl.contract import Contract, load_contract
from dpicl.methods.collection import Collection
from dpicl.tabular.local.log_linear import log_linear
from dpicl.tabular.local.observed import observed_tally
from dpicl.tabular.local.tally import Tally
from dpicl.tabular.reading.encode import LocalEncoding, label_codes
from dpicl.tabular.reports.check import Checker
from dpicl.tabular.reports.count import Received
from dpicl.types import PrivateTable
from tests.cli.holder import data_holder
from tests.harness import shop, shop_rows
from tests.library.examples import random_table, small_contract
from tests.library.tabular.received import count_reports

HEAVY = (
    "prefect",
    "dask",
    "distributed",
    "torch",
    "transformers",
    "pandas",
    "sklearn",
    "great_expectations",
    "sqlalchemy",
)


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    path = tmp_path / "shop.yaml"
    path.write_text(yaml.safe_dump(shop(private=True), sort_keys=False))
    return path


def held(count: int) -> str:
    """Made-up records, each of a client of its own."""
    head, *lines = shop_rows(count).splitlines()
    return (
        "\n".join(
            [f"{head},who", *(f"{line},client {number}" for number, line in enumerate(lines))]
        )
        + "\n"
    )


def run(contract: Path, records: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    memory = contract.with_name("memory.jsonl")
    return data_holder(
        contract,
        "--memory",
        memory,
        "--id",
        "who",
        *arguments,
        records=records,
        folder=contract.parent,
    )


def reports(*arguments: object) -> list[str]:
    done = run(*arguments)  # type: ignore[arg-type]
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.splitlines()


def collection(path: Path, **how: Any) -> Collection:
    """As the collector knows it."""
    declared = load_contract(path)
    assert isinstance(declared, Contract)
    return Collection.of(declared, **how)


def counted(
    path: Path, sent: list[str], period: str = "once", **how: Any
) -> tuple[Tally, Received]:
    """What a collector counts of these lines."""
    (path.parent / "reports").mkdir(exist_ok=True)
    (path.parent / "reports" / "one.jsonl").write_text("".join(f"{line}\n" for line in sent))
    asked = collection(path, **how)
    return count_reports(
        str(path.parent / "reports"), Checker(asked.name, asked.sent_questions, period)
    )


def test_asked_again_a_client_gives_the_same_answer_even_if_its_record_has_changed(
    contract: Path,
) -> None:
    records = held(60)
    first = reports(contract, records, "--epsilon", "1")
    assert len(first) == 60 and len(set(first)) > 5
    head, *lines = records.splitlines()
    changed = [
        f"{other.rpartition(',')[0]},{line.rpartition(',')[2]}"
        for line, other in zip(lines, lines[::-1], strict=True)
    ]
    assert reports(contract, "\n".join([head, *changed]) + "\n", "--epsilon", "1") == first
    some = reports(contract, "\n".join([head, *lines[::-2]]) + "\n", "--epsilon", "1")
    assert len(some) == 30 and some == [line for line in first if line in some]
    assert contract.with_name("memory.jsonl").stat().st_mode & 0o777 == 0o600


def test_the_order_of_reports_tells_nothing_of_that_of_records(contract: Path) -> None:
    """Sorted by what they hold, lines would tell it of each client; and those of two periods be of
    one client each.
    """
    head, *lines = held(60).splitlines()
    texts = ["\n".join([head, *some]) + "\n" for some in (lines, sorted(lines), lines[::-1])]
    assert len({tuple(reports(contract, text, "--epsilon", "1")) for text in texts}) == 1
    orders = []
    for period in ("2026-12-01", "2026-12-02"):
        sent = [
            json.loads(line)
            for line in reports(contract, texts[0], "--epsilon", "1", "--period", period)
        ]
        orders.append([one["question"] for one in sent])
    assert orders[0] != orders[1]


def test_two_holders_draw_different_noise(contract: Path) -> None:
    first = reports(contract, held(60), "--epsilon", "1")
    contract.with_name("memory.jsonl").unlink()
    assert reports(contract, held(60), "--epsilon", "1") != first


def test_collections_of_one_client_add_up_to_no_more_than_the_cap(contract: Path) -> None:
    content, cap = shop(private=True), 3
    content["privacy"]["budget"]["epsilon"] = cap
    contract.write_text(yaml.safe_dump(content, sort_keys=False))
    reports(contract, held(10), "--epsilon", str(0.75 * cap))
    refused = run(contract, held(10), "--epsilon", str(0.5 * cap))
    assert refused.returncode == 2 and not refused.stdout
    assert (
        refused.stderr.startswith("dpicl.client: clients: another collection asks epsilon=")
        and f"of cap {cap:g}" in refused.stderr
    )
    assert reports(contract, held(10), "--epsilon", str(0.75 * cap))


@pytest.mark.parametrize("cap", ["nan", "inf", "0", "-1"])
def test_a_cap_that_is_no_number_above_zero_is_refused(contract: Path, cap: str) -> None:
    refused = run(contract, held(3), "--epsilon", "1", "--cap", cap)
    assert (
        refused.returncode == 2
        and not refused.stdout
        and "cap" in refused.stderr
        and "a finite number > 0" in refused.stderr
    )


def test_the_smaller_of_both_caps_holds(contract: Path) -> None:
    content = shop(private=True)
    content["privacy"]["budget"]["epsilon"] = 5
    contract.write_text(yaml.safe_dump(content, sort_keys=False))
    for epsilon, cap, told in (
        ("2", "1", "of cap 1"),
        ("6", "8", "of cap 5"),
        ("6", "4", "of cap 4"),
    ):
        assert told in run(contract, held(3), "--epsilon", epsilon, "--cap", cap).stderr


def test_a_line_that_a_killed_client_broke_off_was_never_sent(contract: Path) -> None:
    first = reports(contract, held(20), "--epsilon", "1")
    memory = contract.with_name("memory.jsonl")
    memory.write_bytes(memory.read_bytes()[:-10])
    again = reports(contract, held(20), "--epsilon", "1")
    assert len({*first} & {*again}) >= 19 and reports(contract, held(20), "--epsilon", "1") == again


def test_a_collector_finds_the_population_in_the_reports(contract: Path) -> None:
    content = shop(private=True)
    content["privacy"]["budget"]["epsilon"] = 100
    contract.write_text(yaml.safe_dump(content, sort_keys=False))
    sent = reports(contract, held(4000), "--epsilon", "8", "--cap", "8", "--design", "pairs")
    found = observed_tally(counted(contract, sent, epsilon=8.0, design="pairs")[0])
    truth = label_codes(PrivateTable(random_table(small_contract(), 4000, 0)), small_contract())
    share = log_linear(found).reshape(-1, 2).sum(axis=0)
    assert abs(share[1] - truth.mean()) < 0.03


def test_clients_say_whether_named_columns_agree_with_the_label(contract: Path) -> None:
    encoding = LocalEncoding.of(collection(contract, epsilon=1.0).contract, "k-ary")
    name = encoding.names[1]
    sent = reports(contract, held(40), "--epsilon", "1", "--design", "agreement", "--about", name)
    tally, _ = counted(contract, sent, epsilon=1.0, design="agreement", about=[name])
    assert tally.clients == 40
    assert {question.columns for question in tally.questionnaire.questions} == {
        (1, len(encoding.sizes) - 1)
    }
    refused = run(contract, held(3), "--epsilon", "1", "--design", "pairs", "--about", "nothing")
    assert refused.returncode == 2 and "about" in refused.stderr and name in refused.stderr
    everything = run(contract, held(40), "--epsilon", "1", "--design", "agreement", "--cap", "1")
    assert everything.returncode == 2 and "another collection" in everything.stderr


def test_a_memory_with_costs_as_text_is_read(contract: Path) -> None:
    first = reports(contract, held(5), "--epsilon", "1")
    memory = contract.with_name("memory.jsonl")
    memory.write_text(re.sub(r'"epsilon": ([0-9.]+)', r'"epsilon": "\1"', memory.read_text()))
    assert (
        '"epsilon": "' in memory.read_text()
        and reports(contract, held(5), "--epsilon", "1") == first
    )
    assert (
        "of cap 1.5 is spent" in run(contract, held(5), "--epsilon", "0.75", "--cap", "1.5").stderr
    )


def test_a_file_that_is_no_memory_is_left_alone(contract: Path) -> None:
    for content in ('{"a": 1}', "a,b\n1,2", '{"collection": "x"}\nhalf'):
        contract.with_name("memory.jsonl").write_text(content)
        assert "is no wallet of reports" in run(contract, held(5), "--epsilon", "1").stderr
        assert contract.with_name("memory.jsonl").read_text() == content


def test_a_single_record_is_the_holder_s_own(contract: Path) -> None:
    head, first, *_ = shop_rows(5).splitlines()
    command = [
        sys.executable,
        "-m",
        "dpicl.client",
        str(contract),
        "--memory",
        str(contract.with_name("m")),
        "--epsilon",
        "1",
    ]
    sent = [
        subprocess.run(
            command, input=f"{head}\n{first}\n", capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert sent[0] == sent[1] and sent[0].count("\n") == 1


@pytest.mark.parametrize(
    ("records", "arguments", "phrase"),
    [
        ("a,b\n1,2\n", ("--epsilon", "1"), "standard input"),
        ("", ("--epsilon", "1"), "standard input"),
        (None, ("--epsilon", "0"), "expected a finite number > 0"),
        (None, ("--epsilon", "inf"), "expected a finite number > 0"),
        (None, ("--epsilon", "1", "--memory", "shop.yaml"), "is no wallet of reports"),
        (None, ("--epsilon", "1", "--id", "nobody"), "standard input"),
        (None, ("--epsilon", "1", "--columns", "-1"), "columns"),
        (
            None,
            ("--epsilon", "1", "--columns", "2", "--design", "pairs"),
            "expected `design: subset`",
        ),
        (None, ("--epsilon", "9", "--cap", "5"), "of cap 5"),
        (held(3).replace("client 1", "client 0"), ("--epsilon", "1"), "names a client twice"),
        (shop_rows(3), ("--epsilon", "1"), "expected --id COLUMN"),
    ],
)
def test_a_mistake_is_one_sentence(
    contract: Path, records: str | None, arguments: tuple[str, ...], phrase: str
) -> None:
    done = run(contract, held(5) if records is None else records, *arguments)
    assert (
        done.returncode == 2
        and not done.stdout
        and phrase in done.stderr
        and done.stderr.count("\n") == 1
    )


def test_nothing_of_the_pipeline_is_loaded(contract: Path) -> None:
    code = (
        f"import sys, dpicl.client.__main__; print([name for name in {HEAVY!r} if name in "
        f"sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )
