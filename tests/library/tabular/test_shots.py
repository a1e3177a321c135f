"""Which rows demonstrate: by public rules on released rows, the truth of a query unseen."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.contract.pipeline import Cell
from dpicl.data.prompts import MOST_SHOTS, picked_rows
from dpicl.ground.randomness import Draws

FIRST = {
    "icl": "71fe3e56e6ff7e77",
    "icl-nested": "1724feb198757476",
    "icl-shared": "c9284d0d2437fb02",
    "icl-prototype": "64df040752106eb9",
    "icl-diverse": "bcf86509dc725ea8",
    "icl-near": "287bf9394179a085",
}
"""Digests of what each way picked before there were several draws, or more than 64 shots."""
WAYS, DRAWS = tuple(FIRST), Draws(0, "shop", simulated=True)


def bins(count: int, seed: int = 0, columns: int = 5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    label = rng.random(count) < 0.3
    features = [
        np.where(rng.random(count) < 0.5, label, rng.integers(3, size=count))
        for _ in range(columns)
    ]
    return np.stack([*features, label], axis=1)


def picked(system: str, shots: int, rows: np.ndarray, queries: np.ndarray) -> np.ndarray:
    return picked_rows(rows, queries, Cell(system, 1.0, shots), DRAWS)


@given(st.sampled_from(WAYS), st.integers(1, 8), st.integers(8, 60), st.integers(0, 99))
def test_every_way_gives_rows_for_every_query_whatever_its_truth(
    system: str, shots: int, count: int, seed: int
) -> None:
    rows, queries = bins(count, seed), bins(7, seed + 1)
    chosen = picked(system, shots, rows, queries)
    assert chosen.shape == (7, shots) and chosen.min() >= 0 and chosen.max() < count
    lied = np.column_stack([queries[:, :-1], 1 - queries[:, -1]])
    assert np.array_equal(picked(system, shots, rows, lied), chosen)


def test_the_nearest_row_stands_last() -> None:
    rows, queries = bins(500), bins(30, 1)
    chosen = picked("icl-near", 4, rows, queries)
    apart = (rows[chosen][:, :, :-1] != queries[:, np.newaxis, :-1]).sum(axis=2)
    assert (np.diff(apart, axis=1) <= 0).all()
    every = (rows[:, :-1] != queries[:, np.newaxis, :-1]).sum(axis=2)
    assert np.array_equal(apart[:, ::-1], np.sort(every, axis=1)[:, :4])


def test_the_first_prototype_has_most_in_common_with_its_label() -> None:
    rows = bins(300)
    first = picked("icl-prototype", 2, rows, bins(1, 1))[0, 0]
    mine = rows[rows[:, -1] == rows[first, -1]][:, :-1]
    apart = (mine[:, np.newaxis] != mine).sum(axis=2).sum(axis=1)
    assert (mine != rows[first, :-1]).sum() == apart.min()


def test_fewer_different_rows_than_shots_are_shown_again_and_so_are_fewer_rows() -> None:
    rows = np.repeat(bins(1), 20, axis=0)
    assert len(set(picked("icl-prototype", 4, rows, bins(2, 1))[0])) == 1
    for way in WAYS:
        for count in (1, 3):
            positions = picked(way, 4, bins(3)[:count], bins(2, 1))
            assert positions.shape == (2, 4) and set(positions.ravel()) <= set(range(count))


@pytest.mark.parametrize("way", WAYS)
def test_one_draw_of_up_to_64_shots_is_what_it_was(way: str) -> None:
    chosen = [picked(way, shots, bins(3000), bins(9, 1)) for shots in (1, 8, 64)]
    content = b"".join(one.astype("<i8").tobytes() for one in chosen)
    assert hashlib.sha256(content).hexdigest()[:16] == FIRST[way]


@pytest.mark.quick("icl-near", "icl", "icl-nested", "icl-shared", "icl-diverse")
@pytest.mark.parametrize("way", WAYS)
def test_hundreds_of_rows_demonstrate(way: str) -> None:
    chosen = picked(way, MOST_SHOTS, bins(3000, columns=12), bins(5, 1, columns=12))
    assert [len(np.unique(one)) for one in chosen] == [MOST_SHOTS] * 5


@pytest.mark.parametrize("count", [80, 3000])
def test_fewer_nested_shots_are_the_beginning_of_more_however_many(count: int) -> None:
    ways = [
        picked("icl-nested", shots, bins(count), bins(5, 1))
        for shots in (8, 64, 65, 80, *((256, MOST_SHOTS) if count > 80 else ()))
    ]
    for fewer, more in zip(ways, ways[1:], strict=False):
        assert np.array_equal(fewer, more[:, : fewer.shape[1]])
    assert all(len(np.unique(one)) == len(one) for one in ways[-1])
