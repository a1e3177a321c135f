"""`dpicl collect`: from clients' reports to rows and demonstrations, with nothing charged and
nothing written elsewhere.
"""

from __future__ import annotations

import csv
import json
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from dpicl.cli.app import app
from dpicl.contract.payment import CLIENTS_PAY
from dpicl.data.report_counts import Received
from dpicl.ground.errors import ParameterError
from dpicl.session import Session
from tests.cli.holder import data_holder, held
from tests.cli.test_client import reports
from tests.cli.test_client_years import FIRST, SECOND
from tests.cli.test_json import printed
from tests.harness import shop

COLLECT = "reports --epsilon 8"
CLIENTS = "--epsilon 8 --cap 100"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A contract, and reports of 600 clients."""
    (tmp_path / "contracts").mkdir()
    contract = tmp_path / "contracts" / "shop.yaml"
    contract.write_text(yaml.safe_dump(shop(private=True), sort_keys=False))
    for name, value in (
        ("DPICL_CONTRACTS", "contracts"),
        ("DPICL_HOME", "home"),
        ("DPICL_DATA", "data"),
    ):
        monkeypatch.setenv(name, str(tmp_path / value))
    monkeypatch.chdir(tmp_path)
    sent = reports(contract, held(600), CLIENTS)
    for number in range(2):
        send(tmp_path, f"reports/{number}.jsonl", sent[number::2])
    return tmp_path


def send(place: Path, file: str, lines: list[str]) -> None:
    (place / file).parent.mkdir(exist_ok=True)
    (place / file).write_text("".join(f"{line}\n" for line in lines))


def run(line: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, f"collect shop {line}")
    refused = done.exception and not isinstance(done.exception, SystemExit)
    return done.exit_code, str(done.exception) if refused else done.output


def test_rows_are_made_of_reports_and_no_account_is_charged(place: Path) -> None:
    code, said = run(f"{COLLECT} --out rows.csv --rows 500")
    assert code == 0, said
    with (place / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 500 and {*rows[0]} <= {"age", "spent", "colour", "bought", "member"}
    assert "rows.csv: 500 rows" in said
    assert CLIENTS_PAY in said
    assert "600 reports: 600 counted" in said
    assert "8-LDP before they leave it, however often they are sent" in said
    # no ledger, no certificate
    assert {path.name for path in place.iterdir()} == {"contracts", "reports", "rows.csv"}
    truth = sum(",yes,client" in line for line in held(600).splitlines()) / 600
    assert abs(sum(row["bought"] == "yes" for row in rows) / 500 - truth) < 0.12


def test_counts_are_printed_for_programs(place: Path) -> None:
    send(place, "reports/2.jsonl", ["{", *(place / "reports/0.jsonl").read_text().splitlines()[:3]])
    code, said = run(f"{COLLECT} --json")
    expected = {
        **dict.fromkeys((field.name for field in fields(Received)), 0),
        "counted": 600,
        "duplicate": 3,
        "malformed": 1,
        "files": 3,
        "closed_with": None,
    }
    assert code == 0 and printed("dpicl collect CONTRACT REPORTS", said) == expected


def test_periods_of_two_levels_are_counted_apart_and_a_closed_one_stands(place: Path) -> None:
    how = "--epsilon 8 --sending-epsilon 4 --period"
    contract, records = place / "contracts" / "shop.yaml", held(600).splitlines(keepends=True)
    for day, some in ((FIRST, records[:-200]), (SECOND, records)):
        send(place, f"days/{day}.jsonl", reports(contract, "".join(some), f"{how} {day}"))
    in_time = len((place / f"days/{FIRST}.jsonl").read_text().splitlines())
    closing = f"days {how} {FIRST} --close closed --rows 50 --out"
    code, said = run(f"{closing} first.csv")
    assert code == 0 and f"{in_time} counted, 600 of another period" in said
    assert "and 4-LDP in any one sending" in said
    send(place, "days/late.jsonl", reports(contract, held(600), f"{how} {FIRST}"))
    code, said = run(f"{closing} again.csv")
    assert code == 0 and f"{in_time} counted" in said and f"{600 - in_time} late" in said
    assert (place / "first.csv").read_bytes() == (place / "again.csv").read_bytes()
    assert f"600 counted, {600 + in_time:,} late" in run(f"days {how} {SECOND}")[1]


@pytest.mark.quick("--epsilon nan-expected a number such as 10 or 0.5")
@pytest.mark.parametrize(
    ("typed", "phrase"),
    [
        ("nowhere --epsilon 8", "nowhere: cannot be read"),
        ("--epsilon nan", "expected a number such as 10 or 0.5"),
        ("--design all-columns", "expected one of one-column, pairs, subset, agreement"),
        ("--about nothing", "expected attributes of this table"),
        ("--sending-epsilon 8", "below the permanent answer's"),
        ("--period soon", "period="),
        ("--estimator simplex", "expected log-linear, em or tree"),
        ("--out contracts", "expected a new file"),
        ("--out x.txt --as verse", "expected one of"),
        ("--close contracts/shop.yaml", "is no closed period"),
    ],
)
def test_a_mistake_is_one_sentence_and_writes_nothing(place: Path, typed: str, phrase: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    code, said = run(typed if "nowhere" in typed else f"{COLLECT} {typed}")
    assert code and phrase in said and len(said.strip().splitlines()) == 1
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*")} == before


def test_reports_to_another_collection_are_told_and_none_counts(place: Path) -> None:
    code, said = run(f"{COLLECT} --epsilon 1")
    assert code == 0 and "600 reports: 0 counted, 600 of another collection" in said


def test_from_python_it_is_a_release_without_a_certificate(place: Path) -> None:
    collected = Session().collect("shop", Path("reports"), epsilon=8)
    assert len(collected.table(30)) == 30
    assert len(collected.demonstrations(2)) == 2
    assert not collected.spent
    assert collected.predictor().classes_.tolist() == ["No", "Yes"]
    with pytest.raises(ParameterError, match="what clients did before they sent is not known here"):
        _ = collected.certificate
    collected.table(30).to_csv(place / "rows.csv")
    with pytest.raises(ParameterError, match="a new file"):
        collected.write(place / "rows.csv", "csv", 30)


def test_a_person_sends_a_report_for_each_of_their_rows_and_pays_for_all(place: Path) -> None:
    content = shop("visits", private=True)
    content["privacy"] |= {"unit": "person", "person": {"id_column": "who", "max_rows": 2}}
    contract = place / "contracts" / "visits.yaml"
    contract.write_text(yaml.safe_dump(content, sort_keys=False))
    head, *rows = held(30).splitlines()
    records = "\n".join([head, *rows, *rows[:10], ""])
    wallet = place / "visits.jsonl"
    how = f"--epsilon 3 --sending-epsilon 1 --period {FIRST} --cap 6"
    done = data_holder(f"{contract} {how} --memory {wallet}", records, place)
    sent = done.stdout.splitlines()
    assert len({json.loads(line)["who"] for line in sent}) == 60
    assert sum(
        json.loads(line).get("epsilon", 0) for line in wallet.read_text().splitlines()
    ) == pytest.approx(3, rel=1e-3)
    send(place, "visits/all.jsonl", sent)
    collected = Session().collect("visits", "visits", epsilon=3, sending_epsilon=1.0, period=FIRST)
    assert collected.received.counted == 60
    assert any(
        f"a person that runs python -m dpicl.client with one wallet are {cost}-LDP"
        in collected.statement
        for cost in ("2.999", "3")
    )
    assert "and 1-LDP in any one sending" in collected.statement
    with pytest.raises(ParameterError, match="two levels are not simulated"):
        collected.quality()
