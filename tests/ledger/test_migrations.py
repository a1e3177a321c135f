"""Opening brings any older ledger up to date, once, however many processes open it; a newer one is
refused; all ways back keep what is spent.
"""

from __future__ import annotations

import multiprocessing
import signal
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

import dpicl.accounting.ledger as package
from dpicl import __version__
from dpicl.accounting.ledger.database import known_schemas
from dpicl.accounting.ledger.models import SCHEMA, metadata
from dpicl.errors import LedgerError, LedgerRefusedError
from tests.ledger.earlier import EARLIER, by, held, newer_program, tables, write_earlier
from tests.ledger.mortal import die_moving
from tests.ledger.workload import Place, cost, open_and_ask, open_only, release, sha256


def test_many_processes_make_one_ledger(place: Place) -> None:
    with multiprocessing.get_context("forkserver").Pool(12) as pool:
        answers = pool.starmap(open_and_ask, [(place.url, place.anchor)] * 24, chunksize=1)
    assert len({process for process, _ in answers}) > 1
    assert {records for _, records in answers} == {1}


def test_migrations_make_the_tables_that_the_code_uses(place: Place) -> None:
    with place.ledger() as ledger, ledger._database.writing() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_the_code_needs_the_newest_migration() -> None:
    migrations = ScriptDirectory(str(Path(package.__file__).parent / "migrations"))
    assert migrations.get_heads() == [SCHEMA]


def test_a_newer_ledger_is_refused_and_left_alone(place: Place) -> None:
    with place.ledger():
        pass
    place.execute("UPDATE alembic_version SET version_num = '9999'")
    told = (
        rf"schema 9999 was made by a newer dpicl, and this is dpicl {__version__}, which knows up "
        rf"to {SCHEMA}; install a newer dpicl, or let it"
    )
    with pytest.raises(LedgerError, match=told), place.ledger():
        pass
    assert place.execute("SELECT version_num FROM alembic_version")[0][0] == "9999"


def test_a_migration_that_fails_leaves_nothing(place: Place) -> None:
    """A table in the way of the last step: none of the steps before it stays."""
    place.execute("CREATE TABLE head (id INTEGER)")
    with pytest.raises(LedgerError, match="head"), place.ledger():
        pass
    assert place.execute("SELECT count(*) FROM head")[0][0] == 0
    place.execute("DROP TABLE head")
    with place.ledger() as ledger, ledger._database.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM head")).scalar() == 1


@pytest.mark.parametrize("name", EARLIER)
def test_an_earlier_ledger_is_opened_with_all_that_it_holds(place: Place, name: str) -> None:
    """One record more says which accounts there are now; those that were there stay as they are."""
    write_earlier(place, name)
    before = held(place)
    with place.ledger() as ledger:
        assert (ledger.schema, ledger.verify()) == (SCHEMA, 10)
        after = held(place)
        assert after["entries"] == before["entries"] and set(before["records"]) < set(
            after["records"]
        )
        assert [
            row.kind for row in place.execute("SELECT kind FROM records WHERE sequence > 9")
        ] == ["settled"]
        assert (ledger.spent("shop").epsilon, ledger.dry_run("shop", [cost(0.25)]).cap) == (
            1.75,
            4.0,
        )
        bought = {entry.release.parameters["n"]: entry for entry in ledger.entries("shop")}
        assert {n: entry.state for n, entry in bought.items()} == {
            "a": "published",
            "b": "published",
            "c": "reserved",
        }
        assert not ledger.reserve(bought["c"].release).is_new
        assert ledger.publish(bought["a"].release.release_id, sha256("other")) == sha256("a")
        assert ledger.reserve(release("new", cost(0.5))).is_new and ledger.verify() == 11
        assert (
            [reading.total.epsilon for reading in ledger.odometer("shop")][-1]
            == ledger.spent("shop").epsilon
            == 2.25
        )
    with place.ledger() as ledger:
        assert ledger.verify() == 11, "it is settled once"


def test_processes_that_open_an_earlier_ledger_together_settle_it_once(place: Place) -> None:
    write_earlier(place, "first")
    with multiprocessing.get_context("forkserver").Pool(8) as pool:
        pool.starmap(open_only, [(place.url, place.anchor)] * 16, chunksize=1)
    assert place.execute("SELECT count(*) FROM records WHERE kind = 'settled'")[0][0] == 1


def test_an_earlier_ledger_that_was_edited_is_not_settled(place: Place) -> None:
    write_earlier(place, "second")
    place.execute("UPDATE entries SET epsilon = 0.01 WHERE epsilon = 1")
    with (
        pytest.raises(LedgerRefusedError, match="entry .* is not what the chain says"),
        place.ledger(),
    ):
        pass


@pytest.mark.parametrize("revision", ["0001", "0002"])
def test_a_ledger_with_records_does_not_go_back_behind_its_accounts_of_assets(
    place: Place, revision: str
) -> None:
    """An older program would give every contract a cap of its own again."""
    write_earlier(place, "first")
    with place.ledger() as ledger:
        before = held(place), tables(place)
        with pytest.raises(
            LedgerError,
            match="its budgets belong to data assets; an older program would spend them again",
        ):
            ledger.take_back(revision)
        assert (held(place), tables(place), ledger.schema, ledger.verify()) == (*before, SCHEMA, 10)


def test_an_empty_ledger_goes_back_to_an_older_form_and_up_again(place: Place) -> None:
    with place.ledger() as ledger:
        newest = tables(place)
        ledger.take_back("0001")
        assert ledger.schema == "0001" and tables(place) < newest
    with place.ledger() as ledger:
        assert (ledger.schema, tables(place), ledger.verify()) == (SCHEMA, newest, 0)


def test_a_way_back_that_is_not_there_is_refused(place: Place) -> None:
    write_earlier(place, "first")
    with place.ledger() as ledger:
        for revision in ("0007", "base", ""):
            with pytest.raises(
                LedgerError,
                match=f"schema {SCHEMA} cannot be taken back to .*; expected one of "
                f"{', '.join(known_schemas())}",
            ):
                ledger.take_back(revision)
        place.execute("UPDATE entries SET epsilon = 0.01 WHERE epsilon = 1")
        with pytest.raises(LedgerError, match="the ledger was edited"):
            ledger.take_back("0001")
        assert ledger.schema == SCHEMA


@pytest.mark.exhaustive
def test_killed_while_it_is_brought_up_a_ledger_is_in_one_form_or_the_other_and_settled_or_not(
    place: Place,
) -> None:
    write_earlier(place, "third")
    before = held(place)
    for step in range(500):
        code = die_moving(place, None, step)
        form, after = place.execute("SELECT version_num FROM alembic_version")[0][0], held(place)
        is_settled = len(after["records"]) == len(before["records"]) + 1
        assert after["entries"] == before["entries"] and ("seals" in tables(place)) == (
            form == SCHEMA
        )
        assert after == before or (is_settled and form == SCHEMA)
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert is_settled and step > 5
    with place.ledger() as ledger:
        assert (ledger.schema, ledger.verify(), ledger.spent("shop").epsilon) == (SCHEMA, 10, 1.75)


@pytest.mark.exhaustive
def test_killed_while_it_goes_back_an_empty_ledger_is_in_one_form_or_the_other(
    place: Place,
) -> None:
    with place.ledger():
        pass
    for step in range(500):
        code = die_moving(place, "0001", step)
        form = place.execute("SELECT version_num FROM alembic_version")[0][0]
        assert form in ("0001", SCHEMA) and ("seals" in tables(place)) == (form == SCHEMA)
        if code == 0 or form != SCHEMA:
            break
        assert code == -signal.SIGKILL
    assert form == "0001" and step > 5
    with place.ledger() as ledger:
        assert ledger.schema == SCHEMA


@pytest.mark.exhaustive
def test_a_newer_program_takes_back_what_this_one_can_hold(place: Place, tmp_path: Path) -> None:
    """The newer program is this one with a migration more, in processes of its own."""
    write_earlier(place, "second")
    newer = newer_program(tmp_path / "newer")
    assert (
        by(newer, place, "print(ledger.schema, ledger.verify(), ledger.spent('shop').epsilon)")
        == "0004 10 1.75"
    )
    told = (
        r"schema 0004 was made by dpicl 0.2.0, and this is dpicl .*; install dpicl 0.2.0, or let "
        r"it take .* `dpicl ledger downgrade 0003`"
    )
    with pytest.raises(LedgerError, match=told), place.ledger():
        pass
    before = held(place)
    place.execute("INSERT INTO notes VALUES ('n')")
    assert by(newer, place, "ledger.take_back('0003')") == "1 notes have no place in schema 0003"
    assert "notes" in tables(place) and held(place) == before
    place.execute("DELETE FROM notes")
    assert by(newer, place, "ledger.take_back('0003'); print(ledger.verify())") == "10"
    with place.ledger() as ledger:
        assert (ledger.schema, ledger.verify(), held(place)) == (SCHEMA, 10, before)


def test_every_migration_after_the_first_has_a_way_back() -> None:
    migrations = ScriptDirectory(str(Path(package.__file__).parent / "migrations"))
    assert [
        script.revision
        for script in migrations.walk_revisions()
        if not hasattr(script.module, "downgrade")
    ] == ["0001"]
