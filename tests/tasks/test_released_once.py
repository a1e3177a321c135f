"""A release is charged once and published once, whatever races or changes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from dpicl.ground.errors import BudgetError, LedgerError
from tests.harness import (
    Place,
    charged,
    exit_code,
    forked,
    grid_of,
    install,
    install_texts,
    letters,
    shop,
    shop_rows,
)
from tests.tasks.stages import do_run, work

DATASET = {
    "ldp_tabicl": "shop",
    "gdp_tabicl": "shop",
    "mst_tabicl": "shop",
    "few_shot_generation": "letters",
    "dp_icl": "letters",
}


@pytest.fixture
def place(place: Place) -> Place:
    install(place, shop(private=True), shop_rows(80))
    install_texts(place, letters(private=True))
    return place


def grid(method: str, **changes: Any) -> dict[str, Any]:
    return grid_of(DATASET[method], method, **{"epsilons": ["1", "2"], "shots": [1], **changes})


def artefacts(place: Place, dataset: str = "shop") -> list[Path]:
    return [path for path in (place.home / "released" / dataset).glob("*") if not path.suffix]


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(method, marks=() if method == "gdp_tabicl" else pytest.mark.exhaustive)
        for method in DATASET
    ],
)
def test_runs_side_by_side_share_one_draw(place: Place, method: str) -> None:
    """As many entries as releases, all published, each with the artefact that won."""
    runs = [f"r{number}" for number in range(4)]
    options = grid(method)
    racers = [forked(work, place.environment, "private", options, run, "finished") for run in runs]
    assert [exit_code(racer, 400) for racer in racers] == [0] * 4
    entries, files = charged(DATASET[method]), artefacts(place, DATASET[method])
    assert not list((place.home / "released").rglob("*.draft"))
    assert len(entries) == len({entry.release.release_id for entry in entries}) == 2
    assert {entry.release.release_id: entry.artefact_sha256 for entry in entries} == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    }
    results = [next(place.run(run).glob("units/*/results.json")).read_text() for run in runs]
    assert len(set(results)) == 1


def test_a_run_over_the_cap_is_refused_with_the_numbers_before_anything_is_written(
    place: Place,
) -> None:
    contract = shop(private=True)
    contract["privacy"]["budget"] = {"epsilon": 4}
    install(place, contract, shop_rows(80))
    do_run("private", grid("ldp_tabicl"))
    with pytest.raises(
        BudgetError, match=r"'shop'.*cost epsilon=2\.9.*spent 2\.9\d* of cap 4, left 1\.0"
    ):
        do_run("private", grid("ldp_tabicl", seeds=[1]), "over")
    assert [path.name for path in (place.home / "runs").iterdir()] == ["r"]
    assert len(charged("shop")) == 2


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ("exchanged", "not the one that was published"),
        pytest.param("removed", "artefact is gone", marks=pytest.mark.exhaustive),
    ],
)
def test_only_published_bytes_are_read(place: Place, harm: str, told: str) -> None:
    do_run("private", grid("gdp_tabicl"))
    for path in artefacts(place):
        if harm == "removed":
            path.unlink()
        else:
            groups = json.loads(path.read_bytes())
            groups[0]["label"] = 1 - groups[0]["label"]
            path.write_text(json.dumps(groups))
    with pytest.raises(LedgerError, match=told):
        do_run("private", grid("gdp_tabicl"), "again")
    assert len(charged("shop")) == 2
