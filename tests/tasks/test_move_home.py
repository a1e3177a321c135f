"""`dpicl ledger move`, killed at every line: at any time one folder at most can be spent from, and
in the end the new one holds it all.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import signal
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import dpicl.engine.move_home
from dpicl.engine.move_home import move_home
from dpicl.engine.open_ledger import open_ledger
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError, LedgerError, LedgerRefusedError
from tests.guard import kill_before
from tests.harness import content, is_temporary
from tests.ledger.workload import SHOP, release

RELEASED = b"of the old home"


def die_at(line: int, origin: Path, settings: Settings) -> None:
    """Move, and be killed before the given line of the module that is carried out."""
    kill_before(line, dpicl.engine.move_home)
    move_home(origin, settings)


def killed(line: int, origin: Path, settings: Settings) -> int:
    """The exit code of a process that moves up to a line."""
    process = multiprocessing.get_context("forkserver").Process(
        target=die_at, args=(line, origin, settings)
    )
    process.start()
    process.join(60)
    assert process.exitcode is not None, "the move hangs"
    return process.exitcode


def spend(settings: Settings, name: str) -> bool:
    """Charge a release; whether that was let."""
    try:
        with open_ledger(settings) as ledger:
            ledger.ensure_account(SHOP)
            ledger.reserve(release(name))
            return True
    except LedgerError:
        gc.collect()  # what was refused while it was being opened is closed with its connection
        return False


def old_home(folder: Path, settings: Settings) -> Path:
    """What an installation of before has in the working directory, of which one release is
    charged.
    """
    origin = folder / ".dpicl"
    assert spend(replace(settings, home=origin), "first")
    for name in (
        "released/shop/a",
        "private/journals/a/seed",
        "models/tiny-0/weights",
        "cache/x.csv",
        "runs/r/report.html",
    ):
        (origin / name).parent.mkdir(parents=True)
        (origin / name).write_bytes(RELEASED)
    return origin


Made = Callable[[str], tuple[Path, Settings]]


@pytest.fixture
def disk() -> str:
    """Whether the state home is on the disk of the working directory; tests may ask for
    `another disk`.
    """
    return "one disk"


@pytest.fixture
def made(disk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """Makes a working directory with a home of before, and the user's state home, still without
    anything; goes there.
    """
    other = [
        Path(name)
        for name in ("/dev/shm", "/var/tmp")
        if os.path.isdir(name) and os.stat(name).st_dev != tmp_path.stat().st_dev
    ]  # noqa: S108
    if disk == "another disk" and not other:
        pytest.skip("there is one disk only")
    parent = Path(tempfile.mkdtemp(dir=other[0])) if disk == "another disk" else tmp_path / "homes"
    template = old_home(
        tmp_path / "template",
        Settings(tmp_path / "none", None, tmp_path, tmp_path, tmp_path / "runs"),
    )

    def make(name: str) -> tuple[Path, Settings]:
        origin = Path(shutil.copytree(template, tmp_path / name / ".dpicl"))
        monkeypatch.chdir(origin.parent)
        monkeypatch.setenv("XDG_STATE_HOME", str(parent / name))
        monkeypatch.setenv(
            "XDG_CONFIG_HOME", str(parent / name / "settings")
        )  # else all are copies of one home
        monkeypatch.delenv("DPICL_HOME", raising=False)
        monkeypatch.delenv("DPICL_RUNS", raising=False)
        return origin, Settings.from_environment()

    yield make
    shutil.rmtree(parent)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("disk", "every"),
    [
        ("one disk", 31),
        *(
            pytest.param(disk, 1, marks=pytest.mark.exhaustive)
            for disk in ("one disk", "another disk")
        ),
    ],
)
def test_a_move_killed_at_every_line_ends_as_one_left_alone_and_two_homes_never_grant(
    made: Made, every: int
) -> None:
    for line in range(0, 500, every):
        origin, settings = made(str(line))
        key, code = (origin / "keys" / "ledger.key").read_bytes(), killed(line, origin, settings)
        granted = [
            home
            for home in (origin, settings.home)
            if spend(replace(settings, home=home), "second")
        ]
        assert len(granted) <= 1, f"line {line}: both can be spent from"
        move_home(origin, settings)
        check_moved(origin, settings, key, ["first", *("second" for _ in granted)])
        if code == 0:
            assert line > 60
            return
        assert code == -signal.SIGKILL
    pytest.fail("the move never ends")


def check_moved(origin: Path, settings: Settings, key: bytes, charged: list[str]) -> None:
    """All is in the new home, for its owner only, and nothing of it in the old one, which grants
    nothing.
    """
    assert not spend(replace(settings, home=origin), "third")
    with open_ledger(settings) as ledger:
        ledger.verify()
        assert [entry.release.release_id for entry in ledger.entries("shop")] == [
            release(name).release_id for name in charged
        ]
    home = settings.home
    assert (home / "keys" / "ledger.key").read_bytes() == key
    for name in (
        "released/shop/a",
        "private/journals/a/seed",
        "models/tiny-0/weights",
        "cache/x.csv",
    ):
        assert (home / name).read_bytes() == RELEASED
    assert {path.partition("/")[0] for path in content(origin)} == {"ledger.db", "moved", "runs"}
    assert (origin / "runs" / "r" / "report.html").read_bytes() == RELEASED
    assert not [
        path
        for folder in (home, origin)
        for path in folder.iterdir()
        if is_temporary(path) and path.suffix != ".lock"
    ]
    for path in (home / "ledger.db", home / "keys" / "ledger.key", home / "ledger.anchor.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert settings.runs == origin / "runs"


def test_a_ledger_in_use_stays_where_it_is(made: Made) -> None:
    origin, settings = made("used")
    with open_ledger(replace(settings, home=origin)) as ledger:
        ledger.ensure_account(SHOP)
        with pytest.raises(LedgerError, match="is in use"):
            move_home(origin, settings)
        ledger.reserve(release("second"))
    move_home(origin, settings)
    with open_ledger(settings) as ledger:
        assert len(ledger.entries("shop")) == 2


def test_who_waited_for_the_old_database_meanwhile_is_refused(made: Made) -> None:
    """It has the old file open, whose name another one gets: what it wrote there would be lost."""
    origin, settings = made("waited")
    waiting = sqlite3.connect(origin / "ledger.db")  # opened, and nothing read so far
    move_home(origin, settings)
    assert waiting.execute("SELECT version_num FROM alembic_version").fetchall() == [("moved",)]
    waiting.close()


def test_a_state_home_with_a_ledger_is_not_written_over(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin, settings = made("both")
    with monkeypatch.context() as elsewhere:
        elsewhere.chdir("/")
        assert spend(settings, "elsewhere")
    before = content(settings.home)
    with pytest.raises(LedgerRefusedError, match="of a ledger already"):
        move_home(origin, settings)
    assert content(settings.home) == before
    with pytest.raises(LedgerRefusedError, match="holds a ledger of before"), open_ledger(settings):
        pass
    assert spend(replace(settings, home=origin), "second"), "the old one is as it was"


@pytest.mark.parametrize("name", ["nothing", "runs"])
def test_a_folder_without_a_ledger_is_not_moved(made: Made, name: str) -> None:
    origin, settings = made(name)
    shutil.rmtree(origin)
    if name == "runs":
        (origin / "runs" / "r").mkdir(parents=True)
    with pytest.raises(DpiclError, match="no ledger to move"):
        move_home(origin, settings)
    assert spend(settings, "first"), "runs alone are no ledger"
