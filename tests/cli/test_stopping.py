"""A command that is told to stop, at any moment and in any way: one sentence, the exit code of the
signal, and nothing left that must not stay.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from dpicl.ground.files import locked
from dpicl.ground.shutdown import sweep
from lab.benchmarks.stranger_parts.stops import hears, pids
from tests.harness import Place, end, install, install_texts, letters, ran, shop, shop_rows, until

REPEAT = "dpicl: interrupted; repeating the command is not charged again"
STUBBORN = """
import signal, sys, time
from pathlib import Path
from dpicl.cli.terminal import stoppable, tell_when_stopped
from dpicl.ground.shutdown import SIGNALS, passing

for sign in SIGNALS:
    signal.signal(sign, signal.SIG_DFL)  # the tests may have been started in a shell's background, which ignores some

tell_when_stopped(lambda: time.sleep(60))
tell_when_stopped(lambda: 1 / 0)

@stoppable
def work():
    with passing(Path(sys.argv[1])):
        Path(sys.argv[1]).mkdir()
        while True:
            try:
                (Path(sys.argv[1]) / "row").write_text("private")
            except BaseException:
                pass

work()
"""  # noqa: E501
"""Writes its rows again as soon as they are removed, swallows everything; what it has to tell takes
long, or fails.
"""
IMPORTS = """
import os, signal, sys, time
from multiprocessing import util
from dpicl.ground.processes import OWN_GROUP, fork_server
sys.path.insert(0, sys.argv[1])
context = fork_server([OWN_GROUP, "slow"])
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.killpg(0, signal.SIGINT)
os.killpg(0, signal.SIGTERM)
with context.Pool(1) as pool:
    print(pool.apply(abs, (-3,)))
"""
"""Its group is told to stop while its fork server has only just been started."""


LATE = """
import builtins, os, signal, sys

class Late:
    def __del__(self, kill=os.kill, pid=os.getpid(), signals=(signal.SIGTERM, signal.SIGINT)):
        for sign in signals:
            kill(pid, sign)

builtins.late = Late()
sys.argv = ["dpicl", "--version"]
from dpicl.cli import main
main()
"""
"""Is told to stop while Python clears its modules, after all that is called at the end."""


@pytest.mark.quick("2-True")
@pytest.mark.parametrize(
    ("sign", "again"),
    [
        *((sign, True) for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)),
        (signal.SIGINT, False),
        *(
            pytest.param(sign, False, marks=pytest.mark.exhaustive)
            for sign in (signal.SIGTERM, signal.SIGHUP)
        ),
    ],
)
def test_no_command_can_hold_on(tmp_path: Path, sign: signal.Signals, again: bool) -> None:
    rows = tmp_path / "rows"
    process = subprocess.Popen(
        [sys.executable, "-c", STUBBORN, str(rows)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        until(lambda: (rows / "row").exists(), 60, "rows")
        began = time.monotonic()
        process.send_signal(sign)
        if again:
            time.sleep(0.2)
            process.send_signal(sign)
        _, err = process.communicate(timeout=60)
    finally:
        end(process)
    assert process.returncode == 128 + sign and err == f"{REPEAT}\n" and not rows.exists()
    assert time.monotonic() - began < 50


def test_workers_are_not_reached_by_what_the_program_s_group_is_told(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time; time.sleep(1)")
    done = ran([sys.executable, "-c", IMPORTS, tmp_path], start_new_session=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


@pytest.mark.quick("15")
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_while_a_command_is_imported(place: Place, sign: signal.Signals) -> None:
    process = place.start("synth shop --out rows.csv")
    until(lambda: hears(process.pid), 60, "the first line of ours", every=0.001)
    os.killpg(process.pid, sign)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (128 + sign, f"{REPEAT}\n")


def _stop_when(
    place: Place, arguments: tuple[str, ...], seen: Callable[[], bool], sign: signal.Signals
) -> tuple[int, str] | None:
    """Freeze a command as soon as something is seen, and let it go on with a signal; None where it
    was too fast to be stopped there.
    """
    process = place.start(*arguments)
    try:
        until(lambda: seen() or process.poll() is not None, 120, "the moment", every=0.0005)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGSTOP)
        if process.poll() is not None or not seen():
            return None
        os.killpg(process.pid, sign)
        os.killpg(process.pid, signal.SIGCONT)
        _, err = process.communicate(timeout=60)
    finally:
        end(process)
    return process.returncode, err


@pytest.mark.parametrize(
    ("command", "sign"),
    [
        ("protect", signal.SIGTERM),
        pytest.param("synth", signal.SIGINT, marks=pytest.mark.exhaustive),
    ],
)
def test_a_stopped_release_leaves_no_row_and_no_file(
    place: Place, command: str, sign: signal.Signals
) -> None:
    for attempt in range(5):  # it takes a fifth of a second, which a busy machine may miss
        name = install(place, shop(f"till{attempt}", private=True), shop_rows(3000))
        out = place.root / f"out{attempt}" / "rows.csv"
        out.parent.mkdir()
        arguments = (
            command,
            name,
            "--epsilon",
            "1",
            "--out",
            str(out),
            *(("--as", "csv") if command == "protect" else ()),
        )
        folder = place.home / "private" / name
        ended = _stop_when(place, arguments, lambda f=folder: any(f.glob("*/*")), sign)
        if ended is not None:
            break
    assert ended == (128 + sign, f"{REPEAT}\n")
    assert not list(folder.glob("*")) and not list(out.parent.iterdir()) and not list(pids(place))
    assert not list((place.home / "runs").glob("*"))
    assert place.dpicl(*arguments).returncode == 0 and len(list(out.parent.iterdir())) == 2


def test_a_certificate_of_another_release_is_refused_before_a_charge(place: Place) -> None:
    name, out = install(place, shop("booth", private=True)), place.root / "rows.csv"
    assert place.dpicl(f"synth {name} --epsilon 1 --out {out}").returncode == 0
    out.unlink()
    spent = place.dpicl(f"budget {name} --json").stdout
    other = place.dpicl(f"synth {name} --epsilon 2 --out {out}")
    assert other.returncode == 2
    assert "the certificate of another release stands there" in other.stderr
    assert place.dpicl(f"budget {name} --json").stdout == spent and not out.exists()


@pytest.mark.parametrize("is_held", [True, False])
def test_a_stop_leaves_the_rows_that_another_process_works_with(
    tmp_path: Path, is_held: bool
) -> None:
    rows, lock = tmp_path / "private" / "run", tmp_path / "lock"
    rows.mkdir(parents=True)
    (rows / "table").write_text("private")
    stopped = (
        "from pathlib import Path; from dpicl.ground.shutdown import leave, passing; from "
        f"dpicl.ground.files import locked\nwith locked(Path({str(lock)!r}), shared=True), "
        f"passing(Path({str(rows)!r}), lock=Path({str(lock)!r})): leave('stopped')"
    )
    with locked(lock, shared=True) if is_held else nullcontext():
        done = ran([sys.executable, "-c", stopped])
    assert (done.returncode, done.stderr) == (130, "stopped\n")
    assert (rows / "table").exists() is is_held and list(rows.parent.iterdir()) == [rows] * is_held


def test_what_was_left_to_remove_is_swept_and_nothing_else(tmp_path: Path) -> None:
    for name in (".gone-7-0", "run"):
        (tmp_path / "till" / name).mkdir(parents=True)
    sweep(tmp_path)
    assert [path.name for path in (tmp_path / "till").iterdir()] == ["run"]


def test_a_certificate_alone_is_what_a_killed_release_leaves_and_the_same_command_completes_it(
    place: Place,
) -> None:
    name = install(place, shop("stall", private=True))
    out = place.root / "rows.csv"
    arguments = f"synth {name} --epsilon 1 --out {out}"
    assert place.dpicl(arguments).returncode == 0
    content = out.read_bytes()
    out.unlink()
    again = place.dpicl(arguments)
    assert again.returncode == 0 and out.read_bytes() == content, again.stderr
    out.write_bytes(content[:-1])
    assert place.dpicl(arguments).returncode == 2 and out.read_bytes() == content[:-1]


@pytest.mark.exhaustive
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_query_is_asked_again_for_nothing(place: Place, sign: signal.Signals) -> None:
    install_texts(place, letters("notes", private=True))
    arguments = (
        "ask",
        "who is there?",
        "--account",
        "notes",
        "--model",
        "fake",
        "--shots",
        "1",
        "--count",
        "2",
        "--epsilon",
        "2",
    )
    slots = place.home / "private" / "journals"
    assert _stop_when(place, arguments, lambda: any(slots.glob("*/slots/*.json")), sign) == (
        128 + sign,
        f"{REPEAT}\n",
    )
    again = place.dpicl(*arguments)
    assert again.returncode == 0
    assert "query 1 of 2" in again.stderr
    assert len(again.stdout.splitlines()) == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_run_on_prefect_that_is_stopped_as_its_workers_start_says_one_sentence(
    place: Place, sign: signal.Signals
) -> None:
    install(place, shop("kiosk"))
    process = place.start("run demo --datasets kiosk --model fake --run-id r --executor prefect")
    try:
        until(lambda: len(list(pids(place))) > 4, 120, "workers")
        os.killpg(process.pid, sign)
        began = time.monotonic()
        _, err = process.communicate(timeout=60)
        until(lambda: not list(pids(place)), 10, "the end of all processes")
    finally:
        end(process)
    assert (process.returncode, err) == (
        128 + sign,
        "dpicl: interrupted; `dpicl run --resume r` continues it\n",
    )
    assert time.monotonic() - began < 10


def test_a_signal_after_a_commands_end_does_not_change_how_it_ended() -> None:
    ended = ran([sys.executable, "-c", LATE])
    assert (ended.returncode, ended.stderr) == (0, "") and ended.stdout
