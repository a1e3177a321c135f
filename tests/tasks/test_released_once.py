"""A release is charged once and published once, whatever dies, races or changes."""

from __future__ import annotations

import hashlib
import json
import signal
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from dpicl.ground.errors import BudgetError, LedgerError
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from tests.harness import SMALL, Place, install, install_texts, letters, new_place, shop, shop_rows
from tests.tasks.protocol import STEPS, Death, join, start
from tests.tasks.stages import make_plan, steps

ACCOUNT = {
    "ldp_tabicl": "shop",
    "gdp_tabicl": "shop",
    "mst_tabicl": "shop",
    "few_shot_generation": "letters",
    "dp_icl": "letters",
}
DATASET = {
    "ldp_tabicl": "shop",
    "gdp_tabicl": "shop",
    "mst_tabicl": "shop",
    "few_shot_generation": "letters",
    "dp_icl": "letters",
}
EXPONENTIAL = {
    "few_shot_generation": {"mechanism": "exponential"},
    "dp_icl": {"noise": "exponential"},
}
"""Gaussian noise would be priced again after every death."""
GRID = {**SMALL, "epsilons": ["1", "2"], "shots": [1], "seeds": [0], "options": EXPONENTIAL}


def place_with(root: Path, cap: float = 1000) -> Place:
    place, contract = new_place(root), shop(private=True)
    contract["privacy"] = {**contract["privacy"], "budget": {"epsilon": cap}}
    install(place, contract, shop_rows(80))
    install_texts(place, letters(private=True))
    return place


def grid(method: str, **changes: Any) -> dict[str, Any]:
    return {**GRID, "datasets": [DATASET[method]], "methods": [method], **changes}


def results(place: Place, method: str, run_id: str = "r") -> str:
    return (
        place.run(run_id) / "units" / f"{method}__{DATASET[method]}__seed0" / "results.json"
    ).read_text()


def run(
    place: Place, method: str, run_id: str = "r", death: Death | None = None, **changes: Any
) -> int:
    return join(start(place.environment, grid(method, **changes), run_id, death))


def here(place: Place, method: str, **changes: Any) -> None:
    """The same run inside this process, so that its errors can be seen."""
    with place.entered():
        for stage, references in steps(str(make_plan("private", grid(method, **changes), None))):
            stage(*references)


def bought(place: Place, method: str) -> list[Any]:
    """The account's entries; the whole ledger is verified on the way."""
    with place.entered(), open_ledger(Settings.from_environment()) as ledger:
        ledger.verify()
        return ledger.entries(ACCOUNT[method])


def artefacts(place: Place, method: str) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in (place.home / "released" / ACCOUNT[method]).glob("*")
        if not path.suffix
    }


def check_once(place: Place, method: str, count: int = 2) -> None:
    """As many entries as releases, all published, each with the artefact that won."""
    entries, files = bought(place, method), artefacts(place, method)
    assert not list((place.home / "released" / ACCOUNT[method]).glob("*.draft"))
    assert len(entries) == len({entry.release.release_id for entry in entries}) == count
    assert {entry.release.release_id: entry.artefact_sha256 for entry in entries} == {
        name: hashlib.sha256(content).hexdigest() for name, content in files.items()
    }


@pytest.mark.exhaustive
# MST-TabICL has the same protocol, but a model to fit
@pytest.mark.parametrize("method", ["dp_icl", "ldp_tabicl", "gdp_tabicl", "few_shot_generation"])
def test_a_run_killed_at_every_step_of_the_protocol_charges_once_and_shows_one_draw(
    tmp_path: Path, method: str
) -> None:
    # of texts a model reads rows: a try takes three times as long
    whens = ("after",) if method in EXPONENTIAL else ("before", "after")
    deaths = [*product(STEPS, (0,), whens), *product(STEPS, (1,), ("after",))]
    for number, death in enumerate(deaths):
        place = place_with(tmp_path / str(number))
        assert run(place, method, death=death) == -signal.SIGKILL, death
        seen = artefacts(place, method)
        assert run(place, method) == 0, death
        check_once(place, method)
        assert seen.items() <= artefacts(place, method).items(), death
    assert run(place, method, "again") == 0
    check_once(place, method)
    assert results(place, method, "again") == results(place, method)


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(method, marks=() if method == "gdp_tabicl" else pytest.mark.exhaustive)
        for method in ACCOUNT
    ],
)
def test_runs_side_by_side_share_one_draw(tmp_path: Path, method: str) -> None:
    place = place_with(tmp_path)
    racers = [start(place.environment, grid(method), f"r{number}", None) for number in range(4)]
    assert [join(racer) for racer in racers] == [0] * 4
    check_once(place, method)
    assert len({results(place, method, f"r{number}") for number in range(4)}) == 1


def test_a_run_over_the_cap_is_refused_with_the_numbers_before_anything_is_written(
    tmp_path: Path,
) -> None:
    place = place_with(tmp_path, cap=4)
    assert run(place, "ldp_tabicl") == 0
    with pytest.raises(
        BudgetError, match=r"'shop'.*cost epsilon=2\.9.*spent 2\.9\d* of cap 4, left 1\.0"
    ):
        here(place, "ldp_tabicl", seeds=[1])
    assert [path.name for path in (place.home / "runs").iterdir()] == ["r"]
    assert len(bought(place, "ldp_tabicl")) == 2


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ("exchanged", "not the one that was published"),
        pytest.param("removed", "artefact is gone", marks=pytest.mark.exhaustive),
    ],
)
def test_only_published_bytes_are_read(tmp_path: Path, harm: str, told: str) -> None:
    place = place_with(tmp_path)
    assert run(place, "gdp_tabicl") == 0
    for path in (path for path in (place.home / "released" / "shop").iterdir() if not path.suffix):
        if harm == "removed":
            path.unlink()
        else:
            groups = json.loads(path.read_bytes())
            groups[0]["label"] = 1 - groups[0]["label"]
            path.write_text(json.dumps(groups))
    with pytest.raises(LedgerError, match=told):
        here(place, "gdp_tabicl")
    assert len(bought(place, "gdp_tabicl")) == 2
