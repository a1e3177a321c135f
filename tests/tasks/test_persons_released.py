"""Persons from the file to the ledger: charged for every row that may enter, ids nowhere in
plain.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from dpicl.accounting.guarantee import amplified_epsilon
from dpicl.ground.errors import LedgerError
from tests.harness import Place, install, new_place, shop, shop_rows
from tests.tasks.test_released_once import artefacts, bought, here

MOST, ROWS = 3, 120


PERSONS = ("ldp_tabicl", "gdp_tabicl")
"""Methods that protect persons; contracts of texts protect rows only."""


def person_rows() -> str:
    """A tenth of the customers hold almost all rows."""
    header, *rows = shop_rows(ROWS).splitlines()
    who = [f"customer-{number if number < 20 else number % 4}" for number in range(ROWS)]
    return (
        "\n".join(
            [f"who,{header}", *(f"{name},{row}" for name, row in zip(who, rows, strict=True))]
        )
        + "\n"
    )


def place_of_persons(root: Path) -> Place:
    place, contract = new_place(root), shop(private=True)
    contract["privacy"] |= {"unit": "person", "person": {"id_column": "who", "max_rows": MOST}}
    install(place, contract, person_rows())
    return place


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.mark.quick("gdp_tabicl")
@pytest.mark.parametrize("method", PERSONS)
def test_a_person_is_charged_for_the_most_rows(tmp_path: Path, method: str) -> None:
    place = place_of_persons(tmp_path)
    here(place, method)
    row_cost = {
        "gdp_tabicl": lambda epsilon, rate: 2 * amplified_epsilon(epsilon, rate),
        "ldp_tabicl": lambda epsilon, _: epsilon,
    }[method]
    charged = [entry.release.guarantee for entry in bought(place, method)]
    assert [guarantee.epsilon for guarantee in charged] == [
        pytest.approx(MOST * row_cost(epsilon, 0.5), rel=1e-3) for epsilon in (1, 2)
    ]
    assert {guarantee.unit for guarantee in charged} == {"person"}
    assert len(artefacts(place, method)) == 2
    assert b"customer-" not in everything_in(place.home)


def test_an_edited_ledger_stops_a_run_before_it_begins(tmp_path: Path) -> None:
    place = place_of_persons(tmp_path)
    here(place, "gdp_tabicl")
    runs = _runs(place)
    with sqlite3.connect(place.home / "ledger.db") as database:
        database.execute(
            "UPDATE records SET content = replace(content, '\"epsilon_cap\":', '\"epsilon_cap\":9')"
        )
    with pytest.raises(LedgerError):
        here(place, "gdp_tabicl")
    assert _runs(place) == runs


def _runs(place: Place) -> Any:
    return sorted(path.name for path in (place.home / "runs").iterdir())
