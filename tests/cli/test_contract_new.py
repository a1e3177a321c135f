"""`dpicl contract new` writes drafts that release nothing; an own folder of contracts stands before
the shipped one.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dpicl.contract import Contract, load_contract
from dpicl.contract.load import contract_digest
from dpicl.home.settings import Settings
from lab.benchmarks.installation.new_user import KNOWN, from_knowledge, write_table
from tasks.expectations import FOLDER, own_expectations
from tests.cli.conftest import Cli
from tests.harness import Place, shop, shop_rows
from tests.library.examples import CONTRACTS

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
    customers: Place, cli: Cli
) -> None:
    told = cli(*NEW, "--epsilon", "2")
    assert "a draft of 5 columns; 2 columns are left out" in told
    assert "looking at the rows of customers.csv" in told
    file = customers.root / "contracts" / "customers.yaml"
    contract = load_contract(file)
    assert isinstance(contract, Contract)
    assert contract.draft
    assert contract.privacy.budget.epsilon == 2
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
    customers: Place, cli: Cli
) -> None:
    cli(*NEW)
    file, out = customers.root / "contracts" / "customers.yaml", customers.root / "demos.jsonl"
    release = f"protect customers --shots 2 --out {out}"
    assert "customers: is a draft" in cli.refused(release)
    run = (
        "run private --datasets customers --methods mst_tabicl --epsilons 1 --shots 2 --model fake"
    )
    assert "customers: is a draft" in cli.refused(run)
    assert not out.exists() and not (customers.home / "released").exists()
    file.write_text(file.read_text().replace("draft: true\n", ""))
    assert "2 demonstrations" in cli(release)


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        (
            "customers.csv --label nope --positive yes",
            "label=nope: expected one of the 7 columns of customers.csv",
        ),
        (
            "customers.csv --label bought --positive no,yes,twice",
            "some, but not all, of the values of column bought",
        ),
        (
            "customers.csv --label note",
            "label=note: expected another column; this one has free text",
        ),
        (
            "customers.csv --positive yes",
            "positive=yes: expected values of a column that is predicted: name it as the label",
        ),
        (
            "../customers.csv --label bought --positive yes",
            "a file below the folder that DPICL_DATA names",
        ),
        ("customers.csv --label bought --positive yes --name adult", "this contract exists"),
        ("customers.csv --label bought --positive yes --epsilon inf", "budget.epsilon"),
        ("nowhere.csv --label bought --positive yes", "nowhere.csv"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_writes_nothing(
    customers: Place, cli: Cli, options: str, phrase: str
) -> None:
    before = sorted((customers.root / "contracts").iterdir())
    assert phrase in cli.refused(f"contract new {options}")
    assert sorted((customers.root / "contracts").iterdir()) == before


def test_contracts_that_are_no_drafts_keep_their_digest() -> None:
    contract = CONTRACTS["blood"]
    assert "draft" not in contract.model_dump_json()
    assert contract_digest(contract.model_copy(update={"draft": True})) != contract_digest(contract)


def test_the_new_user_of_the_benchmark_leaves_nothing_that_was_looked_up(
    place: Place, cli: Cli
) -> None:
    """`make bench TOPIC=operations` edits a draft by a script, which must go on fitting what a
    draft says.
    """
    write_table(place.root / "data" / "theirs" / "wines.csv")
    cli("contract new theirs/wines.csv --label barolo --positive yes")
    file = place.root / "contracts" / "wines.yaml"
    file.write_text(from_knowledge(file.read_text()))
    assert "LOOKED" not in file.read_text()
    assert cli("contract check wines").startswith("wines.yaml: ok: 14 columns")
    edited = load_contract(file)
    assert isinstance(edited, Contract) and not edited.draft
    for name, bounds in KNOWN.items():
        column = edited.columns[name]
        assert column.type != "category" and column.bounds == bounds, name


@pytest.fixture
def project(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A folder of somebody's own, with a table and no contract yet; no variable names a folder of
    contracts.
    """
    monkeypatch.delenv("DPICL_CONTRACTS")
    (place.root / "project").mkdir()
    monkeypatch.chdir(place.root / "project")
    (place.root / "data" / "shop.csv").write_text(shop_rows(60))
    return place


def _own(project: Place, name: str) -> Path:
    """An own contract on the rows of shop.csv."""
    content = shop(name, private=True)
    content["source"]["file"] = "shop.csv"
    # of one release at 1: one row changed is one removed and one added
    content["privacy"]["budget"] = {"epsilon": 2}
    (project.root / "data" / f"{name}_queries.csv").write_text(shop_rows(12, seed=99))
    Path("data_contracts").mkdir(exist_ok=True)
    file = Path("data_contracts") / f"{name}.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


def test_a_new_contract_is_written_into_the_project_and_hides_no_shipped_one(
    project: Place, cli: Cli
) -> None:
    before = Settings.from_environment().contract_files()
    cli("contract new shop.csv --label bought --positive yes,twice")
    assert [path.name for path in Path("data_contracts").iterdir()] == ["shop.yaml"]
    after = Settings.from_environment().contract_files()
    assert {name: path for name, path in after.items() if name != "shop"} == before
    assert "adult" in before
    assert "agnews" in Settings.from_environment().text_names()


def test_a_named_folder_of_contracts_stands_before_the_shipped_ones(
    project: Place, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setenv("DPICL_CONTRACTS", str(project.root / "elsewhere"))
    monkeypatch.delenv("DPICL_PIPELINES")
    code, refused = cli.ended("contract show adult")
    assert code == 2 and "DPICL_CONTRACTS=elsewhere" in refused
    (project.root / "elsewhere").mkdir()
    cli("forecast")  # of shipped pipelines on shipped contracts
    cli("contract new shop.csv --label bought --positive yes,twice")
    assert (project.root / "elsewhere" / "shop.yaml").exists()
    assert not Path("data_contracts").exists()


def test_of_one_name_the_own_contract_counts_and_listings_say_so(project: Place, cli: Cli) -> None:
    sentence = "your own contract stands in the place of the shipped one"
    assert sentence not in cli("data list")
    _own(project, "agnews")  # a table, in the place of shipped texts
    told = cli("data list")
    assert f"agnews: {sentence}" in told and told.count(sentence) == 1
    assert "your own, in the place of the shipped one" in cli("contract show agnews")
    assert "agnews.yaml: ok" in cli("contract check agnews")
    assert "agnews" not in Settings.from_environment().text_names()


def test_an_own_contract_in_the_place_of_a_shipped_one_gets_no_second_account(
    project: Place, cli: Cli
) -> None:
    """The rows pay, whatever the contracts are called: neither a name of a shipped one nor its
    removal opens another budget.
    """
    release = "--epsilon 2 --shots 2"
    _own(project, "shop")
    cli(f"protect shop {release} --out first.jsonl")
    _own(project, "adult")
    assert "spent 2 of cap 2" in cli.refused(f"protect adult {release} --out second.jsonl")
    shipped = Path("data_contracts") / "adult.yaml"
    # now the name is the shipped benchmark's again, and the rows are still charged to their account
    shipped.unlink()
    content = yaml.safe_load(_own(project, "shop").read_text())
    content |= {"name": "public"}
    content["privacy"]["budget"] = {"benchmark": True}
    content["split"] = shop()["split"]
    del content["queries"]
    (Path("data_contracts") / "public.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    refused = cli.refused(f"protect public {release} --out third.jsonl")
    assert "shop" in refused or "publish" in refused
    assert not Path("second.jsonl").exists() and not Path("third.jsonl").exists()


def test_own_expectations_of_a_shipped_contract_hold(project: Place) -> None:
    folder = Path("data_contracts") / FOLDER
    folder.mkdir(parents=True)
    (folder / "adult.own.json").write_text(
        '{"expectations": [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": '
        '"age"}}]}'
    )
    assert len(own_expectations("adult", Settings.from_environment())) == 1


def test_a_folder_that_cannot_be_read_is_told_and_no_shipped_contract_stands_for_what_is_in_it(
    project: Place, cli: Cli
) -> None:
    Path("data_contracts").mkdir()
    Path("data_contracts/texts").symlink_to("texts")  # round and round
    assert cli.refused("contract show ag_news").startswith("texts: cannot be read (")


def test_a_file_in_the_working_directory_says_how_to_name_its_folder(
    customers: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where DPICL_DATA is not set, and where it names another folder."""
    data = customers.root / "data"
    monkeypatch.chdir(data)
    for known, said in (("", "it is not set"), (f"{customers.root}/contracts", "contracts")):
        monkeypatch.setenv("DPICL_DATA", known)
        refused = cli.refused(
            "contract new ./customers.csv" if known == "" else f"contract new {data}/customers.csv"
        )
        assert said in refused and "; say `export DPICL_DATA=$PWD`" in refused
    monkeypatch.chdir(customers.root)
    monkeypatch.setenv("DPICL_DATA", "")
    assert "export" not in cli.refused("contract new nowhere.csv")


def test_a_contract_that_exists_is_named_with_its_file(customers: Place, cli: Cli) -> None:
    cli(*NEW)
    file = customers.root / "contracts" / "customers.yaml"
    refused = cli.refused(" ".join(NEW))
    assert f"this contract exists, in {file}, or remove that file" in refused
    assert "another one by --name: " in refused
