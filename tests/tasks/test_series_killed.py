"""Nights that are killed anywhere, beside their twins, with another table at every try: one history, one draw of each period, one price."""

from __future__ import annotations

import pytest

from benchmarks.series.kills import killed_nights


def overwrite() -> None:
    """Counts are written again where they stand."""
    from dpicl.engine import frozen

    durable = frozen.write_whole
    frozen.write_whole = lambda path, write: durable(path, write, replace=True)


def test_killed_nights_are_drawn_once_and_charged_once() -> None:
    """A few of the five hundred that `make bench TOPIC=series` kills."""
    verdict = killed_nights(8, seed=1)
    assert (verdict.second_draws, verdict.unrecovered) == (0, 0) and verdict.kills >= 8


@pytest.mark.exhaustive
def test_killed_nights_of_deliveries_are_drawn_once_and_charged_once() -> None:
    verdict = killed_nights(60, seed=3, deliveries=True)
    assert (verdict.second_draws, verdict.unrecovered) == (0, 0) and verdict.kills >= 60


@pytest.mark.exhaustive
def test_counts_that_are_not_written_once_are_noticed() -> None:
    verdict = killed_nights(30, seed=2, mutate=overwrite)
    assert verdict.second_draws + verdict.unrecovered > 0
