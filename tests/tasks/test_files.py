"""Files appear whole or not at all, and once."""

from __future__ import annotations

import json
import multiprocessing
import resource
import signal
import stat
import threading
from pathlib import Path

import numpy as np
import pytest

from dpicl.ground.files import PRIVATE_MODE, publish, read_arrays, write_arrays, write_json


def write_beyond_the_limit(path: Path, limit: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    publish(path, lambda file: file.write(bytes(10 * limit)))


def test_a_write_that_finds_no_space_leaves_nothing_behind(tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=write_beyond_the_limit, args=(tmp_path / "big", 1000)
    )
    process.start()
    process.join(60)
    assert process.exitcode == 1
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    """Half a file; and infinity is no JSON."""

    def half(file: object) -> None:
        file.write(b"half")  # type: ignore[attr-defined]
        raise ValueError

    with pytest.raises(ValueError):
        publish(tmp_path / "x", half)
    with pytest.raises(ValueError):
        write_json(tmp_path / "x", [float("inf")])
    assert list(tmp_path.iterdir()) == []


def test_of_many_writers_one_wins_and_its_file_stays(tmp_path: Path) -> None:
    path, barrier = tmp_path / "x.json", threading.Barrier(8)

    def write(number: int) -> None:
        barrier.wait()
        write_json(path, {"writer": number, "long": "x" * 100_000})

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winner = path.read_bytes()
    write_json(path, {"writer": "late"})
    assert path.read_bytes() == winner and json.loads(winner)["writer"] in range(8)
    assert list(tmp_path.iterdir()) == [path]


def test_replacing_is_asked_for(tmp_path: Path) -> None:
    write_json(tmp_path / "x", 1)
    write_json(tmp_path / "x", 2, replace=True)
    assert json.loads((tmp_path / "x").read_text()) == 2


@pytest.mark.parametrize(("mode", "expected"), [({}, 0o644), ({"mode": PRIVATE_MODE}, 0o600)])
def test_private_files_are_for_their_owner_only(
    tmp_path: Path, mode: dict[str, int], expected: int
) -> None:
    path = write_arrays(tmp_path / "x.npz", {"a": np.arange(3)}, **mode)
    assert stat.S_IMODE(path.stat().st_mode) == expected


def test_arrays_with_pickles_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.array([{"any": "object"}], dtype=object))
    with pytest.raises(ValueError, match="pickle"):
        read_arrays(tmp_path / "x.npz")
