"""`dpicl metrics` as the recipes start it: a role that may only read, and a home that cannot be
written.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import psycopg
import pytest

from tests.harness import DPICL, Place, install, ran, shop, shop_rows, well
from tests.infra.databases import Databases, made_databases


@pytest.fixture(scope="module")
def databases() -> Iterator[Databases]:
    """What the script makes of an empty server."""
    with made_databases() as made:
        yield made


def bought(place: Place, databases: Databases, shots: int) -> None:
    """A release more."""
    asked = f"--method gdp_tabicl --shots {shots} --out {place.root / f'{shots}.jsonl'}"
    well(place.dpicl(f"protect till {asked}", DPICL_LEDGER=databases.url("ledger")))


def watched(place: Place, databases: Databases) -> dict[str, str]:
    """Metrics by name and labels, of a process that sees the home for reading only."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a folder that may only be read needs root and unshare")
    for_reading = (
        'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && ! touch "$0/x" 2>&- && exec '
        '"$1" metrics'
    )
    environment = {**os.environ, **place.environment, "DPICL_LEDGER": databases.url("metrics")}
    command = ["unshare", "-m", "sh", "-c", for_reading, str(place.home), str(DPICL)]
    done = well(ran(command, env=environment))
    return dict(
        line.rsplit(" ", 1) for line in done.stdout.splitlines() if not line.startswith("#")
    )


@pytest.mark.exhaustive
def test_reading_is_enough_for_metrics(databases: Databases, place: Place) -> None:
    """Also while the anchor is behind, as it is between a commit and what follows; and an edit is
    seen.
    """
    install(place, shop("till", private=True), shop_rows(80))
    bought(place, databases, 2)
    anchor = place.home / "ledger.anchor.json"
    behind = anchor.read_bytes()
    bought(place, databases, 4)
    anchor.write_bytes(behind)
    found = watched(place, databases)
    assert (
        found["dpicl_ledger_intact"],
        found['dpicl_releases{account="till",state="published"}'],
    ) == ("1.0", "2.0")
    assert anchor.read_bytes() == behind
    with psycopg.connect(databases.url("ledger"), autocommit=True) as owner:
        owner.execute("UPDATE records SET content = replace(content, '1', '0')")
    assert watched(place, databases)["dpicl_ledger_intact"] == "0.0"


@pytest.mark.exhaustive
def test_the_role_of_the_metrics_changes_nothing_and_enters_no_other_database(
    databases: Databases,
) -> None:
    with psycopg.connect(databases.url("ledger"), autocommit=True) as owner:
        owner.execute("CREATE TABLE IF NOT EXISTS probe (x int)")
    for statement in (
        "DELETE FROM probe",
        "INSERT INTO probe VALUES (1)",
        "CREATE TABLE own (x int)",
        "DROP TABLE probe",
    ):
        with psycopg.connect(databases.url("metrics"), autocommit=True) as reader:
            assert reader.execute("SELECT count(*) FROM probe").fetchone() == (0,)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(statement)
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(databases.url("metrics", "prefect"))
