"""A contract changed at random works from end to end or is refused in one sentence; nothing
crashes.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.contract import load_contract, parse_contract
from dpicl.data.central.aggregate import AggregateOptions, assign, partition
from dpicl.data.prompts import central_demonstrations, central_queries, local_queries
from dpicl.data.reading.encode import encode_queries
from dpicl.ground.errors import DeclarationError
from dpicl.ground.randomness import stream
from dpicl.ground.types import PrivateTable, QueryTable
from lab.in_memory import averages
from tests.library.examples import one_sentence, random_table, tree

Place = tuple[str | int, ...]


def _places(content: Any, path: Place = ()) -> Iterator[Place]:
    """Every path below the top of a YAML tree."""
    children = (
        content.items()
        if isinstance(content, dict)
        else enumerate(content)
        if isinstance(content, list)
        else ()
    )
    for part, child in children:
        yield (*path, part)
        yield from _places(child, (*path, part))


ODD = (
    *(None, True, 0, -1, 2.5, 10**30, float("nan"), float("inf")),
    *("", "x", "rest", "label", "age", "{age}", "{", "0", "yes", "x" * 3000),
    *([], [1], ["label"], [["no"], "rest"], [[]], [{}]),
    *({}, {"a": 1}, {"field": "age", "texts": []}),
)


def _nudged(value: Any, dice: random.Random) -> Any:
    """Something of the same kind that may still make sense."""
    if isinstance(value, bool) or not isinstance(value, int | float | list):
        return value
    if isinstance(value, list):
        return dice.sample(value, dice.randint(min(1, len(value)), len(value)))
    return dice.choice([value + 1, value - 1, value / 2, value * 2, -value, value + 0.3])


def _mutate(content: Any, dice: random.Random) -> None:
    """Nudge, replace, delete, copy or rename something, at random."""
    places = list(_places(content))
    path = dice.choice(places)
    parent = content
    for part in path[:-1]:
        parent = parent[part]
    deed = dice.randrange(12)
    if deed > 3:
        parent[path[-1]] = _nudged(parent[path[-1]], dice)
    elif deed == 0:
        parent[path[-1]] = copy.deepcopy(dice.choice(ODD))
    elif deed == 1:
        del parent[path[-1]]
    elif deed == 2:
        source = content
        for part in dice.choice(places):
            source = source[part]
        parent[path[-1]] = copy.deepcopy(source)
    elif isinstance(parent, dict):
        parent[dice.choice(["age", "texts", "cuts", "parts", "zz", 4, "a.b"])] = parent.pop(
            path[-1]
        )
    else:
        parent.append(copy.deepcopy(parent[path[-1]]))


def _use(content: dict[str, Any]) -> None:
    """A contract that loads can be grouped by, averaged and put into words."""
    contract = parse_contract(content, "shop.yaml")
    table = random_table(contract, 5, 0)
    queries, private = QueryTable(table), PrivateTable(table)
    for shots in contract.shots:
        if shots <= 64:
            groups, members = partition(contract, shots), assign(private, contract, shots)
            released = averages(
                private,
                members,
                groups,
                contract,
                epsilon=1.0,
                options=AggregateOptions(),
                stream=stream(0, "fuzz", "", ""),
            )
            assert len(central_demonstrations(released, contract)) == shots
    texts = central_queries(queries, contract) + local_queries(
        encode_queries(queries, contract), contract
    )
    assert len(texts) == 10


@given(st.integers(0, 2**32), st.integers(1, 4))
@settings(max_examples=4 * settings.default.max_examples)
def test_a_contract_changed_at_random_works_or_is_refused_in_one_sentence(
    seed: int, deeds: int
) -> None:
    content, dice = tree(), random.Random(seed)
    for _ in range(deeds):
        _mutate(content, dice)
    try:
        _use(content)
    except DeclarationError as error:
        assert one_sentence(error, "shop.yaml")


@given(st.integers(0, 2**32))
@settings(max_examples=2 * settings.default.max_examples)
def test_a_file_with_flipped_characters_works_or_is_refused_in_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    dice = random.Random(seed)
    raw = bytearray(yaml.safe_dump(tree(), sort_keys=False).encode())
    for _ in range(dice.randrange(1, 5)):
        raw[dice.randrange(len(raw))] = dice.choice(b"\t\n :-[]{}&*!|>'\"#%@`,?\x00\xff01az")
    path = tmp_path_factory.getbasetemp() / "shop.yaml"
    path.write_bytes(bytes(raw))
    try:
        assert load_contract(path).name == "shop"
    except DeclarationError as error:
        assert one_sentence(error, "shop.yaml")
