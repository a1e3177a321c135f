"""TabPATE: one row changes one teacher and one vote on each query, wherever it stands; what votes
cost; rows that say what teachers say.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.accounting.guarantee import Neighbours
from dpicl.contract import Contract
from dpicl.contract.pipeline import Cell, Unit
from dpicl.data.central.chosen_bins import share
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Draws
from dpicl.ground.types import PrivateTable
from dpicl.methods import METHODS, grid
from dpicl.methods.options import PateOptions
from dpicl.methods.tab_pate import (
    LABELS_SHARE,
    Labelled,
    Sizes,
    TabPate,
    labelled,
    labelled_rows,
    moved_by_one,
    noisy_votes,
    public_queries,
    teachers_of,
    usual_queries,
    usual_teachers,
    vote_shares,
    votes,
)
from lab.audit.neighbours import category, joined
from tests.direct import point
from tests.library.examples import random_table, seeded, small_contract
from tests.library.kinds import kind_contract
from tests.library.methods.spending import spending
from tests.library.units import drawn, unit_for

SIZES = (3, 2, 4)
KEY = bytes(range(32))
OF_BEFORE = [
    [0, 1, 0],
    [2, 1, 0],
    [1, 0, 0],
    [0, 0, 1],
    [1, 0, 0],
    [0, 1, 1],
    [2, 1, 1],
    [1, 0, 0],
    [0, 0, 0],
    [2, 1, 1],
    [0, 0, 1],
    [0, 1, 1],
]
"""Rows that the version before counts of labels made of four queries."""
sizes = st.sampled_from([(3, 2, 4), (2, 2), (4, 3, 2, 2), (5, 6)])


def owned(max_rows: int) -> Contract:
    """Persons' rows of one category column, so many of each may enter."""
    plain = category()
    privacy = {"unit": "person", "person": {"id_column": "who", "max_rows": max_rows}}
    return plain.model_copy(
        update={
            "privacy": type(plain.privacy).model_validate({**plain.privacy.model_dump(), **privacy})
        }
    )


def codes(count: int, seed: int, of: tuple[int, ...] = SIZES) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(size, size=count) for size in of], axis=1).astype(np.uint8)


def voted(
    rows: np.ndarray, taught: np.ndarray, of: tuple[int, ...], teachers: int, seed: int = 0
) -> np.ndarray:
    return votes(
        rows, taught, public_queries(of, 12, np.random.default_rng(seed)), of, teachers=teachers
    )


@given(sizes, st.integers(0, 60), st.integers(1, 9), st.integers(0, 60), st.integers(0, 999))
def test_a_row_more_teaches_one_teacher_and_moves_one_vote_on_each_query(
    of: tuple[int, ...], count: int, teachers: int, place: int, seed: int
) -> None:
    """Wherever it is inserted, and however many equal rows there are."""
    less, new = codes(count, seed, of), codes(1, seed + 1, of)
    more = np.insert(less, min(place, count), new, axis=0)
    before, after = (teachers_of(rows, None, teachers=teachers, key=KEY) for rows in (less, more))

    def taught(rows: np.ndarray, of_rows: np.ndarray) -> list[list[Any]]:
        return [sorted(rows[of_rows == teacher].tolist()) for teacher in range(teachers)]

    changed = [
        (one, other)
        for one, other in zip(taught(less, before), taught(more, after), strict=True)
        if one != other
    ]
    assert len(changed) == 1 and len(changed[0][1]) == len(changed[0][0]) + 1
    one, other = (
        voted(rows, of_rows, of, teachers) for rows, of_rows in ((less, before), (more, after))
    )
    moved = np.abs(one - other)
    assert moved.max() <= 1
    assert (moved.sum(axis=1) <= 2).all()
    assert (one.sum(axis=1) == teachers).all()
    released = moved[:, 1:] if of[-1] == 2 else moved
    assert released.sum(axis=1).max() <= moved_by_one(of[-1])


@given(sizes, st.integers(0, 40), st.integers(0, 40), st.integers(0, 999))
@settings(max_examples=30, deadline=None)
def test_a_row_more_moves_one_count_of_a_label_by_one(
    of: tuple[int, ...], count: int, place: int, seed: int
) -> None:
    """Without noise, so that what is released is what is counted."""
    less, new = codes(count, seed, of), codes(1, seed + 1, of)
    more = np.insert(less, min(place, count), new, axis=0)
    asked = Sizes.of(PateOptions(teachers=2, labelled=2), math.inf, count)
    draws = Draws(seed, "labels", simulated=True)
    before, after = (
        labelled(rows, None, of, asked, draws, "").label_counts for rows in (less, more)
    )
    assert before is not None and after is not None
    assert before.sum() == count
    assert (after - before).tolist() == [int(label == new[0, -1]) for label in range(of[-1])]


def test_a_person_more_teaches_one_teacher_with_all_rows() -> None:
    persons, rows = np.repeat(np.arange(20, dtype=np.int64) * 7919, 3), codes(60, 0)
    less = persons != 7919 * 4
    all_rows, without = (
        teachers_of(rows[some], persons[some], teachers=5, key=KEY)
        for some in (np.full(60, True), less)
    )
    assert (all_rows[less] == without).all() and len({*all_rows[~less]}) == 1


def test_a_teacher_says_what_naive_bayes_says() -> None:
    """Equation (2), written out for one teacher."""
    rows, queries = codes(40, 3), public_queries(SIZES, 30, np.random.default_rng(1))
    said = votes(rows, np.zeros(40, dtype=np.int64), queries, SIZES, teachers=1)
    for query, of_query in zip(queries, said, strict=True):
        odds = []
        for label in range(SIZES[-1]):
            mine = rows[rows[:, -1] == label]
            odds.append(len(mine) + 1 / SIZES[-1])
            for column, size in enumerate(SIZES[:-1]):
                odds[-1] *= (np.sum(mine[:, column] == query[column]) + 1 / size) / (len(mine) + 1)
        assert of_query.tolist() == [
            int(label == int(np.argmax(odds))) for label in range(SIZES[-1])
        ]


def test_teachers_with_and_without_rows_vote_as_each_does_alone() -> None:
    rows, queries = codes(9, 2), public_queries(SIZES, 20, np.random.default_rng(2))
    taught = teachers_of(rows, None, teachers=30, key=KEY)
    alone = [
        votes(rows[taught == one], taught[taught == one] * 0, queries, SIZES, teachers=1)
        for one in range(30)
    ]
    assert (votes(rows, taught, queries, SIZES, teachers=30) == sum(alone)).all()
    assert (alone[next(one for one in range(30) if one not in taught)][:, 0] == 1).all()


def test_many_teachers_are_the_same_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = codes(300, 0)
    taught = teachers_of(rows, None, teachers=50, key=KEY)
    whole = voted(rows, taught, SIZES, 50)
    monkeypatch.setattr("dpicl.methods.tab_pate._AT_ONCE", 12 * 4 * 7)
    assert (voted(rows, taught, SIZES, 50) == whole).all()


@pytest.mark.parametrize("queries", ["public", "released"])
@pytest.mark.parametrize("label, moved", [("binary", 1), ("classes", 2)])
def test_the_noise_of_all_counts_and_votes_is_what_is_charged(
    label: str, moved: int, queries: str
) -> None:
    """A closed form: every choice of bins and every column's counts once, and what one changed vote
    moves on every query, by the epsilon of each.
    """
    contract, epsilon = kind_contract(label), 0.75
    asked = unit(contract, epsilon, queries=queries)
    ((cell, cost),) = grid.prices(METHOD, contract, asked).items()
    queried = METHOD.identity(contract, point(asked, cell))["labelled"]
    with spending("dpicl.methods.tab_pate") as (spent, _):
        drawn(asked, contract, 50)
    *of_counts, of_votes = spent
    columns = len(contract.features) if queries == "released" else 0
    assert len(of_counts) == len(contract.open_numbers) + 1 + columns
    total = sum(of_counts) + queried * moved * of_votes
    assert total == pytest.approx(Fraction(epsilon), rel=1e-15)
    assert cost.charged.epsilon == pytest.approx(float(total), rel=1e-15)


def unit(contract: Any, epsilon: float = 2.0, **chosen: Any) -> Unit:
    return unit_for(TabPate.name, contract.name, epsilons=(epsilon,), shots=(1,), **chosen)


METHOD = METHODS[TabPate.name]
VOTES = Cell("votes", 2.0)


def test_votes_counts_and_choices_cost_what_is_typed_together() -> None:
    def charged(contract: Any, **chosen: Any) -> Any:
        return grid.prices(METHOD, contract, unit(contract, **chosen))[VOTES].charged

    for max_rows in (1, 5):
        for queries in ("public", "released"):
            cost = charged(owned(max_rows), queries=queries)
            assert cost.epsilon == pytest.approx(2.0)
            assert (cost.unit, cost.delta) == ("person", 0)
    row = small_contract()
    privacy = row.privacy.model_copy(update={"neighbours": Neighbours.REPLACE_ONE})
    assert charged(row.model_copy(update={"privacy": privacy})).epsilon == pytest.approx(2.0)


def test_each_row_of_a_person_has_its_part_of_what_labels_cost() -> None:
    contract, rows, epsilon = owned(4), 4, 2.0
    asked = unit(contract, epsilon, labelled=3)
    plain = random_table(contract.model_copy(update={"privacy": small_contract().privacy}), 40, 0)
    table = PrivateTable(plain.append_column("who", pa.array(np.arange(40, dtype=np.int64) // 4)))
    with spending("dpicl.methods.tab_pate") as (spent, _):
        drawn(asked, contract, joined(table))
    *of_choices, of_labels, of_votes = spent
    assert of_labels == Fraction(epsilon) * (1 - share(contract)) * LABELS_SHARE / rows
    total = (
        rows * (sum(of_choices) + of_labels) + 3 * moved_by_one(contract.target.count) * of_votes
    )
    assert total == pytest.approx(Fraction(epsilon), rel=1e-15)


def test_all_rows_of_a_person_that_enter_teach_one_teacher() -> None:
    """Of 40 equal rows of one person as many enter as the contract says, all in one of many parts:
    one vote, whatever they are.
    """
    contract = owned(3)
    plain = random_table(contract.model_copy(update={"privacy": small_contract().privacy}), 40, 0)
    table = PrivateTable(plain.append_column("who", pa.array(np.full(40, 5, dtype=np.int64))))
    one, other = (
        drawn(unit(contract, math.inf), contract, rows)[Cell("votes", math.inf)].votes
        for rows in (joined(table), PrivateTable(table.data.slice(0, 0)))
    )
    assert np.abs(one - other).max() == 1


def test_numbers_of_teachers_and_queries_are_public_and_in_the_name() -> None:
    contract = small_contract()

    def named(population: int | None = None, **chosen: Any) -> dict[str, Any]:
        stated = contract.model_copy(update={"population": population})
        return METHOD.identity(stated, point(unit(stated, **chosen), VOTES))

    assert len({named(population)["teachers"] for population in (None, 100, 1_000_000)}) == 3, (
        "a contract's digest leaves its population out"
    )
    assert {"teachers": 7, "labelled": 9}.items() <= named(teachers=7, labelled=9).items()
    assert usual_teachers(1) == 2 and usual_teachers(10**9) == 10_000
    assert usual_queries(2, 0.001) == 8 and usual_queries(10_000, math.inf) == 512


def test_without_a_label_there_is_nothing_to_vote_on() -> None:
    contract = kind_contract("none")
    with pytest.raises(ParameterError, match="label=none: expected one to vote on"):
        grid.check(METHOD, contract, unit(contract))


@pytest.mark.parametrize("labels", [2, 4])
def test_rows_have_the_labels_of_the_votes(labels: int) -> None:
    """As many of each query, and of its labels as there are votes."""
    rng = np.random.default_rng(0)
    queries = np.arange(5)[:, np.newaxis]
    exact = rng.multinomial(100, rng.dirichlet(np.ones(labels)), size=5)
    noisy = noisy_votes(exact, epsilon=None, stream=seeded(0, ""))
    rows = labelled_rows(queries, vote_shares(noisy), 10_000, rng)
    found = np.array(
        [np.bincount(rows[rows[:, 0] == query, 1], minlength=labels) for query in range(5)]
    )
    assert (found.sum(axis=1) == 2000).all() and np.abs(found / 2000 - exact / 100).max() < 0.01
    assert {*labelled_rows(queries, vote_shares(exact), 3, rng)[:, 0]} < {*range(5)}


@given(
    st.integers(2, 6), st.integers(1, 40), st.sampled_from([0.1, 1.0, 10.0]), st.integers(0, 999)
)
@settings(deadline=None)
def test_rows_have_labels_as_often_as_their_counts_say(
    labels: int, queries: int, noise: float, seed: int
) -> None:
    """Whatever the votes; and of two labels a query with more votes of one has more rows of it."""
    rng = np.random.default_rng(seed)
    exact = rng.multinomial(100, rng.dirichlet(np.ones(labels)), size=queries)
    noisy = exact + np.rint(rng.laplace(0, 100 * noise, exact.shape)).astype(np.int64)
    counts = rng.integers(-5, 500, size=labels)
    shares = vote_shares(noisy, counts)
    wanted = np.maximum(counts, 0) / max(1, np.maximum(counts, 0).sum())
    if wanted.sum():
        assert np.abs(shares.mean(axis=0) - wanted).max() < 0.005
    assert (shares >= 0).all() and shares.sum(axis=1) == pytest.approx(1)
    if labels == 2:
        order = np.argsort(vote_shares(noisy)[:, 1])
        assert (np.diff(shares[order, 1]) > -1e-9).all()


def test_a_release_without_counts_of_labels_is_read_and_has_the_rows_of_before() -> None:
    """As draw version 1 wrote it."""
    contract = small_contract()
    asked = point(unit(contract), VOTES)
    content = (
        b'{"queries": [[0, 1], [1, 0], [2, 1], [0, 0]], '
        b'"votes": [[7, 13], [22, -2], [5, 15], [9, 11]]}'
    )
    found = METHOD.decode(content, contract, asked)
    assert found.label_counts is None and METHOD.encode(found) == content
    rows = labelled_rows(found.queries, vote_shares(found.votes), 12, np.random.default_rng(4))
    assert rows.tolist() == OF_BEFORE
    assert METHOD.row_count(found) == 60  # three for each of the mean of 20 votes


def test_counts_of_labels_are_stored_and_say_how_many_rows_there_are() -> None:
    contract = small_contract()
    asked = point(unit(contract), VOTES)
    votes_of = np.array([[7, 13], [22, -2]], dtype=np.int64)
    found = Labelled(votes_of * 0, votes_of, np.array([300, 101], dtype=np.int64))
    again = METHOD.decode(METHOD.encode(found), contract, asked)
    assert again.label_counts.tolist() == [300, 101] and METHOD.row_count(again) == 401
