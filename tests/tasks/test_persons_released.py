"""Persons from the file to the ledger: charged for every row that may enter, ids nowhere in
plain.
"""

from __future__ import annotations

import sqlite3

import pytest

from dpicl.ground.errors import LedgerError
from tests.harness import Place, charged, content, install, shop, shop_rows
from tests.tasks.stages import do_run
from tests.tasks.test_released_once import artefacts, grid

MOST, ROWS = 3, 120


@pytest.fixture
def place(place: Place) -> Place:
    """A tenth of the customers hold almost all rows."""
    header, *rows = shop_rows(ROWS).splitlines()
    who = (f"customer-{number if number < 20 else number % 4}" for number in range(ROWS))
    lines = [f"{name},{row}" for name, row in zip(who, rows, strict=True)]
    contract = shop(private=True)
    contract["privacy"] |= {"unit": "person", "person": {"id_column": "who", "max_rows": MOST}}
    install(place, contract, "\n".join([f"who,{header}", *lines, ""]))
    return place


@pytest.mark.quick("gdp_tabicl")
@pytest.mark.parametrize("method", ["ldp_tabicl", "gdp_tabicl"])
def test_a_person_is_charged_what_is_typed_for_the_most_rows(place: Place, method: str) -> None:
    do_run("private", grid(method))
    guarantees = [entry.release.guarantee for entry in charged("shop")]
    assert [guarantee.epsilon for guarantee in guarantees] == pytest.approx([1, 2], rel=1e-3)
    assert {guarantee.unit for guarantee in guarantees} == {"person"}
    assert len(artefacts(place)) == 2
    assert not any(b"customer-" in data for data in content(place.home).values())


def test_an_edited_ledger_stops_a_run_before_it_begins(place: Place) -> None:
    do_run("private", grid("gdp_tabicl"))
    with sqlite3.connect(place.home / "ledger.db") as database:
        database.execute(
            "UPDATE records SET content = replace(content, '\"epsilon_cap\":', '\"epsilon_cap\":9')"
        )
    with pytest.raises(LedgerError):
        do_run("private", grid("gdp_tabicl"), "again")
    assert [path.name for path in (place.home / "runs").iterdir()] == ["r"]
