"""The wallet against its collector: whatever contracts ask, a client's reports cost no more than
the holder allows.
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

from dpicl.client.wallet import DEFAULT_CAP
from tests.cli.holder import data_holder
from tests.harness import shop, shop_rows

RECORD = "\n".join(shop_rows(1).splitlines()) + "\n"


@pytest.fixture
def wallet(tmp_path: Path) -> Path:
    return tmp_path / "wallet.jsonl"


def collector(folder: Path, name: str, cap: float | None) -> Path:
    """A contract that a collector sends; None is a benchmark, which has no cap."""
    content: dict[str, Any] = shop(name, private=cap is not None)
    if cap is not None:
        content["privacy"]["budget"]["epsilon"] = cap
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def client(*arguments: object, records: str = RECORD) -> subprocess.CompletedProcess[str]:
    return data_holder(*arguments, records=records, folder=Path())


def report(
    wallet: Path, contract: Path, epsilon: float, *more: object
) -> subprocess.CompletedProcess[str]:
    return client(contract, "--epsilon", epsilon, "--memory", wallet, *more)


def spent(wallet: Path) -> float:
    lines = [json.loads(line) for line in wallet.read_text().splitlines()]
    return math.fsum(line["epsilon"] for line in lines if "epsilon" in line)


def test_a_second_contract_of_the_collector_s_own_gets_nothing_once_the_cap_is_spent(
    tmp_path: Path, wallet: Path
) -> None:
    assert report(wallet, collector(tmp_path, "survey", 2), 2, "--cap", 2).returncode == 0
    before = wallet.read_bytes()
    for name, cap in (("survey2", 1000), ("survey3", None)):
        refused = report(wallet, collector(tmp_path, name, cap), 12, "--columns", 4)
        assert refused.returncode == 2 and not refused.stdout
        assert (
            "clients: another collection asks epsilon=" in refused.stderr
            and "of cap 2 is spent" in refused.stderr
        )
    assert wallet.read_bytes() == before


def test_contracts_designs_and_epsilons_share_one_cap(tmp_path: Path, wallet: Path) -> None:
    contracts = [collector(tmp_path, f"survey{number}", 1000) for number in range(3)]
    asked = [
        (one, epsilon, design)
        for one in contracts
        for epsilon in (0.7, 0.8)
        for design in ("pairs", "one-column")
    ]
    codes = [
        report(wallet, one, epsilon, "--design", design).returncode
        for one, epsilon, design in asked
    ]
    assert {0, 2} == set(codes) and DEFAULT_CAP - 0.8 < spent(wallet) <= DEFAULT_CAP


def test_the_cap_of_a_holder_who_names_none_is_the_built_in_one_whatever_the_contract_says(
    tmp_path: Path, wallet: Path
) -> None:
    for name, cap in (("survey", 1000), ("survey2", None)):
        assert (
            f"of cap {DEFAULT_CAP:g} is spent"
            in report(wallet, collector(tmp_path, name, cap), 4.5).stderr
        )
    assert wallet.read_bytes() == b""


def test_a_contract_lowers_the_cap_while_it_asks(tmp_path: Path, wallet: Path) -> None:
    assert (
        "of cap 0.5 is spent"
        in report(wallet, collector(tmp_path, "careful", 0.5), 1, "--cap", 8).stderr
    )
    assert report(wallet, collector(tmp_path, "careless", 1000), 6, "--cap", 8).returncode == 0


def test_only_the_holder_s_own_command_raises_the_cap(tmp_path: Path, wallet: Path) -> None:
    first, second = collector(tmp_path, "survey", 1000), collector(tmp_path, "survey2", 1000)
    assert report(wallet, first, 2, "--cap", 2).returncode == 0
    refused = report(wallet, second, 3, "--cap", 5)
    assert (
        refused.returncode == 2
        and "expected at most this wallet's, 2, or first `python -m dpicl.client cap WALLET "
        "--raise-to 5`"
        in refused.stderr
    )
    assert (
        client("cap", wallet, "--raise-to", 5).stdout.startswith("wallet.jsonl: epsilon 1.99")
        and spent(wallet) < 2.01
    )
    assert report(wallet, second, 3, "--cap", 4).returncode == 2, (
        "a smaller one holds for this report"
    )
    assert report(wallet, second, 3).returncode == 0
    assert "of 5 is spent" in client("cap", wallet).stdout


@pytest.mark.parametrize("value", ["2", "nan", "1", "inf", "-1", "0"])
def test_a_cap_that_is_not_higher_is_not_raised_to(
    tmp_path: Path, wallet: Path, value: str
) -> None:
    report(wallet, collector(tmp_path, "survey", 1000), 2, "--cap", 2)
    before = wallet.read_bytes()
    refused = client("cap", wallet, "--raise-to", value)
    assert (
        refused.returncode == 2 and "raise-to=" in refused.stderr and wallet.read_bytes() == before
    )


def test_a_mistyped_wallet_is_not_made_by_asking_for_its_cap(wallet: Path) -> None:
    assert "wallet.jsonl: is not there" in client("cap", wallet).stderr and not wallet.exists()


@pytest.mark.parametrize("lost", ["cap", "id"])
def test_a_wallet_that_does_not_say_what_it_allows_is_none(
    tmp_path: Path, wallet: Path, lost: str
) -> None:
    survey = collector(tmp_path, "survey", 1000)
    report(wallet, survey, 2)
    lines = [json.loads(line) for line in wallet.read_text().splitlines()]
    kept = [{key: value for key, value in line.items() if key != lost} for line in lines]
    wallet.write_text("".join(json.dumps(line) + "\n" for line in kept if line))
    refused = report(wallet, survey, 2)
    assert refused.returncode == 2 and not refused.stdout
    assert "wallet.jsonl: is no wallet of reports" in refused.stderr


def test_one_record_does_not_answer_a_collection_twice_under_two_names(
    tmp_path: Path, wallet: Path
) -> None:
    survey = collector(tmp_path, "survey", 1000)
    assert report(wallet, survey, 1).returncode == 0
    head, line = RECORD.splitlines()
    again = client(
        survey,
        "--epsilon",
        1,
        "--memory",
        wallet,
        "--id",
        "who",
        records=f"{head},who\n{line},me\n",
    )
    assert (
        again.returncode == 2
        and not again.stdout
        and "the same column as when this collection was answered first" in again.stderr
    )


@pytest.mark.exhaustive
def test_what_was_sent_before_a_kill_is_charged_and_sent_again(
    tmp_path: Path, wallet: Path
) -> None:
    survey = collector(tmp_path, "survey", 1000)
    head, *lines = shop_rows(3000).splitlines()
    records = (
        "\n".join(
            [f"{head},who", *(f"{line},client {number}" for number, line in enumerate(lines))]
        )
        + "\n"
    )
    command = [
        sys.executable,
        "-m",
        "dpicl.client",
        survey,
        "--epsilon",
        "1",
        "--memory",
        wallet,
        "--id",
        "who",
    ]
    for seconds in (0.0, 0.02, 0.1):
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(records)
            process.stdin.close()
            while not wallet.exists() and process.poll() is None:
                time.sleep(0.001)
            time.sleep(seconds)
            process.send_signal(signal.SIGKILL)
            sent = process.stdout.read().split("\n")[:-1]
        done = subprocess.run(command, input=records, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[: len(sent)] == sent and 0 < spent(wallet) <= 1


def test_a_record_with_missing_values_answers_and_nothing_but_its_report_tells(
    tmp_path: Path,
) -> None:
    survey = collector(tmp_path, "survey", 1000)
    head, line = RECORD.splitlines()
    for number, record in enumerate(
        (line, "," * line.count(","), line.replace(line.split(",")[0], "nonsense"))
    ):
        done = (
            report(tmp_path / f"wallet{number}", survey, 1)
            if number == 0
            else client(
                survey,
                "--epsilon",
                1,
                "--memory",
                tmp_path / f"wallet{number}",
                records=f"{head}\n{record}\n",
            )
        )
        assert done.returncode == 0 and done.stdout.count("\n") == 1 and done.stderr == ""
