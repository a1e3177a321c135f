"""Demonstrations of tables: the same release reads the same, further draws read otherwise, and
labels take turns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.contract.pipeline import Cell, Unit
from dpicl.data.prompts import in_turn
from dpicl.ground.types import ReleasedGroup, ReleasedGroups, SplitTable
from dpicl.methods import tabular
from dpicl.methods.base import draws_for
from dpicl.methods.tabular_method import Released
from lab import in_memory
from tests.library.examples import small_contract
from tests.library.units import unit_for

CONTRACT = small_contract()
MST, GDP = tabular("mst_tabicl"), tabular("gdp_tabicl")
PROTOTYPE, NESTED = "icl-prototype", "icl-nested"


def prompts(unit: Unit, split: SplitTable) -> dict[str, list[list[str]]]:
    """By cell the lines of every prompt; the last is the query."""
    draws = draws_for(CONTRACT, 0)
    released = in_memory.of_table(MST, split.train, CONTRACT, unit, draws)
    written = MST.prompts(released, split.queries, CONTRACT, unit, draws)
    return {cell.key: [text.split("\n") for text in texts] for cell, texts in written.items()}


def test_the_same_release_reads_the_same_in_all_of_its_cells(
    small_split: Callable[..., SplitTable],
) -> None:
    """And so fewer shots are the beginning of more, by rules that say so."""
    split = small_split()
    once, again, alone = (
        prompts(
            unit_for(
                "mst_tabicl", epsilons=(8.0,), shots=shots, shot_selection=["prototype", "nested"]
            ),
            split,
        )
        for shots in ((2, 8), (2, 8), (8,))
    )
    assert once == again
    for system in (PROTOTYPE, NESTED, "icl"):
        few, many = (once[Cell(system, 8.0, shots).key] for shots in (2, 8))
        assert many == alone[Cell(system, 8.0, 8).key]
        if system != "icl":
            assert all(one[:2] == more[:2] for one, more in zip(few, many, strict=True))


@pytest.mark.parametrize("method", ["mst_tabicl", "aim_tabicl", "tab_pate", "tab_pe"])
def test_rows_are_drawn_inside_bins_by_every_method(
    small_split: Callable[..., SplitTable], method: str
) -> None:
    """Of eight bins of ages there are more than eight ages, all of them whole and within bounds."""
    unit = unit_for(method, epsilons=(8.0,), shots=(64,))
    draws = draws_for(CONTRACT, 0)
    released = in_memory.of_table(tabular(method), small_split().train, CONTRACT, unit, draws)
    (texts,) = tabular(method).examples(released, CONTRACT, unit, draws).values()
    ages = [match.group(1) for text in texts if (match := re.match(r"Aged (\d+), ", text))]
    assert len(ages) == 64 and len({*ages}) > 8 and all(0 <= int(age) <= 120 for age in ages)


def groups(labels: list[int]) -> Released[ReleasedGroups]:
    values = [
        {"age": 10.0 + place, "spent": 1.0, "colour": "red", "member": "no"}
        for place in range(len(labels))
    ]
    made = tuple(
        ReleasedGroup((str(place),), one, label)
        for place, (one, label) in enumerate(zip(values, labels, strict=True))
    )
    return Released({Cell("icl", 1.0, len(labels)): ReleasedGroups(made)})


@pytest.mark.parametrize(
    "labels, order",
    [
        ([1, 1, 1, 1, 0, 0, 0, 0], [0, 4, 1, 5, 2, 6, 3, 7]),
        ([1, 0], [0, 1]),  # as the paper prints them
        ([1, 1, 0, 1], [0, 2, 1, 3]),
        ([0, 0, 0], [0, 1, 2]),
    ],
)
def test_labels_of_groups_take_turns(labels: list[int], order: list[int]) -> None:
    released = groups(labels)
    unit = unit_for("gdp_tabicl", shots=(len(labels),))
    (texts,) = GDP.examples(released, CONTRACT, unit, draws_for(CONTRACT, 0)).values()
    assert [int(text.removeprefix("Aged ").partition(",")[0]) - 10 for text in texts] == order
    assert [text.rpartition(" ")[2] for text in texts] == [
        ("No", "Yes")[labels[place]] for place in order
    ]


@given(st.lists(st.integers(0, 3), max_size=40))
def test_turns_hold_everything_once_and_only_a_label_that_is_alone_follows_itself(
    labels: list[int],
) -> None:
    turns = in_turn(list(enumerate(labels)), lambda one: one[1])
    assert sorted(turns) == list(enumerate(labels))
    left = Counter(labels)
    for (_, one), (_, next_one) in pairwise(turns):
        left[one] -= 1
        assert one != next_one or sum(count > 0 for count in left.values()) == 1
    for label in range(4):
        own = [place for place, one in turns if one == label]
        assert own == sorted(own), "each label's stay in their order"
