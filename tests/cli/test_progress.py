"""How far a command is: a line now and then where nobody looks at a terminal, nothing with
--quiet.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from dpicl.cli.planned_run import _look
from dpicl.cli.terminal import HEARTBEAT, Count, counted
from dpicl.ground.files import write_json
from dpicl.ground.progress import QUIET
from dpicl.home.settings import Settings
from dpicl.report import REPORT
from dpicl.runs.artefacts import PART, PROMPTS, RESULTS
from dpicl.runs.draw import progress_writer
from dpicl.runs.plan import make_plan
from dpicl.runs.probe import PROBE
from dpicl.runs.run_folder import open_unit, read_plan, running
from tests.cli.conftest import Cli
from tests.harness import Place, ran, until, well


def test_a_line_is_printed_now_and_then_on_standard_error(cli: Cli) -> None:
    """However late a busy machine lets it be."""
    shown: list[str] = []

    def lines() -> list[str]:
        out, err = cli.capsys.readouterr()
        assert not out
        shown.extend(err.splitlines())
        return shown

    began = time.monotonic()
    with counted("running", "cells", lambda count: count.update(12, 64), every=0.7) as count:
        until(lines, 60, "a line")
        count.detail = "writing demonstrations, token 3 of 100"
        until(lambda: "token 3 of 100" in lines()[-1], 60, "another line")
    told = [
        re.fullmatch(
            r"running 12 of 64 cells(, writing demonstrations, token 3 of 100)?, (\d+) s", line
        )
        for line in shown
    ]
    with_detail, seconds = zip(*((bool(one[1]), int(one[2])) for one in told if one), strict=True)
    assert all(told) and {*with_detail} == {False, True} and [*with_detail] == sorted(with_detail)
    assert [*seconds] == sorted(seconds) and seconds[0] > 0
    # and not at every look
    assert len(shown) <= (time.monotonic() - began) / 0.7


def test_what_is_done_soon_says_nothing_and_neither_does_a_quiet_command(cli: Cli) -> None:
    with counted("running", "cells"):
        time.sleep(0.6)
    QUIET.set()
    try:
        with counted("running", "cells", lambda count: pytest.fail("nobody asked"), every=0.1):
            time.sleep(0.6)
    finally:
        QUIET.clear()
    assert cli.capsys.readouterr() == ("", "") and HEARTBEAT == 30


def test_time_is_told_in_minutes_after_a_while() -> None:
    assert Count("running", "cells", 12, 64).line(190) == "running 12 of 64 cells, 3 min 10 s"
    assert Count("starting the workers", "cells").line(31) == "starting the workers, 31 s"


def test_a_failure_below_is_the_one_that_is_raised(cli: Cli) -> None:
    with pytest.raises(ZeroDivisionError), counted("running", "cells"):
        raise ZeroDivisionError


@pytest.mark.exhaustive
def test_a_terminal_gets_a_bar() -> None:
    code = (
        "import time; from dpicl.cli.terminal import counted\nwith counted('running', 'cells', "
        "lambda count: count.update(12, 64)): time.sleep(1)"
    )
    typed = ["script", "-qec", f'{sys.executable} -c "{code}"', "/dev/null"]
    shown = well(ran(typed, env={**os.environ, "TERM": "xterm"})).stdout
    assert "12/64" in shown and "running" in shown


def test_a_run_says_what_its_models_do(place: Place) -> None:
    """That they are opened and checked, then how many public queries are answered, of the part that
    is behind.
    """
    with place.entered(), Settings.from_environment().entered():
        folder = make_plan(
            "demo",
            {
                "epsilons": ["1"],
                "shots": [2],
                "seeds": [0],
                "methods": ["gdp_tabicl"],
                "model": "tiny",
            },
            "run",
        )
        plan, count = read_plan(folder), Count("running", "cells")
        (key,) = plan.units

        def detail() -> str:
            _look(folder, plan, count)
            return count.detail

        assert detail() == "opening and checking tiny"
        write_json(folder / PROBE, {})
        assert detail() == "reading rows and drawing releases of 1 unit"
        write_json(folder / "units" / key / "released_groups.json", {})
        assert detail() == "writing prompts"
        (folder / "units" / key / PROMPTS).touch()
        assert detail() == "asking tiny"
        for part, done in enumerate((90, 40)):
            progress_writer([open_unit(str(folder), key)], "answering, query", f"{PART}{part}")(
                done, 90
            )
        assert detail() == "answering, query 40 of 90"
        progress_writer([open_unit(str(folder), key)], "writing, token", f"{PART}2")(20, 20)
        assert detail() == "answering, query 40 of 90"
        progress_writer([open_unit(str(folder), key)], "answering, query", f"{PART}1")(90, 90)
        assert detail() == "asking tiny"
        write_json(folder / "units" / key / RESULTS, {})
        assert detail() == "writing the report"
        (folder / REPORT).touch()
        assert detail() == "closing the workers"


def test_a_run_counts_no_unit_that_waits_for_time(place: Place) -> None:
    changes = {"seeds": [0, 1, 2], "methods": ["gdp_tabicl"], "shots": [2], "within_hours": 1}
    with place.entered(), Settings.from_environment().entered():
        folder = make_plan("demo", {"epsilons": ["1"], "model": "fake", **changes}, "run")
        plan, count = read_plan(folder), Count("running", "cells")
        write_json(folder / PROBE, {})
        first, second, _ = plan.units

        def detail() -> str:
            _look(folder, plan, count)
            return count.detail

        with running(folder, plan, Settings.current()) as may_begin:
            (dataset,) = {unit.dataset for unit in plan.units.values()}
            assert may_begin(f"seed 0 of {dataset}")
            assert detail() == "reading rows and drawing releases of 1 unit"
            write_json(folder / "units" / first / "released_groups.json", {})
            assert detail() == "writing prompts"
            write_json(folder / "units" / first / RESULTS, {})
            assert may_begin(f"seed 1 of {dataset}")
            assert detail() == "reading rows and drawing releases of 1 unit"
            write_json(folder / "units" / second / "released_groups.json", {})
            assert detail() == "writing prompts"


_WAITS = """
import time
from dpicl.cli.terminal import say, waiting
with waiting("releasing"):
    time.sleep(0.2)
say("soon done")
with waiting("working out what the release is worth"):
    time.sleep(2.6)
    say("a note")
say("done")
"""


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_shows_that_something_goes_on_and_keeps_nothing_of_it(is_terminal: bool) -> None:
    terminal, end = pty.openpty() if is_terminal else os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", _WAITS],
        stdout=end,
        stderr=end,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm"},
    ) as process:
        os.close(end)
        written = b""
        with suppress(OSError):  # as a terminal ends
            while part := os.read(terminal, 4096):
                written += part
        assert process.wait() == 0
    os.close(terminal)
    text = written.decode().replace("\r\n", "\n")
    drawn = re.findall(r"\x1b\[2K([^\r]*)\r", text)
    line = "working out what the release is worth"
    # once a second, where the machine is not busy
    assert (
        re.fullmatch(rf"({line}, [1-9] s ){{1,2}}", " ".join(drawn)) if is_terminal else not drawn
    )
    assert re.sub(r"\x1b\[2K[^\r]*\r", "", text) == "soon done\na note\ndone\n"
