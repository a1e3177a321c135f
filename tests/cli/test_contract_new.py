"""`dpicl contract new`: a table becomes a draft, and a draft releases nothing."""

from __future__ import annotations

import io

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import yaml

from dpicl.contract import Contract, load_contract
from dpicl.contract.load import contract_digest
from lab.benchmarks.installation.new_user import KNOWN, from_knowledge, write_table
from tests.harness import Place, call_main, complaint, said, shop_rows
from tests.library.examples import CONTRACTS

Capture = pytest.CaptureFixture[str]
NEW = ("contract", "new", "customers.csv", "--label", "bought", "--positive", "yes,twice")


@pytest.fixture
def customers(place: Place) -> Place:
    """Sixty customers without a contract, with two columns of free text."""
    head, *rows = shop_rows(60).splitlines()
    text = "\n".join(
        [
            f"{head},full name,note",
            *(f"{row},Ann {i},note number {i}" for i, row in enumerate(rows)),
        ]
    )
    (place.root / "data" / "customers.csv").write_text(text + "\n")
    return place


def test_a_table_becomes_a_draft_that_parses_and_says_what_it_looked_at(
    customers: Place, capsys: Capture
) -> None:
    told = said(capsys, *NEW, "--epsilon", "2")
    assert (
        "a draft of 5 columns; 2 columns are left out" in told
        and "looking at the rows of customers.csv" in told
    )
    file = customers.root / "contracts" / "customers.yaml"
    contract = load_contract(file)
    assert (
        isinstance(contract, Contract) and contract.draft and contract.privacy.budget.epsilon == 2
    )
    assert set(contract.source.ignore) == {"full name", "note"}
    assert {name: column.type for name, column in contract.columns.items()} == {
        "age": "integer",
        "spent": "real",
        "colour": "category",
        "member": "category",
        "bought": "category",
    }
    assert file.read_text().count("# LOOKED") == 5
    assert "Ann" not in file.read_text()


def test_a_draft_releases_nothing_until_somebody_has_answered_for_it(
    customers: Place, capsys: Capture
) -> None:
    said(capsys, *NEW)
    file, out = customers.root / "contracts" / "customers.yaml", customers.root / "demos.jsonl"
    release = ("protect", "customers", "--shots", "2", "--out", str(out))
    assert "customers: is a draft" in complaint(call_main(release, capsys))
    run = (
        "run",
        "private",
        "--datasets",
        "customers",
        "--methods",
        "mst_tabicl",
        "--epsilons",
        "1",
        "--shots",
        "2",
        "--model",
        "fake",
    )
    assert "customers: is a draft" in complaint(call_main(run, capsys))
    assert not out.exists() and not (customers.home / "released").exists()
    file.write_text(file.read_text().replace("draft: true\n", ""))
    assert "2 demonstrations" in said(capsys, *release)


def test_parquet_gives_the_same_draft(customers: Place, capsys: Capture) -> None:
    data = customers.root / "data"
    pq.write_table(
        pa_csv.read_csv(io.BytesIO((data / "customers.csv").read_bytes())),
        data / "customers.parquet",
    )
    said(capsys, *NEW)
    said(capsys, "contract", "new", "customers.parquet", *NEW[3:], "--name", "again")
    one, other = (
        yaml.safe_load((customers.root / "contracts" / f"{name}.yaml").read_text())
        for name in ("customers", "again")
    )
    assert {**other, "name": 0, "source": 0, "description": 0} == {
        **one,
        "name": 0,
        "source": 0,
        "description": 0,
    }


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        (
            ("customers.csv", "--label", "nope", "--positive", "yes"),
            "label=nope: expected one of the 7 columns of customers.csv",
        ),
        (
            ("customers.csv", "--label", "bought", "--positive", "no,yes,twice"),
            "some, but not all, of the values of column bought",
        ),
        (
            ("customers.csv", "--label", "note"),
            "label=note: expected another column; this one has free text",
        ),
        (
            ("customers.csv", "--positive", "yes"),
            "positive=yes: expected values of the column that --label names",
        ),
        (
            ("../customers.csv", "--label", "bought", "--positive", "yes"),
            "a file below the folder that DPICL_DATA names",
        ),
        (
            ("customers.csv", "--label", "bought", "--positive", "yes", "--name", "adult"),
            "this contract exists",
        ),
        (
            ("customers.csv", "--label", "bought", "--positive", "yes", "--epsilon", "inf"),
            "budget.epsilon",
        ),
        (("nowhere.csv", "--label", "bought", "--positive", "yes"), "nowhere.csv"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_writes_nothing(
    customers: Place, capsys: Capture, options: tuple[str, ...], phrase: str
) -> None:
    before = sorted((customers.root / "contracts").iterdir())
    assert phrase in complaint(call_main(("contract", "new", *options), capsys))
    assert sorted((customers.root / "contracts").iterdir()) == before


def test_a_draft_of_an_earlier_version_is_still_checked_and_counted(
    place: Place, capsys: Capture
) -> None:
    mark = "  # LOOKED: replace by what is publicly known"
    (place.root / "contracts" / "earlier.yaml").write_text(f"""\
# A draft: lines marked LOOKED hold what the rows of customers.csv say.
version: 1
name: earlier
draft: true
description: Records of earlier.
source: {{title: earlier, licence: not published, citation: none, file: "customers.csv"}}
privacy: {{unit: row, neighbours: add-or-remove-one, sampling_rate: 1/10, budget: {{epsilon: 1}}}}
columns:
  age: {{type: integer, bounds: [10, 90]}}{mark}
  bought: {{type: category, categories: ["no", "yes"]}}{mark}
label: {{column: bought, parts: [rest, ["yes"]], question: "Is the bought yes?"}}
groups: {{2: [label]}}
local:
  - {{name: age, column: age, cuts: [50], texts: ["less than 50", "50 or more"]}}{mark}
prompts: {{local: {{text: "The age is {{age}}."}}, central: {{text: "The age is {{age}}."}}}}
""")
    told = said(capsys, "contract", "check", "earlier")
    assert (
        "earlier.yaml: ok: 2 columns, shots 1, 2\n3 lines still have their marks" in told
        and "line 9: age: {type" in told
    )
    assert all(
        f" {key} " in told for key in ("local    stated", "groups   stated", "prompts  stated")
    )


def test_contracts_that_are_no_drafts_keep_their_digest() -> None:
    contract = CONTRACTS["blood"]
    assert "draft" not in contract.model_dump_json()
    assert contract_digest(contract.model_copy(update={"draft": True})) != contract_digest(contract)


def test_the_new_user_of_the_benchmark_leaves_nothing_that_was_looked_up(
    place: Place, capsys: Capture
) -> None:
    """`make bench TOPIC=operations` edits a draft by a script, which must go on fitting what a
    draft says.
    """
    write_table(place.root / "data" / "theirs" / "wines.csv")
    said(capsys, "contract", "new", "theirs/wines.csv", "--label", "barolo", "--positive", "yes")
    file = place.root / "contracts" / "wines.yaml"
    file.write_text(from_knowledge(file.read_text()))
    assert "LOOKED" not in file.read_text() and said(
        capsys, "contract", "check", "wines"
    ).startswith("wines.yaml: ok: 14 columns")
    edited = load_contract(file)
    assert isinstance(edited, Contract) and not edited.draft
    for name, bounds in KNOWN.items():
        column = edited.columns[name]
        assert column.type != "category" and column.bounds == bounds, name
