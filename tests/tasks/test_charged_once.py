"""A run has one charge: what was drafted under it is published as that release or not at all, and
what it leaves behind goes with it.
"""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from dpicl.ground.errors import RunError
from dpicl.report import report_steps
from dpicl.runs.artefacts import read_drafts
from dpicl.runs.draw import publish_drafts
from dpicl.runs.execute import InProcess, Step, run_units
from dpicl.runs.plan import make_plan
from dpicl.runs.run_folder import UnitFolder, open_unit, read_plan
from tests.harness import (
    Place,
    charged,
    grid_of,
    install,
    install_texts,
    letters,
    new_place,
    shop,
    shop_rows,
    until,
)
from tests.tasks.test_executors import under_way


class Killed(BaseException):
    """As a signal ends a process."""


class DiesBeforeRelease(InProcess):
    """Drafts, and publishes nothing."""

    def call(self, step: Step) -> None:
        if step.stage.name == "release":
            raise Killed
        super().call(step)


def drafted(method: str, dataset: str, run_id: str = "r", **changes: Any) -> Path:
    """A run that was killed between its drafts and their publication."""
    run = make_plan("private", grid_of(dataset, method, shots=[1], **changes), run_id)
    with pytest.raises(Killed):
        run_units(run, DiesBeforeRelease(), report_steps(run))
    assert read_drafts(unit_of(run))
    return run


def unit_of(run: Path) -> UnitFolder:
    return open_unit(str(run), next(iter(read_plan(run).units)))


@pytest.mark.quick("mst_tabicl")
@pytest.mark.parametrize("method", ["gdp_tabicl", "mst_tabicl"])
def test_a_draft_is_not_published_under_a_contract_that_was_changed_meanwhile(
    place: Place, method: str
) -> None:
    install(place, shop(private=True))
    run = drafted(method, "shop")
    before = charged()
    changed = shop(private=True)
    changed["columns"]["age"]["bounds"] = [0, 200]
    install(place, changed)
    with pytest.raises(RunError, match="charged under another contract"):
        run_units(run, InProcess(), report_steps(run))
    assert charged() == before and not any(entry.artefact_sha256 for entry in before)
    install(place, shop(private=True))
    run_units(run, InProcess(), report_steps(run))
    assert [entry.release for entry in charged()] == [entry.release for entry in before]
    assert all(entry.artefact_sha256 for entry in charged())


def test_a_journal_goes_although_the_process_that_published_was_killed_before_it_could_delete_it(
    place: Place,
) -> None:
    install_texts(place, letters(private=True))
    run = drafted("few_shot_generation", "letters")
    journals, folder = place.home / "private" / "journals", unit_of(run)
    publish_drafts(folder, read_drafts(folder))
    assert any(journals.iterdir())
    run_units(run, InProcess(), report_steps(run))
    assert not journals.exists() or not any(journals.iterdir())


@pytest.mark.exhaustive
def test_workers_end_in_the_middle_of_a_step_when_their_owner_is_killed(place: Place) -> None:
    install(place, shop(), shop_rows(200))
    process = under_way(place, "shop")
    workers = [int(pid.name) for pid in Path("/proc").glob("[0-9]*") if _is_worker_of(pid, place)]
    assert len(workers) >= 2
    os.kill(process.pid, signal.SIGKILL)
    began = time.monotonic()
    until(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers),
        10,
        "the end of the workers",
        every=0.05,
    )
    assert time.monotonic() - began < 10
    process.communicate(timeout=60)


def _is_worker_of(pid: Path, place: Place) -> bool:
    """A process of this installation that the fork server made: its environment names the home, its
    command is the server's.
    """
    try:
        command, environment = (pid / "cmdline").read_bytes(), (pid / "environ").read_bytes()
    except OSError:
        return False
    return b"forkserver" in command and str(place.home).encode() in environment


class InParts(InProcess):
    """As with several workers, of which one may end the process in the middle of a unit."""

    def __init__(self, workers: int, dies_at: int | None = None) -> None:
        self.model_workers, self._dies_at = workers, dies_at

    def submit(self, step: Step) -> Any:
        if step.stage.name == "generate" and step.references[2] == self._dies_at:
            raise Killed
        return super().submit(step)


def test_a_unit_s_texts_are_written_in_parts_and_a_killed_run_goes_on_in_others(
    tmp_path: Path,
) -> None:
    found: list[tuple[dict[str, Any], int]] = []
    for name, executors in {
        "whole": [InParts(1)],
        "parts": [InParts(3, 1), InParts(2, 1), InParts(2)],
    }.items():
        place = new_place(tmp_path / name)
        install_texts(place, letters(private=False))
        with place.entered():
            both = {"epsilons": ["1", "2"], "shots": [1, 2]}
            run = make_plan("private", grid_of("letters", "few_shot_generation", **both), "r")
            drafted: list[int] = []
            for executor in executors:
                with nullcontext() if executor is executors[-1] else pytest.raises(Killed):
                    run_units(run, executor, report_steps(run))
                drafted.append(len(read_drafts(unit_of(run))))
            # the first parts of three and of two have a cell each of the two that
            # cost most
            assert name == "whole" or drafted[:2] == [1, 2]
            (texts,) = run.glob("units/*/released_texts.json")
            found.append((json.loads(texts.read_text()), len(charged())))
    assert found[0] == found[1] and found[0][1] == 4


def test_what_a_model_began_to_write_is_charged_anew_where_another_one_writes(place: Place) -> None:
    """Both have read rows; one that fails before it reads any is replaced for nothing."""
    install_texts(place, letters(private=True))
    for generator in ("fake", "tiny"):
        drafted("few_shot_generation", "letters", generator, generator=generator)
    assert len(charged()) == 2
