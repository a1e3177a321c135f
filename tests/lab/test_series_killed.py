"""Nights that are killed anywhere, beside their twins, with another table at every try: one
history, one draw of each period, one price.
"""

from __future__ import annotations

from typing import Any

import pytest

from lab.benchmarks.series.kills import killed_nights


def count_anew() -> None:
    """What a killed night has frozen is thrown away by the next one."""
    from dpicl.release.horizon import Horizon

    make = Horizon.make

    def anew(self: Horizon, over: int, history: Any, published: Any, rows: Any) -> Any:
        for period in range(len(published) + 1, over + 1):
            self.frozen._path(period).unlink(missing_ok=True)
        return make(self, over, history, published, rows)

    Horizon.make = anew  # type: ignore[method-assign]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "kills, how",
    [
        (8, {"seed": 1}),
        (60, {"seed": 3, "deliveries": True}),
        (40, {"seed": 4, "method": "gdp_tabicl"}),
    ],
    ids=["counts", "deliveries", "averages"],
)
def test_killed_nights_are_drawn_once_and_charged_once(kills: int, how: dict[str, Any]) -> None:
    """A few of the five hundred that `make bench TOPIC=series` kills."""
    verdict = killed_nights(kills, **how)
    assert (verdict.second_draws, verdict.unrecovered) == (0, 0) and verdict.kills >= kills


@pytest.mark.exhaustive
def test_counts_that_are_not_written_once_are_noticed() -> None:
    verdict = killed_nights(12, seed=2, mutate=count_anew)
    assert verdict.second_draws + verdict.unrecovered > 0
