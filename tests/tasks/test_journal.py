"""The journal of texts on disk: the first token stands, the seed is one for all tries, and nothing
of either outlives the release.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpicl.ground.randomness import Draws
from dpicl.home.settings import Settings
from dpicl.release.journal import FileJournal, forget
from tests.harness import new_place

CELL, OTHER = "icl,epsilon=1.0,shots=2", "icl,epsilon=2.0,shots=2"
NAMES = {CELL: "a" * 64, OTHER: "b" * 64}


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    place = new_place(tmp_path / "place")
    with place.entered():
        yield Settings.from_environment()


def journal(settings: Settings, rows: str = "c" * 64, *, simulated: bool = False) -> FileJournal:
    return FileJournal(settings, NAMES, Draws(0, "letters", simulated=simulated), rows)


def test_of_two_that_keep_the_same_step_the_first_stands(settings: Settings) -> None:
    first, twin = journal(settings), journal(settings)
    assert first.read(CELL, 0) is None
    assert (
        first.keep(CELL, 0, (3, -1)) == twin.keep(CELL, 0, (5, 7)) == first.read(CELL, 0) == (3, -1)
    )
    assert twin.read(CELL, 1) is None and twin.read(OTHER, 0) is None


def test_every_try_of_a_release_draws_the_same_and_no_other_release_does(
    settings: Settings,
) -> None:
    first, twin = journal(settings), journal(settings)
    drawn = [
        one.stream(cell, name).bytes(16)
        for one in (first, twin)
        for cell in NAMES
        for name in ("token 0 1", "token 0 2")
    ]
    assert drawn[:4] == drawn[4:] and len(set(drawn)) == 4
    assert not first.stream(CELL, "token 0 1").simulated
    assert journal(settings, simulated=True).stream(CELL, "token 0 1").simulated


def test_the_randomness_of_one_state_of_the_rows_is_never_used_on_another(
    settings: Settings,
) -> None:
    """Resumed on other rows, a release begins a journal anew; back on the first rows, it goes on
    with theirs.
    """
    before, changed = journal(settings), journal(settings, "d" * 64)
    drawn = before.stream(CELL, "token 0 1").bytes(16)
    before.keep(CELL, 0, (3,))
    assert changed.read(CELL, 0) is None and changed.stream(CELL, "token 0 1").bytes(16) != drawn
    assert journal(settings).read(CELL, 0) == (3,)
    assert journal(settings).stream(CELL, "token 0 1").bytes(16) == drawn
    forget(settings, NAMES[CELL])
    assert before.read(CELL, 0) is None and changed.stream(CELL, "token 0 1").bytes(16) != drawn


def test_what_is_forgotten_is_gone_with_its_seed(settings: Settings) -> None:
    one = journal(settings)
    before = one.stream(CELL, "token 0 1").bytes(16)
    one.keep(CELL, 0, (3,))
    one.keep(OTHER, 0, (4,))
    forget(settings, NAMES[CELL])
    forget(settings, NAMES[CELL])
    assert one.read(CELL, 0) is None and one.read(OTHER, 0) == (4,)
    assert one.stream(CELL, "token 0 1").bytes(16) != before
    assert not [
        path
        for path in (settings.home / "private").rglob("*")
        if path.name.startswith(".") and path.is_dir()
    ]


def test_a_twin_whose_journal_is_forgotten_goes_on_alone(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its draw will not be published: what matters is that nothing stops and nothing is mixed."""
    one = journal(settings)
    monkeypatch.setattr(FileJournal, "read", lambda *_: None)
    assert one.keep(CELL, 4, (9, 9)) == (9, 9)


def test_only_the_owner_reads_seed_and_tokens(settings: Settings) -> None:
    one = journal(settings)
    one.stream(CELL, "x")
    one.keep(CELL, 0, (3,))
    files = [path for path in (settings.home / "private").rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"seed", "0000.json"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_seeded_noise_keeps_no_seed(settings: Settings) -> None:
    one = journal(settings, simulated=True)
    one.stream(CELL, "x")
    assert not [path for path in (settings.home / "private").rglob("*") if path.is_file()]
