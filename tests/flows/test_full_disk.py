"""A disk that fills up stops a run with one sentence; with space again, the run goes on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness import Place, complaint, install, ran, shop, shop_rows


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """A file system of that size in the folder, where we may mount one."""
    folder.mkdir(parents=True, exist_ok=True)
    mounted = ran(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(folder)])
    if mounted.returncode:
        pytest.skip("only root may mount a small file system")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def grow(folder: Path, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True)


def test_a_full_disk_under_ledger_and_runs_charges_a_release_once(
    place: Place, tmp_path: Path
) -> None:
    """It has no room for the whole ledger."""
    install(place, shop("till", private=True), shop_rows(400))
    command = f"protect till --epsilon 1 --shots 2 --out {tmp_path / 'demos.jsonl'}"
    with small_disk(place.home, "72k"):
        sentence = complaint(place.dpicl(command))
        assert "disk is full" in sentence or "No space left on device" in sentence
        grow(place.home, "64m")
        told = place.dpicl(command).stdout
        assert "1 release, charged now" in told and "epsilon 1 of 1000 is spent" in told
