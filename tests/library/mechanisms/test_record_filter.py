"""The individual filter: who takes part follows from a record alone, and no record takes part too
often.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.ground.errors import ParameterError
from dpicl.mechanisms.record_filter import SCALE, near, takes_part, whole_points

MOST = 2
ANGLES = st.integers(0, 180)


def point(angle: float) -> np.ndarray:
    return np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])


def histories(records: Sequence[int], queries: Sequence[int]) -> list[list[bool]]:
    """For every record, in which of the queries it took part."""
    points = whole_points(np.array([point(angle) for angle in records]))
    uses, taken = np.zeros(len(records), dtype=int), []
    for query in queries:
        similarity = points @ whole_points(point(query)[None])[0].astype(np.int64) / SCALE**2
        taken.append(takes_part(similarity >= 0.9, uses, most=MOST))
        uses += taken[-1]
    return np.array(taken).T.tolist()


@given(
    st.lists(ANGLES, min_size=1, max_size=8),
    ANGLES,
    st.integers(0, 8),
    st.lists(ANGLES, max_size=20),
)
def test_a_record_more_changes_no_other_record_s_history(
    records: list[int], new: int, place: int, queries: list[int]
) -> None:
    place = min(place, len(records))
    more = histories([*records[:place], new, *records[place:]], queries)
    assert histories(records, queries) == [*more[:place], *more[place + 1 :]]
    assert all(sum(one) <= MOST for one in more)


POINTS = st.tuples(*[st.floats(-1, 1)] * 3)


@given(st.lists(POINTS, min_size=1, max_size=30), POINTS, st.floats(0.01, 1))
def test_nearness_is_the_record_s_alone_to_the_last_bit(
    rows: list[tuple[float, ...]], query: tuple[float, ...], similarity: float
) -> None:
    asked = whole_points(np.array([query]))[0]
    together, *alone = (
        near(whole_points(np.array(some)), asked, similarity=similarity)
        for some in (rows, *([row] for row in rows))
    )
    assert (together == np.concatenate(alone)).all()


@pytest.mark.parametrize("odd", [[np.nan, 0.0], [np.inf, 0.0], [1.5, 0.0], [0.0, 0.0]])
def test_what_lies_nowhere_is_near_to_nothing(odd: list[float]) -> None:
    points = whole_points(np.array([odd, [1.0, 0.0]]))
    assert near(points, points[1], similarity=1e-9).tolist() == [False, True]
    assert not near(points, points[0] * 0, similarity=1e-9).any()


def test_a_threshold_is_met_by_what_is_as_near_as_it_says() -> None:
    query, *points = whole_points(np.array([[1.0, 0.0], [0.6, 0.8], [0.5, 0.5], [0.49, 0.0]]))
    assert near(np.array(points), query, similarity=0.5).tolist() == [True, True, False]


@pytest.mark.parametrize("similarity", [0.0, -0.5, 1.5, float("nan")])
def test_a_similarity_out_of_range_is_refused(similarity: float) -> None:
    with pytest.raises(ParameterError, match="similarity"):
        near(np.zeros((1, 2), dtype=np.int32), np.zeros(2, dtype=np.int32), similarity=similarity)


def test_a_filter_without_uses_is_refused() -> None:
    with pytest.raises(ParameterError, match="most"):
        takes_part(np.ones(1, dtype=bool), np.zeros(1, dtype=int), most=0)
