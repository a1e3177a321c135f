"""Preparing batches of a large table: read, checked and parted by workers, a part of them each."""

from __future__ import annotations

from pathlib import Path

from dpicl.engine.batches import Batches
from dpicl.engine.settings import Settings
from dpicl.engine.stage import stage, timed


def prepare_part(run: str, dataset: str, part: int, parts: int) -> str:
    """Prepare the batches of one piece of work."""
    found = Batches.find(Settings.current(), dataset, Path(run))
    assert found is not None
    with timed(Path(run), dataset, "prepare", f"-{part}"):
        for number in found.numbers(part, parts):
            found.prepare(number)
    return f"part {part + 1} of {parts}"


prepare_batches = stage("prepare", "prepare {dataset} {part}", prepare_part)
