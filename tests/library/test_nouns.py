"""Numbers with what is counted, wherever a person reads them."""

from __future__ import annotations

import pytest

from dpicl.ground.nouns import many


@pytest.mark.parametrize(
    ("count", "words", "told"),
    [
        (0, ("release",), "0 releases"),
        (1, ("release",), "1 release"),
        (2000, ("row",), "2,000 rows"),
        (1, ("query", "queries"), "1 query"),
        (3, ("query", "queries"), "3 queries"),
    ],
)
def test_one_is_singular(count: int, words: tuple[str, ...], told: str) -> None:
    assert many(count, *words) == told
