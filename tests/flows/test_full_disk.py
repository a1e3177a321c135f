"""A disk that fills up stops a run with one sentence; with space again, the run goes on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpicl.runs.run_folder import LOCK
from tests.flows.test_interrupted import outcome
from tests.harness import (
    SMALL,
    SMALL_OPTIONS,
    World,
    complaint,
    differences,
    install,
    new_place,
    shop,
    shop_rows,
)

OPTIONS = ("demo", "--methods", "ldp_tabicl", *SMALL_OPTIONS)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """A file system of that size in the folder, where we may mount one."""
    folder.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("only root may mount a small file system")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def grow(folder: Path, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True)


@pytest.mark.exhaustive
def test_a_full_disk_is_told_in_one_sentence_and_the_run_goes_on_with_space(world: World) -> None:
    run = world.run("full")
    with small_disk(run, "100k"):
        sentence = complaint(world.dpicl("run", *OPTIONS, "--run-id", "full"))
        assert "No space left on device" in sentence and "dpicl run --resume full" in sentence
        assert {path.name for path in run.rglob(".*")} <= {LOCK}, "a draft was left behind"
        before = outcome(run)
        grow(run, "64m")
        world.sweep("full", {}, resume=True)
        after = outcome(run)
    assert before.items() <= after.items()
    assert (
        differences(after, outcome(world.sweep("roomy", {**SMALL, "methods": ["ldp_tabicl"]})))
        == []
    )


@pytest.mark.parametrize("size", ["72k", pytest.param("160k", marks=pytest.mark.exhaustive)])
def test_a_full_disk_under_ledger_and_runs_charges_a_release_once(
    tmp_path: Path, size: str
) -> None:
    """The first size has no room for the whole ledger, the second one for the run beside it."""
    place = new_place(tmp_path / "place")
    install(place, shop("till", private=True), shop_rows(400))
    command = (
        "protect",
        "till",
        "--epsilon",
        "1",
        "--shots",
        "2",
        "--out",
        str(tmp_path / "demos.jsonl"),
    )
    with small_disk(place.home, size):
        sentence = complaint(place.dpicl(*command))
        assert "disk is full" in sentence or "No space left on device" in sentence
        grow(place.home, "64m")
        told = place.dpicl(*command).stdout
        assert "1 release, charged now" in told and "epsilon 2 of 1000 is spent" in told
