"""DP-ICL by nearness: one text changes one prompt of the queries that it takes part in, and nobody
else's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dpicl.contract.pipeline import Cell, Unit
from dpicl.ground.errors import ModelError
from dpicl.ground.randomness import Draws
from dpicl.ground.types import PrivateTable
from dpicl.mechanisms.keyed_subsets import identities, record_marks
from dpicl.methods.base import draws_for
from dpicl.methods.dp_icl import AnsweringJob, consult
from dpicl.methods.ensemble_plan import EnsembleShape, plan_release, statement
from dpicl.methods.ensemble_voting import Placement, Voters, admitted, row_points
from dpicl.methods.options import EnsembleVariant
from dpicl.methods.text_method import Memory
from dpicl.models.embedding import HashedNGrams
from tests.direct import point, points_of
from tests.library.methods.test_dp_icl import Reader, changed, contract, people, table
from tests.library.units import unit_for

MOST = 2
SHAPE = EnsembleShape("votes", True, 3, 2, 5.0, 2, 3, similarity=0.4, participations=MOST)
ALONE = replace(SHAPE, aggregation="soft-votes", gaussian=False)
KEY, CELL = bytes(range(32)), Cell("icl", 1.0, 2)
WORDS = st.sampled_from(
    ["red apple", "red pear", "green pear", "green apple pie", "grey stone", "old grey stone wall"]
)
FRUIT = ["red apple", "green pear", "grey stone", "red pear", "red apple"]


def memory() -> Memory:
    return Memory(Draws(0, "mail", simulated=True))


def placed(
    private: PrivateTable,
    queries: Sequence[str],
    shape: EnsembleShape = SHAPE,
    most_rows: int | None = None,
) -> Placement:
    """A table, with who takes part in which query."""
    placement = Placement(private, KEY, Fraction(1), shape, most_rows)
    taking = admitted(placement, list(enumerate(queries)), HashedNGrams(), None, memory(), CELL)
    return replace(placement, taking=taking)


def takers(*placing: Any) -> list[set[bytes]]:
    """Marks of the units that take part, query by query."""
    placement = placed(*placing)
    return [
        {unit.tobytes() for unit in placement.units[rows]} for rows in placement.taking.values()
    ]


def prompts(placement: Placement, number: int, query: str) -> list[str]:
    return Voters(contract(), Reader()).prompts(placement, number, query)


def mark_of_new(texts: Sequence[str], new: str) -> bytes:
    """The mark of one record more: the last among those that are equal to it."""
    ids = identities([f"good\0{text}".encode() for text in [*texts, new]])
    return record_marks(ids[-1:], key=KEY)[0].tobytes()


@given(
    st.lists(WORDS, max_size=12),
    WORDS,
    st.integers(0, 12),
    st.lists(WORDS, max_size=8),
    st.sampled_from([SHAPE, ALONE]),
)
def test_a_text_more_changes_nobody_else_s_part_in_any_query(
    texts: list[str], new: str, place: int, queries: list[str], shape: EnsembleShape
) -> None:
    texts = ["blue", *texts]
    without = takers(table(texts), queries, shape)
    more = takers(table([*texts[:place], new, *texts[place:]]), queries, shape)
    own = mark_of_new(texts, new)
    assert [one - {own} for one in more] == without
    assert sum(own in one for one in more) <= MOST


@given(
    st.lists(WORDS, max_size=12), WORDS, st.integers(0, 12), st.lists(WORDS, min_size=1, max_size=6)
)
def test_a_text_more_changes_one_prompt_of_the_queries_that_it_takes_part_in(
    texts: list[str], new: str, place: int, queries: list[str]
) -> None:
    texts = ["blue", *texts]
    without, more = (
        placed(table(rows), queries) for rows in (texts, [*texts[:place], new, *texts[place:]])
    )
    moved = []
    for asked in enumerate(queries):
        one, other = (prompts(some, *asked) for some in (without, more))
        assert len(one) == SHAPE.subsets
        moved.append(changed(one, other))
    assert max(moved) <= 1 and sum(moved) <= MOST


@given(
    st.lists(st.tuples(st.sampled_from("pqrs"), WORDS), max_size=12),
    st.lists(WORDS, min_size=1, max_size=4),
    st.lists(WORDS, max_size=8),
)
def test_all_texts_of_a_person_have_their_uses_together(
    others: list[tuple[str, str]], own: list[str], queries: list[str]
) -> None:
    others = [("z", "blue"), *others]
    without, more = (
        takers(people(rows), queries, SHAPE, 2)
        for rows in (others, [*[("own", text) for text in own], *others])
    )
    mark = record_marks([b"own"], key=KEY)[0].tobytes()
    assert [one - {mark} for one in more] == without
    assert sum(mark in one for one in more) <= MOST


def test_a_text_takes_part_where_it_is_near_until_its_uses_are_spent() -> None:
    taking = takers(table(FRUIT), ["red apple"] * 4 + ["grey stone"])
    assert [len(one) for one in taking] == [3, 3, 0, 0, 1]


def test_where_nobody_takes_part_the_prompts_are_asked_without_texts() -> None:
    asked = prompts(placed(table(FRUIT), ["nothing alike"]), 0, "nothing alike")
    assert len(asked) == SHAPE.subsets and len({*asked}) == 1 and asked[0].count("Letter:") == 1


class _Fragile(HashedNGrams):
    """Fails on some texts; counts what it is asked."""

    def __init__(self, bad: str = "", fails: bool = False) -> None:
        self.bad, self.fails, self.asked = bad, fails, 0

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        assert len(texts) == 1, "a text is placed on its own"
        self.asked += 1
        if self.fails or (self.bad and self.bad in texts[0]):
            raise RuntimeError(texts[0])
        return super().embed(texts)


TEXTS = table(FRUIT).data.column("text")


def test_a_text_that_cannot_be_placed_takes_no_part_and_leaves_the_others_alone() -> None:
    points, whole = (
        row_points(TEXTS, one, memory(), CELL) for one in (_Fragile("green"), HashedNGrams())
    )
    assert not points[1].any()
    assert np.array_equal(np.delete(points, 1, axis=0), np.delete(whole, 1, axis=0))
    with pytest.raises(ModelError, match=r"'embedder' fails on a public question \(RuntimeError\)"):
        row_points(TEXTS, _Fragile(fails=True), memory(), CELL)


def test_texts_are_placed_once() -> None:
    embedder, stored = _Fragile(), memory()
    first = row_points(TEXTS, embedder, stored, CELL)
    asked = embedder.asked
    assert np.array_equal(row_points(TEXTS, embedder, stored, CELL), first)
    assert embedder.asked == asked


def unit(*epsilons: float, **options: Any) -> Unit:
    return unit_for("dp_icl", "mail", epsilons=epsilons, shots=(2,), **options)


def test_a_resumed_release_asks_the_same_prompts() -> None:
    """What follows from the queries is admitted anew, those that were answered included."""
    declared, asked, rows = contract(), unit(5.0, similarity=0.4, participations=1), table(FRUIT)
    draws, queries = draws_for(declared, 0), list(enumerate(["red apple", "red pear", "red apple"]))

    plans = {one.key: plan_release(declared, one) for one in points_of(asked).values()}

    def job(stored: Memory) -> AnsweringJob:
        return AnsweringJob(declared, plans, draws, Memory(draws), stored, HashedNGrams())

    whole, second, stored = Reader(), Reader(), Memory(draws)
    consult(rows, queries, whole, job(Memory(draws)))
    consult(rows, queries[:2], Reader(), job(stored))
    consult(rows, queries, second, job(stored))
    assert second.asked == whole.asked[4:]


def test_retrieval_costs_its_participations_whatever_the_number_of_queries() -> None:
    declared, few = (contract().model_copy(update={"query_count": count}) for count in (1000, 4))
    asked, nine = (
        point(unit(2.0, similarity=0.4, participations=times), Cell("icl", 2.0, 2))
        for times in (4, 9)
    )
    found, of_few = plan_release(declared, asked), plan_release(few, nine)
    assert found.rate == 1 and (found.noise, found.guarantee) == (of_few.noise, of_few.guarantee)
    assert 1.98 <= found.guarantee.epsilon <= 2.0 and found.per_query.epsilon < 1.2
    said = statement(declared, asked)
    assert "similarity to it is at least 0.4 (in 2 prompts), and in 4 queries at most" in said
    assert "1001st query is refused" in said


@pytest.mark.parametrize(
    "options",
    [
        {"participations": 3},
        {"similarity": 0.0},
        {"similarity": 1.0},
        {"similarity": 0.5, "participations": 0},
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="participations|similarity"):
        EnsembleVariant(**options)


def test_without_noise_rows_are_retrieved_too() -> None:
    found = plan_release(
        contract(), point(unit(math.inf, similarity=0.4), Cell("icl", math.inf, 2))
    )
    assert found.rate == 1 and found.shape.similarity == 0.4 and math.isinf(found.guarantee.epsilon)
