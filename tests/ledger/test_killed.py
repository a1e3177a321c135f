"""A process killed at any step leaves no double charge, no lost charge and a whole chain."""

from __future__ import annotations

import signal
import tempfile
import time
from pathlib import Path

import pytest

from dpicl.ledger.keys import Anchor
from tests.harness import until
from tests.ledger.mortal import CROWDED, die_in_step, spender
from tests.ledger.workload import Place, release, sha256


def recover(place: Place, name: str, told: list[str], releases: int = 1) -> None:
    """What the dead process was told holds; doing its work again ends like work that was never
    killed.
    """
    identity = release(name).release_id
    seen = Anchor(place.anchor).read()
    with place.ledger() as ledger:
        assert seen.sequence <= ledger.verify() == Anchor(place.anchor).read().sequence
        ledger.ensure_account(CROWDED)
        before = [entry for entry in ledger.entries("shop") if entry.release.release_id == identity]
        winner = ledger.published(identity)
        assert len(before) <= 1
        assert before or "reserved" not in told
        assert winner == sha256(name) or "published" not in told
        assert ledger.reserve(release(name)).is_new == (not before)
        assert ledger.publish(identity, sha256("again")) == (winner or sha256("again"))
        assert ledger.spent("shop").epsilon == len(ledger.entries("shop")) == releases
        ledger.verify()


@pytest.mark.exhaustive
def test_at_every_step_on_a_ledger_in_use(place: Place, tmp_path: Path) -> None:
    with place.ledger() as ledger:
        ledger.ensure_account(CROWDED)
    ends = set()
    for step in range(500):
        code, told = die_in_step(place, f"{step}", step, tmp_path / "marks")
        recover(place, f"{step}", told, releases=step + 1)
        ends.add((code, *told))
        if code == 0:
            break
    killed = -signal.SIGKILL
    assert ends == {
        (killed,),
        (killed, "reserved"),
        (killed, "reserved", "published"),
        (0, "reserved", "published"),
    }
    assert step > 25


@pytest.mark.exhaustive
def test_at_every_step_of_a_ledger_being_made() -> None:
    """In memory where there is such a folder: only a power cut could tell."""
    memory = Path("/dev/shm")
    for step in range(500):
        with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
            place = Place(f"sqlite:///{folder}/ledger.db", Path(folder))
            _, told = die_in_step(place, "a", step, Path(folder) / "marks")
            recover(place, "a", told)
        if told:
            break  # the rest is the test above
    assert step > 30


def test_in_a_crowd(place: Place, tmp_path: Path) -> None:
    """Spenders are killed wherever they are, and others take their place."""
    with place.ledger() as ledger:
        ledger.ensure_account(CROWDED)
    marks = [tmp_path / f"marks-{number}" for number in range(12)]
    crowd = [spender(place, f"s{number}", path) for number, path in enumerate(marks[:4])]
    for number, path in enumerate(marks[4:], start=4):
        until(
            lambda path=marks[number - 4]: path.exists() and path.read_text(),
            60,
            "a first reservation",
        )
        time.sleep(0.05)
        crowd[number - 4].kill()
        crowd.append(spender(place, f"s{number}", path))
    for process in crowd:
        process.kill()
        process.join()
    told = {name for path in marks if path.exists() for name in path.read_text().split()}
    with place.ledger() as ledger:
        ledger.verify()
        entries = ledger.entries("shop")
        names = {entry.release.release_id for entry in entries}
        assert len(names) == len(entries) and told <= names
        assert len(names - told) <= len(crowd)  # each may have died before it was told
        assert ledger.spent("shop").epsilon == 0.125 * len(entries) <= 1000
