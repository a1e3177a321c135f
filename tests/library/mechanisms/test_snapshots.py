"""Snapshots survive a retry, show nothing, end when they should, and are refused when changed."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import stat
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.home.sealed import SnapshotPlace
from dpicl.ledger import load_key
from tests.harness import exit_code

KEY = bytes(range(32))
NAME, VOTES = "release 7, batch 3", b"votes: 17 0 4 2 0 9 "
DAY = 86_400.0


class Clock:
    """A clock that is set by hand."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def place(tmp_path: Path, clock: Clock) -> SnapshotPlace:
    return SnapshotPlace(tmp_path / "snapshots", KEY, clock)


def files(place: SnapshotPlace) -> list[Path]:
    """All files but the lock."""
    return [path for path in place.folder.iterdir() if path.name != ".lock"]


def test_what_is_written_is_read_by_whoever_has_the_key(tmp_path: Path) -> None:
    one, other = (SnapshotPlace(tmp_path / "s", load_key(tmp_path / "key")) for _ in range(2))
    assert one.write(NAME, VOTES, DAY) and other.read(NAME) == VOTES


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", bytes(1_000_000), os.urandom(1000)],
    ids=["empty", "zero", "large", "random"],
)
def test_any_content_and_any_name_is_kept(place: SnapshotPlace, content: bytes) -> None:
    for name in ("", "../../etc/passwd", "naïve\n\0", "x" * 10_000):
        assert place.write(name, content, DAY) and place.read(name) == content
    assert len(files(place)) == 4


def test_files_show_no_content_and_no_name_and_are_for_their_owner_only(
    place: SnapshotPlace,
) -> None:
    place.write(NAME, VOTES * 50, DAY)
    (path,) = files(place)
    stored = path.read_bytes() + path.name.encode()
    for plain in (VOTES * 2, NAME.encode(), KEY):
        for start in range(len(plain) - 5):
            assert plain[start : start + 6] not in stored
    assert {stat.S_IMODE(file.stat().st_mode) for file in place.folder.iterdir()} == {0o600}
    assert stat.S_IMODE(place.folder.stat().st_mode) == 0o700
    assert repr(KEY) not in repr(place)


def test_the_same_content_never_looks_the_same(place: SnapshotPlace, tmp_path: Path) -> None:
    twin = SnapshotPlace(tmp_path / "twin", KEY, place.clock)
    for one in (place, twin):
        one.write(NAME, VOTES, DAY)
    (here,), (there,) = files(place), files(twin)
    assert here.name == there.name and here.read_bytes() != there.read_bytes()


def test_the_first_written_stands(place: SnapshotPlace) -> None:
    assert place.write(NAME, VOTES, DAY) is True
    assert place.write(NAME, b"a twin's", 2 * DAY) is False
    assert place.read(NAME) == VOTES and len(files(place)) == 1


def test_after_its_life_it_is_deleted_and_another_may_be_written(
    place: SnapshotPlace, clock: Clock
) -> None:
    place.write(NAME, VOTES, DAY)
    clock.now += DAY - 1
    assert place.read(NAME) == VOTES
    clock.now += 1
    assert place.read(NAME) is None and files(place) == []
    place.write(NAME, VOTES, DAY)
    clock.now += DAY
    assert place.write(NAME, b"again", DAY) is True and place.read(NAME) == b"again"


def test_sweeping_deletes_what_is_over_and_nothing_else(place: SnapshotPlace, clock: Clock) -> None:
    for days in (1, 2, 3):
        place.write(f"{days} days", VOTES, days * DAY)
    assert place.sweep(clock.now) == 0
    assert place.sweep(clock.now + 2 * DAY) == 2
    assert place.read("3 days") == VOTES and len(files(place)) == 1


@given(st.data())
def test_any_change_of_a_file_is_refused_in_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """A bit flipped, the end cut off, or bytes appended; the end of its life is part of what is
    authenticated.
    """
    place = SnapshotPlace(tmp_path_factory.mktemp("s"), KEY, Clock())
    place.write(NAME, VOTES, DAY)
    (path,) = files(place)
    stored = bytearray(path.read_bytes())
    bit = data.draw(st.integers(0, 8 * len(stored) - 1))
    kind = data.draw(st.sampled_from(["flip", "cut", "append"]))
    if kind == "flip":
        stored[bit // 8] ^= 1 << bit % 8
    path.write_bytes(stored[: bit // 8] if kind == "cut" else stored + b"x" * (kind == "append"))
    with pytest.raises(PrivacyError) as caught:
        place.read(NAME)
    told = str(caught.value)
    assert "this snapshot was changed, renamed or written with another key; delete it" in told
    assert caught.value.__cause__ is None and "\n" not in told and NAME not in told


def exchange(place: SnapshotPlace, other: SnapshotPlace, name: str) -> None:
    """The one file gets the name of what the other place writes in the same folder."""
    (path,) = files(place)
    other.write(name, b"other", DAY)
    (written,) = set(files(place)) - {path}
    path.rename(written)


def test_a_renamed_file_is_refused(place: SnapshotPlace) -> None:
    place.write(NAME, VOTES, DAY)
    exchange(place, place, "another")
    with pytest.raises(PrivacyError, match="renamed"):
        place.read("another")


def test_another_key_finds_nothing_and_opens_nothing(place: SnapshotPlace) -> None:
    place.write(NAME, VOTES, DAY)
    stranger = SnapshotPlace(place.folder, bytes(32), place.clock)
    assert stranger.read(NAME) is None
    exchange(place, stranger, NAME)
    with pytest.raises(PrivacyError, match="another key"):
        stranger.read(NAME)


def test_what_is_no_snapshot_is_not_swept(place: SnapshotPlace, clock: Clock) -> None:
    place.write(NAME, VOTES, DAY)
    (path,) = files(place)
    path.write_bytes(b"short")
    assert place.sweep(clock.now + 100 * DAY) == 0 and files(place) == [path]


@pytest.mark.parametrize("lifetime", [0, -1.0, float("nan"), float("inf")])
def test_a_life_without_a_length_is_refused(place: SnapshotPlace, lifetime: float) -> None:
    with pytest.raises(ParameterError, match="lifetime_seconds=.*expected a number > 0"):
        place.write(NAME, VOTES, lifetime)


def test_a_short_key_is_refused_without_being_shown(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="^key bytes=3: expected 32 secret bytes$"):
        SnapshotPlace(tmp_path, b"abc")


def test_of_racing_writers_one_wins_and_all_read_it(place: SnapshotPlace, clock: Clock) -> None:
    """Also where they first have to remove one whose life is over."""
    for _ in range(20):
        won, barrier = [], threading.Barrier(8)

        def write(number: int) -> None:
            barrier.wait()  # noqa: B023
            if place.write(NAME, b"%d" % number, DAY):
                won.append(number)  # noqa: B023

        with ThreadPoolExecutor(8) as threads:
            [*threads.map(write, range(8))]
        assert len(won) == 1 and place.read(NAME) == b"%d" % won[0]
        assert len(files(place)) == 1
        clock.now += DAY


def _write_and_die(folder: Path, last: int) -> None:
    """Killed before the file step with this number: opening, linking or removing in the folder."""
    steps = itertools.count()

    def step(name: str, arguments: tuple[Any, ...]) -> None:
        if (
            name in ("open", "os.link", "os.remove")
            and str(folder) in str(arguments[0])
            and next(steps) == last
        ):
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(step)
    SnapshotPlace(folder, KEY).write(NAME, VOTES, DAY)


def test_a_writer_killed_at_any_step_leaves_all_or_nothing(tmp_path: Path) -> None:
    """Then a twin writes, and the sweep clears what the dead one left."""
    stood, forkserver = [], multiprocessing.get_context("forkserver")
    for last in itertools.count():
        place = SnapshotPlace(tmp_path / str(last), KEY)
        arguments = place.folder, last
        process = forkserver.Process(target=_write_and_die, args=arguments)
        process.start()
        if exit_code(process, 300) == 0:
            break
        stood.append(place.read(NAME) == VOTES)
        assert place.read(NAME) in (None, VOTES)
        assert place.write(NAME, b"the twin's", DAY) is not stood[-1]
        assert place.read(NAME) == (VOTES if stood[-1] else b"the twin's")
        assert place.sweep(time.time() - 2 * DAY) == 0, "a writer that may live is left alone"
        place.sweep(time.time() + 7200)
        assert len(files(place)) == 1 and place.read(NAME) is not None
    assert False in stood and True in stood
