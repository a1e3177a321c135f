"""Own contracts and shipped ones are layers: the own one first, in one project, and one account for
one table.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from dpicl.engine.settings import Settings
from tasks.expectations import FOLDER, own_expectations
from tests.harness import Place, call_main, complaint, said, shop, shop_rows

Capture = pytest.CaptureFixture[str]


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
    project: Place, capsys: Capture
) -> None:
    before = Settings.from_environment().contract_files()
    said(capsys, "contract", "new", "shop.csv", "--label", "bought", "--positive", "yes,twice")
    assert [path.name for path in Path("data_contracts").iterdir()] == ["shop.yaml"]
    after = Settings.from_environment().contract_files()
    assert {
        name: path for name, path in after.items() if name != "shop"
    } == before and "adult" in before
    assert "agnews" in Settings.from_environment().text_names()


def test_a_named_folder_of_contracts_stands_before_the_shipped_ones(
    project: Place, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("DPICL_CONTRACTS", str(project.root / "elsewhere"))
    monkeypatch.delenv("DPICL_PIPELINES")
    code, refused = call_main(("contract", "show", "adult"), capsys)
    assert code == 2 and "DPICL_CONTRACTS=elsewhere" in refused
    (project.root / "elsewhere").mkdir()
    said(capsys, "forecast")  # of shipped pipelines on shipped contracts
    said(capsys, "contract", "new", "shop.csv", "--label", "bought", "--positive", "yes,twice")
    assert (project.root / "elsewhere" / "shop.yaml").exists() and not Path(
        "data_contracts"
    ).exists()


def test_of_one_name_the_own_contract_counts_and_listings_say_so(
    project: Place, capsys: Capture
) -> None:
    sentence = "your own contract stands in the place of the shipped one"
    assert sentence not in said(capsys, "data", "list")
    _own(project, "agnews")  # a table, in the place of shipped texts
    told = said(capsys, "data", "list")
    assert f"agnews: {sentence}" in told and told.count(sentence) == 1
    assert "your own, in the place of the shipped one" in said(capsys, "contract", "show", "agnews")
    assert "agnews.yaml: ok" in said(capsys, "contract", "check", "agnews")
    assert "agnews" not in Settings.from_environment().text_names()


def test_an_own_contract_in_the_place_of_a_shipped_one_gets_no_second_account(
    project: Place, capsys: Capture
) -> None:
    """The rows pay, whatever the contracts are called: neither a name of a shipped one nor its
    removal opens another budget.
    """
    release = ("--epsilon", "1", "--shots", "2")
    _own(project, "shop")
    said(capsys, "protect", "shop", *release, "--out", "first.jsonl")
    _own(project, "adult")
    assert "spent 2 of cap 2" in complaint(
        call_main(("protect", "adult", *release, "--out", "second.jsonl"), capsys)
    )
    shipped = Path("data_contracts") / "adult.yaml"
    # now the name is the shipped benchmark's again, and the rows are still charged to their account
    shipped.unlink()
    content = yaml.safe_load(_own(project, "shop").read_text())
    content |= {"name": "public"}
    content["privacy"]["budget"] = {"benchmark": True}
    content["split"] = shop()["split"]
    del content["queries"]
    (Path("data_contracts") / "public.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    refused = complaint(call_main(("protect", "public", *release, "--out", "third.jsonl"), capsys))
    assert "shop" in refused or "publish" in refused
    assert not Path("second.jsonl").exists() and not Path("third.jsonl").exists()


def test_from_another_process_the_layers_are_the_same(project: Place) -> None:
    """Workers are given settings or the environment: both lead to the same files."""
    _own(project, "shop")
    here = Settings.from_environment()
    script = (
        "from dpicl.engine.settings import Settings; print(sorted(map(str, "
        "Settings.from_environment().contract_files().values())))"
    )
    there = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert there == str(sorted(map(str, here.contract_files().values())))


def test_own_expectations_of_a_shipped_contract_hold(project: Place) -> None:
    folder = Path("data_contracts") / FOLDER
    folder.mkdir(parents=True)
    (folder / "adult.own.json").write_text(
        '{"expectations": [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": '
        '"age"}}]}'
    )
    assert len(own_expectations("adult", Settings.from_environment())) == 1


def test_a_folder_that_cannot_be_read_is_told_and_no_shipped_contract_stands_for_what_is_in_it(
    project: Place, capsys: Capture
) -> None:
    Path("data_contracts").mkdir()
    Path("data_contracts/texts").symlink_to("texts")  # round and round
    assert complaint(call_main(["contract", "show", "ag_news"], capsys)).startswith(
        "texts: cannot be read ("
    )
