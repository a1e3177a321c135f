"""`dpicl contract new --ask`: answers become a contract, and nobody opens the rows."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dpicl.contract import Contract, load_contract
from tests.harness import (
    DPICL,
    Place,
    _bare_environment,
    call_main,
    complaint,
    end,
    said,
    shop_rows,
    until,
)

Capture = pytest.CaptureFixture[str]
Typed = Callable[..., None]
NEW = ("contract", "new", "customers.csv", "--ask")
COLUMNS = (
    *("age", "integer", "18,100"),
    *("spent", "real", "0, 500"),
    *("colour", "category", "red,green,blue"),
    *("member", "category", "no,yes"),
    *("full name", "ignored"),
    *("bought", "category", "no,yes,twice"),
    "",
)
ANSWERS = (*COLUMNS, "bought", "yes,twice", "4000", "2", "")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Gives standard input these lines."""
    return lambda *lines: monkeypatch.setattr(
        "sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines))
    )


def written(place: Place) -> Path:
    return place.root / "contracts" / "customers.yaml"


def test_answers_are_a_contract_that_releases(place: Place, capsys: Capture, typed: Typed) -> None:
    typed(*ANSWERS)
    told = said(capsys, *NEW)  # and there are no rows yet
    assert "customers.yaml: a contract of 5 columns; 1 column is left out under `ignore`" in told
    assert (
        "No row of customers.csv was looked at. Bounds and categories are those of answers: "
        "replace any" in told
    )
    assert (
        "next: dpicl contract check customers; dpicl plan customers; dpicl protect customers "
        "--epsilon 2 --shots 2" in told
    )
    contract = load_contract(written(place))
    assert (
        isinstance(contract, Contract)
        and not contract.draft
        and contract.privacy.budget.epsilon == 2
    )
    assert (
        contract.source.ignore == ("full name",)
        and contract.population == 4000
        and contract.version == 2
    )
    assert contract.columns["spent"].model_dump()["bounds"] == (
        0,
        500,
    ) and contract.label.parts == ("rest", ("yes", "twice"))
    head, *rows = shop_rows(60).splitlines()
    table = "\n".join([f"{head},full name", *(f"{row},Ann" for row in rows)])
    (place.root / "data" / "customers.csv").write_text(f"{table}\n")
    out = place.root / "demos.jsonl"
    release = (
        "protect",
        "customers",
        "--method",
        "gdp_tabicl",
        "--epsilon",
        "1",
        "--shots",
        "2",
        "--out",
        str(out),
    )
    assert "2 demonstrations" in said(capsys, *release)
    assert len(out.read_text().splitlines()) == 2


def test_whoever_may_have_several_rows_is_protected_as_a_person(
    place: Place, capsys: Capture, typed: Typed
) -> None:
    typed(*ANSWERS[:22], "age", "full name", "none", "3")
    told = said(capsys, *NEW)
    assert (
        "a column that is not described above; this is a name that a contract cannot write" in told
        and "expected a whole number" in told
    )
    contract = load_contract(written(place))
    assert isinstance(contract, Contract) and contract.privacy.unit == "person"
    assert contract.privacy.person and (
        contract.privacy.person.id_column,
        contract.privacy.person.max_rows,
    ) == ("full name", 3)


@pytest.mark.parametrize(
    ("place_of", "wrong", "sentence"),
    [
        (1, "number", "expected one of category, boolean, integer, real, date, datetime, ignored"),
        (2, "18", "expected two comma-separated numbers"),
        (2, "18,young", "expected a whole number"),
        (2, "100,18", "expected [low, high] with low < high"),
        (3, "age", "this column was named before; expected another"),
        (0, "", "expected a name"),
        (5, "0,inf", "expected a number"),
        (8, "red,red", "a category is repeated; expected distinct categories"),
        (8, ",", "expected a list with at least 1 item"),
        (18, "price", "expected one of age, spent, colour, member, bought"),
        (19, "yes,no,twice", "expected some, but not all, of no, yes, twice"),
        (20, "many", "expected a whole number above 0, or nothing"),
        (21, "0", "expected greater than 0"),
        (21, "much", "expected a number"),
        (22, "age", "expected nothing, or a column that is not described above"),
    ],
)
def test_a_wrong_answer_is_asked_again_with_one_sentence(
    place: Place, capsys: Capture, typed: Typed, place_of: int, wrong: str, sentence: str
) -> None:
    typed(*ANSWERS[:place_of], wrong, *ANSWERS[place_of:])
    told = said(capsys, *NEW)
    (error,) = [
        line
        for line in told.replace("Error: ", "\nError: ").splitlines()
        if line.startswith("Error: ")
    ]
    assert sentence in error and "a contract of 5 columns" in told
    typed(*ANSWERS)
    said(capsys, *NEW, "--name", "again")
    again = written(place).with_name("again.yaml").read_text().replace("again", "customers")
    assert again == written(place).read_text()


def test_gaps_dates_and_a_number_to_predict_can_be_answered(
    place: Place, capsys: Capture, typed: Typed
) -> None:
    typed(
        "Größe",
        "real?",
        "50,250",
        "since",
        "date",
        "soon,later",
        "2015-01-01,2025-12-31",
        "x" * 256,
        "real",
        "ignored",
        "",
        "Größe",
        "",
        "",
        "",
    )
    told = said(capsys, *NEW)
    assert (
        "got 'soon'; expected a date such as" in told
        and "a name that a contract cannot write" in told
    )
    contract = load_contract(written(place))
    assert (
        isinstance(contract, Contract)
        and contract.target.kind == "number"
        and contract.columns["Größe"].nullable
    )
    assert (
        contract.columns["since"].type == "date"
        and contract.privacy.budget.epsilon == 3
        and contract.population is None
    )


def test_answers_that_end_too_early_write_nothing(
    place: Place, capsys: Capture, typed: Typed
) -> None:
    typed(*ANSWERS[:10])
    assert (
        complaint(call_main(NEW, capsys))
        == "the answers end before the questions do; nothing was written"
    )
    assert not written(place).exists()


def test_a_schema_leaves_only_what_it_lacks_to_be_asked(
    place: Place, capsys: Capture, typed: Typed
) -> None:
    fields = [
        {"name": "age", "type": "integer", "constraints": {"minimum": 18, "maximum": 100}},
        {"name": "spent", "type": "number", "description": "euros a month"},
        {"name": "note", "type": "string"},
        {"name": "bought", "type": "integer"},
    ]
    (place.root / "schema.json").write_text(json.dumps({"fields": fields}))
    typed("", "0,500", "ignored", "", "0,1", "", "0,1", "", "", "", "")
    told = said(
        capsys,
        *NEW,
        "--schema",
        str(place.root / "schema.json"),
        "--label",
        "bought",
        "--positive",
        "1",
    )
    assert (
        "spent (euros a month): category, boolean, integer, real, date, datetime (with ? if "
        "values may be missing) or ignored [real]"
        in told
        and "age:" not in told
    )
    assert "those of schema.json and answers" in told
    contract = load_contract(written(place))
    assert isinstance(contract, Contract) and contract.source.ignore == ("note",)
    assert contract.columns["bought"].model_dump()["categories"] == (
        "0",
        "1",
    ) and contract.label.parts == ("rest", ("1",))


def test_an_interruption_writes_nothing(place: Place) -> None:
    with subprocess.Popen(
        [str(DPICL), *NEW],
        env={**_bare_environment(), **place.environment, "PYTHONUNBUFFERED": "1"},
        cwd=place.root,
        stdin=subprocess.PIPE,
        stdout=(log := (place.root / "said.txt").open("w+")),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdin
            process.stdin.write("\n".join(ANSWERS[:4]) + "\n")
            process.stdin.flush()
            until(
                lambda: "spent: " in (place.root / "said.txt").read_text(),
                60,
                "the question on the second column",
            )
            os.kill(process.pid, signal.SIGINT)
            _, err = process.communicate(timeout=30)
        finally:
            end(process)
            log.close()
    assert process.returncode == 130 and err.strip() == "dpicl: interrupted; nothing was written"
    assert not written(place).exists()
