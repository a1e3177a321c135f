"""What `dpicl collect` prints with --json."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CountedReports:
    """What became of clients' reports; every one is counted under one of the first nine keys."""

    counted: int
    """Clients whose report counts."""
    duplicate: int
    """Equal to another report of the same client."""
    contradictory: int
    """Of clients with several different answers: none of them counts."""
    late: int
    """Made for an earlier period, or after the period was closed."""
    elsewhen: int
    """Made for another period."""
    foreign: int
    """To another collection."""
    forged: int
    """No answer to a question of the collection."""
    version: int
    """Of another version of the form."""
    malformed: int
    """No reports at all."""
    files: int
    """Files that were read."""
    damaged_files: int
    """How many of them are damaged."""
    other_files: int
    """Files of other kinds, which were left alone."""
    closed_with: int | None
    """Clients that were counted when the period was closed; null where it is not."""
