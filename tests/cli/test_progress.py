"""How far a command is: a line now and then where nobody looks at a terminal, nothing with --quiet."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from dpicl.cli.terminal import HEARTBEAT, QUIET, Count, counted

Capture = pytest.CaptureFixture[str]


def test_a_line_is_printed_now_and_then_on_standard_error(capsys: Capture) -> None:
    with counted("running", "cells", lambda count: count.update(12, 64), every=0.7) as count:
        time.sleep(1.2)
        count.detail = "writing demonstrations, token 3 of 100"
        time.sleep(1.0)
    out, err = capsys.readouterr()
    assert err.splitlines() == ["running 12 of 64 cells, 1 s", "running 12 of 64 cells, writing demonstrations, token 3 of 100, 2 s"]
    assert not out


def test_what_is_done_soon_says_nothing_and_neither_does_a_quiet_command(capsys: Capture) -> None:
    with counted("running", "cells"):
        time.sleep(0.6)
    QUIET.set()
    try:
        with counted("running", "cells", lambda count: pytest.fail("nobody asked"), every=0.1):
            time.sleep(0.6)
    finally:
        QUIET.clear()
    assert capsys.readouterr() == ("", "") and HEARTBEAT == 30


def test_time_is_told_in_minutes_after_a_while() -> None:
    assert Count("running", "cells", 12, 64).line(190) == "running 12 of 64 cells, 3 min"
    assert Count("starting the workers", "cells").line(31) == "starting the workers, 31 s"


def test_a_failure_below_is_the_one_that_is_raised(capsys: Capture) -> None:
    with pytest.raises(ZeroDivisionError), counted("running", "cells"):
        raise ZeroDivisionError


def test_a_terminal_gets_a_bar() -> None:
    code = "import time; from dpicl.cli.terminal import counted\nwith counted('running', 'cells', lambda count: count.update(12, 64)): time.sleep(1)"
    typed = ["script", "-qec", f'{sys.executable} -c "{code}"', "/dev/null"]
    shown = subprocess.run(typed, check=True, capture_output=True, text=True, timeout=60, env={**os.environ, "TERM": "xterm"}).stdout
    assert "12/64" in shown and "running" in shown
