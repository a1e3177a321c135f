"""The data holder's command: reports that are remembered, a wallet against its collector, nothing
of the pipeline loaded.
"""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpicl.contract import Contract, load_contract
from dpicl.data.local.questions import Tally
from dpicl.data.reading.encode import LocalEncoding
from dpicl.data.report_counts import Received
from dpicl.data.reports import Checker
from dpicl.methods.collection import Collection
from tests.cli.holder import data_holder, held, refusal
from tests.harness import python, shop, shop_rows
from tests.library.tabular.received import count_reports

HEAVY = "prefect dask distributed torch transformers pandas sklearn great_expectations sqlalchemy"
NO_WALLET = "is no wallet of reports"


def collector(folder: Path, name: str, cap: float | None = 1000) -> Path:
    """A contract that a collector sends; None is a benchmark, which has no cap."""
    content = shop(name, private=cap is not None)
    if cap is not None:
        content["privacy"]["budget"]["epsilon"] = cap
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    return collector(tmp_path, "shop")


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    return tmp_path / "memory.jsonl"


def run(contract: Path, records: str, line: str) -> subprocess.CompletedProcess[str]:
    typed = f"{contract} --memory {contract.with_name('memory.jsonl')} --id who {line}"
    return data_holder(typed, records, contract.parent)


def reports(contract: Path, records: str, line: str = "--epsilon 1") -> list[str]:
    done = run(contract, records, line)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.splitlines()


def alone(contract: Path, line: str) -> subprocess.CompletedProcess[str]:
    """The report of one record, which needs no name."""
    typed = f"{contract} --memory {contract.with_name('memory.jsonl')} {line}"
    return data_holder(typed, shop_rows(1), contract.parent)


def spent(memory: Path) -> float:
    lines = map(json.loads, memory.read_text().splitlines())
    return math.fsum(line.get("epsilon", 0) for line in lines)


def collection(path: Path, **how: Any) -> Collection:
    """As the collector knows it."""
    declared = load_contract(path)
    assert isinstance(declared, Contract)
    return Collection.of(declared, **how)


def counted(
    path: Path, sent: list[str], period: str = "once", **how: Any
) -> tuple[Tally, Received]:
    """What a collector counts of these lines."""
    folder = path.parent / "reports"
    folder.mkdir(exist_ok=True)
    (folder / "one.jsonl").write_text("".join(f"{line}\n" for line in sent))
    asked = collection(path, **how)
    return count_reports(str(folder), Checker(asked.name, asked.sent_questions, period))


# What is sent.


def test_asked_again_a_client_gives_the_same_answer_even_if_its_record_has_changed(
    contract: Path, memory: Path
) -> None:
    first = reports(contract, held(60))
    assert len(first) == 60 and len(set(first)) > 5
    head, *lines = held(60).splitlines()
    changed = [
        f"{other.rpartition(',')[0]},{line.rpartition(',')[2]}"
        for line, other in zip(lines, lines[::-1], strict=True)
    ]
    assert reports(contract, "\n".join([head, *changed, ""])) == first
    some = reports(contract, "\n".join([head, *lines[::-2], ""]))
    assert len(some) == 30 and some == [line for line in first if line in some]
    assert memory.stat().st_mode & 0o777 == 0o600


def test_the_order_of_reports_tells_nothing_of_that_of_records(contract: Path) -> None:
    """Sorted by what they hold, lines would tell it of each client; and those of two periods be of
    one client each.
    """
    head, *lines = held(60).splitlines()
    texts = ["\n".join([head, *some, ""]) for some in (lines, sorted(lines), lines[::-1])]
    assert len({tuple(reports(contract, text)) for text in texts}) == 1
    orders = [
        [json.loads(line)["question"] for line in reports(contract, texts[0], dated)]
        for dated in ("--epsilon 1 --period 2026-12-01", "--epsilon 1 --period 2026-12-02")
    ]
    assert orders[0] != orders[1]


def test_two_holders_draw_different_noise(contract: Path, memory: Path) -> None:
    first = reports(contract, held(60))
    memory.unlink()
    assert reports(contract, held(60)) != first


def test_a_line_that_a_killed_client_broke_off_was_never_sent(contract: Path, memory: Path) -> None:
    first = reports(contract, held(20))
    memory.write_bytes(memory.read_bytes()[:-10])
    again = reports(contract, held(20))
    assert len({*first} & {*again}) >= 19 and reports(contract, held(20)) == again


def test_clients_say_whether_named_columns_agree_with_the_label(contract: Path) -> None:
    encoding = LocalEncoding.of(collection(contract, epsilon=1.0).contract, "k-ary")
    name = encoding.names[1]
    sent = reports(contract, held(40), f"--epsilon 1 --design agreement --about {name}")
    tally, _ = counted(contract, sent, epsilon=1.0, design="agreement", about=[name])
    assert tally.clients == 40
    assert {question.columns for question in tally.questionnaire.questions} == {
        (1, len(encoding.sizes) - 1)
    }
    refused = refusal(run(contract, held(3), "--epsilon 1 --design pairs --about nothing"))
    assert "about" in refused and name in refused
    everything = run(contract, held(40), "--epsilon 1 --design agreement --cap 1")
    assert "another collection" in refusal(everything)


def test_a_single_record_is_the_holder_s_own(contract: Path) -> None:
    record, typed = shop_rows(1), f"{contract} --memory m --epsilon 1"
    command = [sys.executable, "-m", "dpicl.client", *typed.split()]
    first = subprocess.run(
        command, input=record, cwd=contract.parent, stdout=-1, text=True, check=True
    ).stdout
    assert first == data_holder(typed, record, contract.parent).stdout
    assert first.count("\n") == 1


def test_a_record_with_missing_values_answers_and_nothing_but_its_report_tells(
    contract: Path, memory: Path
) -> None:
    head, line = shop_rows(1).splitlines()
    nonsense = line.replace(line.split(",")[0], "nonsense")
    for record in (line, "," * line.count(","), nonsense):
        memory.unlink(missing_ok=True)
        typed = f"{contract} --epsilon 1 --memory {memory}"
        done = data_holder(typed, f"{head}\n{record}\n", contract.parent)
        assert done.returncode == 0 and done.stdout.count("\n") == 1 and done.stderr == ""


@pytest.mark.parametrize(
    ("records", "line", "phrase"),
    [
        ("a,b\n1,2\n", "--epsilon 1", "standard input"),
        ("", "--epsilon 1", "standard input"),
        (None, "--epsilon 0", "expected a finite number > 0"),
        (None, "--epsilon inf", "expected a finite number > 0"),
        (None, "--epsilon 1 --memory shop.yaml", NO_WALLET),
        (None, "--epsilon 1 --id nobody", "standard input"),
        (None, "--epsilon 1 --columns -1", "columns"),
        (None, "--epsilon 1 --columns 2 --design pairs", "expected `design: subset`"),
        (None, "--epsilon 9 --cap 5", "of cap 5"),
        *((None, f"--epsilon 1 --cap {cap}", "a finite number > 0") for cap in ("nan", "inf", -1)),
        (held(3).replace("client 1", "client 0"), "--epsilon 1", "names a client twice"),
        (shop_rows(3), "--epsilon 1", "expected --id COLUMN"),
    ],
)
def test_a_mistake_is_one_sentence(
    contract: Path, records: str | None, line: str, phrase: str
) -> None:
    assert phrase in refusal(run(contract, held(5) if records is None else records, line))


def test_nothing_of_the_pipeline_is_loaded() -> None:
    code = f"import sys, dpicl.client.__main__; print({{*{HEAVY!r}.split()}} & {{*sys.modules}})"
    assert python(code) == "set()"


# What it may cost, whatever contracts ask.


def test_a_second_contract_of_the_collector_s_own_gets_nothing_once_the_cap_is_spent(
    contract: Path, memory: Path
) -> None:
    assert alone(contract, "--epsilon 2 --cap 2").returncode == 0
    before = memory.read_bytes()
    for name, cap in (("survey2", 1000), ("survey3", None)):
        second = collector(contract.parent, name, cap)
        refused = refusal(alone(second, "--epsilon 12 --columns 4"))
        assert "another collection asks epsilon=" in refused and "of cap 2 is spent" in refused
    assert memory.read_bytes() == before


def test_only_the_holder_s_own_command_raises_the_cap(contract: Path, memory: Path) -> None:
    second, cap = collector(contract.parent, "survey2"), f"cap {memory}"
    assert "memory.jsonl: is not there" in refusal(data_holder(cap, "", contract.parent))
    # a mistyped wallet is not made
    assert not memory.exists()
    assert alone(contract, "--epsilon 2 --cap 2").returncode == 0
    before = memory.read_bytes()
    for value in ("2", "nan", "1", "inf", "-1", "0"):
        refused = refusal(data_holder(f"{cap} --raise-to {value}", "", contract.parent))
        assert "raise-to=" in refused and memory.read_bytes() == before
    assert (
        "expected at most this wallet's, 2, or first `python -m dpicl.client cap WALLET "
        "--raise-to 5`"
    ) in refusal(alone(second, "--epsilon 3 --cap 5"))
    told = data_holder(f"{cap} --raise-to 5", "", contract.parent).stdout
    assert told.startswith("memory.jsonl: epsilon 1.99") and spent(memory) < 2.01
    refusal(alone(second, "--epsilon 3 --cap 4"))  # a smaller one holds for this report
    assert alone(second, "--epsilon 3").returncode == 0
    assert "of 5 is spent" in data_holder(cap, "", contract.parent).stdout


def test_one_record_does_not_answer_a_collection_twice_under_two_names(contract: Path) -> None:
    assert alone(contract, "--epsilon 1").returncode == 0
    again = refusal(run(contract, held(1), "--epsilon 1"))
    assert "the same column as when this collection was answered first" in again


# The wallet's file.


def test_a_file_that_is_no_memory_is_left_alone(contract: Path, memory: Path) -> None:
    reports(contract, held(1))
    lines = [json.loads(line) for line in memory.read_text().splitlines()]
    lacking = [
        "".join(
            json.dumps(left) + "\n"
            for line in lines
            if (left := {key: value for key, value in line.items() if key != lost})
        )
        for lost in ("cap", "id")
    ]
    for content in ('{"a": 1}', "a,b\n1,2", '{"collection": "x"}\nhalf', *lacking):
        memory.write_text(content)
        assert NO_WALLET in refusal(run(contract, held(1), "--epsilon 1"))
        assert memory.read_text() == content


@pytest.mark.exhaustive
def test_what_was_sent_before_a_kill_is_charged_and_sent_again(
    contract: Path, memory: Path
) -> None:
    command: list[Any] = [sys.executable, "-m", "dpicl.client", contract, "--memory", memory]
    command += ["--epsilon", "1", "--id", "who"]
    for seconds in (0.0, 0.02, 0.1):
        with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(held(3000))
            process.stdin.close()
            while not memory.exists() and process.poll() is None:
                time.sleep(0.001)
            time.sleep(seconds)
            process.send_signal(signal.SIGKILL)
            sent = process.stdout.read().split("\n")[:-1]
        done = subprocess.run(command, input=held(3000), stdout=-1, text=True, check=True)
        assert done.stdout.splitlines()[: len(sent)] == sent and 0 < spent(memory) <= 1
