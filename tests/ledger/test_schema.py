"""The tables are made once, whole or not at all; those of another schema are refused and left as
they are.
"""

from __future__ import annotations

import multiprocessing
import signal

import pytest
from sqlalchemy import inspect

from dpicl import __version__
from dpicl.ground.errors import LedgerError, LedgerRefusedError
from dpicl.ledger.database import SCHEMA, metadata
from tests.ledger.mortal import die_making
from tests.ledger.workload import SHOP, Place, open_and_ask

KNOWN = {table.name for table in metadata.sorted_tables}


def tables(place: Place) -> set[str]:
    """Names of the tables that there are."""
    with place.behind() as connection:
        return set(inspect(connection).get_table_names())


def test_many_processes_make_one_ledger(place: Place) -> None:
    with multiprocessing.get_context("forkserver").Pool(12) as pool:
        answers = pool.starmap(open_and_ask, [(place.url, place.anchor)] * 24, chunksize=1)
    assert len({process for process, _ in answers}) > 1
    assert {records for _, records in answers} == {1}


@pytest.mark.parametrize("other", [SCHEMA + 1, SCHEMA - 1])
def test_a_ledger_of_another_schema_is_refused_and_left_alone(place: Place, other: int) -> None:
    with place.ledger() as ledger:
        ledger.ensure_account(SHOP)
    assert place.execute("SELECT * FROM programs") == [(SCHEMA, __version__)]
    place.execute(f"UPDATE programs SET schema = {other}, program = '9.9.9'")
    told = (
        rf"^[^;]*: schema {other} was made by dpicl 9\.9\.9, and this is dpicl {__version__}, "
        rf"which knows schema {SCHEMA} alone; expected that dpicl, or a ledger of this one$"
    )
    with pytest.raises(LedgerRefusedError, match=told), place.ledger():
        pass
    assert place.execute("SELECT * FROM programs") == [(other, "9.9.9")]
    place.execute(f"UPDATE programs SET schema = {SCHEMA}")
    with place.ledger() as ledger:
        assert ledger.verify() == 1


def test_where_a_table_is_in_the_way_nothing_is_made(place: Place) -> None:
    place.execute("CREATE TABLE records (id INTEGER)")
    with pytest.raises(LedgerError, match="records"), place.ledger():
        pass
    assert tables(place) == {"records"}
    place.execute("DROP TABLE records")
    with place.ledger() as ledger:
        assert (ledger.verify(), tables(place)) == (0, KNOWN)


@pytest.mark.exhaustive
def test_killed_while_it_is_made_a_ledger_has_all_tables_or_none(place: Place) -> None:
    for step in range(500):
        code = die_making(place, step)
        assert tables(place) in (set(), KNOWN)
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert tables(place) == KNOWN and step > 5
    with place.ledger() as ledger:
        assert ledger.verify() == 0
