"""Made-up contracts and rows, and streams that walk through all that can be drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpicl.contract import Contract, load_contract, parse_contract
from dpicl.contract.columns import CategoryColumn, IntegerColumn
from dpicl.ground.errors import DeclarationError
from dpicl.ground.randomness import Stream, stream

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = {
    path.stem: load_contract(path) for path in sorted((ROOT / "data_contracts").glob("*.yaml"))
}
every_contract = pytest.mark.parametrize("contract", CONTRACTS.values(), ids=CONTRACTS)


def tree() -> dict[str, Any]:
    """A valid contract as YAML gives it: one column of every type, groups up to eight; a fresh
    copy.
    """
    return {
        "version": 1,
        "name": "shop",
        "description": "Made-up customers.",
        "source": {"title": "t", "licence": "l", "citation": "c", "file": "shop.csv"},
        "privacy": {"sampling_rate": "1/2", "budget": {"benchmark": True}},
        "split": {"test_fraction": 0.2},
        "columns": {
            "age": {"type": "integer", "bounds": [0, 120]},
            "spent": {"type": "real", "bounds": [-5, 100], "step": 0.1},
            "colour": {
                "type": "category",
                "categories": ["red", "green", "blue"],
                "texts": {"red": "crimson"},
            },
            "member": {"type": "category", "categories": ["no", "yes"]},
            "bought": {"type": "category", "categories": ["no", "yes", "twice"]},
        },
        "label": {"column": "bought", "parts": [["no"], "rest"], "question": "Did they buy?"},
        "groups": {
            2: ["label"],
            4: ["label", {"column": "colour", "parts": [["red"], "rest"]}],
            8: [
                "label",
                {"column": "age", "cuts": [40]},
                {"column": "member", "parts": [["no"], ["yes"]]},
            ],
        },
        "local": [
            {
                "name": "band",
                "column": "age",
                "cuts": [40],
                "texts": ["less than 40", "40 or more"],
            },
            {
                "name": "colour",
                "column": "colour",
                "parts": [["red"], ["green"], ["blue"]],
                "texts": ["red", "green", "blue"],
            },
            {
                "name": "spending",
                "column": "spent",
                "cuts": [10, 50],
                "texts": ["little", "some", "much"],
            },
        ],
        "prompts": {
            "local": {
                "text": "Aged {band}, likes {colour}, spends {spending}. {Note}",
                "words": {"Note": {"field": "band", "texts": ["Young.", "Not so young."]}},
            },
            "central": {
                "text": "Aged {age}, likes {colour}, spent {spent}. {Note} Member: {member}.",
                "words": {
                    "Note": {
                        "field": "age",
                        "cuts": [18],
                        "texts": ["A child.", "An adult of {age}."],
                    }
                },
            },
        },
        "checks": [{"rule": "in_bounds", "column": "age"}],
    }


def small_contract(change: Callable[[dict[str, Any]], object] = lambda content: None) -> Contract:
    """The contract of `tree`, after `change` was made to it."""
    content = tree()
    change(content)
    return parse_contract(content, "shop.yaml")


def private_contract() -> Contract:
    """The same contract with something at stake: a cap instead of `benchmark`, and no row held
    out.
    """

    def change(content: dict[str, Any]) -> None:
        content["privacy"].update(budget={"epsilon": 100})
        del content["split"]

    return small_contract(change)


def random_table(contract: Contract, row_count: int, seed: int, *, beyond: float = 0.0) -> pa.Table:
    """Rows that fit a contract; numbers leave their bounds by up to `beyond` widths, a sixth of the
    nullable ones is missing.
    """
    rng = np.random.default_rng(seed)
    columns: dict[str, pa.Array] = {}
    for name, column in contract.columns.items():
        if isinstance(column, CategoryColumn):
            codes = rng.integers(len(column.categories), size=row_count).astype(np.int16)
            columns[name] = pa.DictionaryArray.from_arrays(
                pa.array(codes), pa.array(column.categories)
            )
            continue
        width = column.bounds[1] - column.bounds[0]
        values = rng.uniform(
            column.bounds[0] - beyond * width, column.bounds[1] + beyond * width, row_count
        )
        missing = rng.random(row_count) < 1 / 6 if column.nullable else None
        columns[name] = pa.array(
            np.rint(values).astype(np.int64) if isinstance(column, IntegerColumn) else values,
            mask=missing,
        )
    return pa.table(columns)


def seeded(seed: int = 0, name: str = "test") -> Stream:
    """The simulated stream of a seed and one word."""
    return stream(seed, name, "", "")


class EveryWord(Stream):
    """Gives the words 0, 1, 2 ... in order: a full turn meets every word exactly once."""

    def __init__(self, start: int = 0) -> None:
        super().__init__(bytes(32), simulated=True)
        self._next = start

    def words(self, count: int, dtype: type[np.unsignedinteger]) -> np.ndarray:
        self._next += count
        return np.arange(self._next - count, self._next, dtype=np.uint64).astype(dtype)


class _Script(Stream):
    """Follows one path through the tree of outcomes of `below`."""

    def __init__(self, path: tuple[int, ...]) -> None:
        super().__init__(bytes(32), simulated=True)
        self.path, self.depth, self.chance = path, 0, Fraction(1)

    def below(self, bound: int) -> int:
        if self.depth == len(self.path):
            raise _Branch(bound, self.chance)
        self.depth += 1
        self.chance /= bound
        return self.path[self.depth - 1]


class _Branch(Exception):
    """The path ends here and forks into `bound` equally likely ways."""

    def __init__(self, bound: int, chance: Fraction) -> None:
        self.bound, self.chance = bound, chance


def exact_law(
    draw: Callable[[Stream], Any], smallest: Fraction
) -> tuple[dict[Any, Fraction], Fraction]:
    """Probabilities of what `draw` returns, by walking every path more likely than `smallest`.

    Returns:
        Lower bounds on the probabilities, and the mass of the paths that were not walked.
    """
    law: dict[Any, Fraction] = {}
    missing = Fraction(0)
    paths: list[tuple[int, ...]] = [()]
    while paths:
        path = paths.pop()
        script = _Script(path)
        try:
            value = draw(script)
        except _Branch as branch:
            if branch.chance / branch.bound < smallest:
                missing += branch.chance
            else:
                paths += [(*path, way) for way in range(branch.bound)]
        else:
            law[value] = law.get(value, Fraction(0)) + script.chance
    return law, missing


def words_of(text: str) -> Iterator[str]:
    """The words of a text without its punctuation."""
    return (word.strip(".,:?") for word in text.split())


def one_sentence(error: DeclarationError, file: str) -> str:
    """The message of a declaration error, checked to be one sentence in a reader's words."""
    text = str(error)
    assert text.startswith(f"{file}: ") and "\n" not in text and len(text) < 400
    assert not re.search(
        r"Traceback|pydantic|Input should|validation error|function-|discriminator", text
    )
    assert error.__cause__ is None and (error.__suppress_context__ or error.__context__ is None)
    return text


def put(*path: str | int) -> Callable[[Any], Callable[[Any], None]]:
    """`put("a", "b")(value)` is the change that writes `value` there."""

    def with_value(value: Any) -> Callable[[Any], None]:
        def change(content: Any) -> None:
            for part in path[:-1]:
                content = content[part]
            content[path[-1]] = value

        return change

    return with_value


REMOVED = object()
"""In place of a value: the key goes."""


def changed(content: Any, changes: Mapping[str, Any]) -> Any:
    """The content with other values at places such as `local.0.cuts`."""
    for place, value in changes.items():
        *above, last = (int(part) if part.isdigit() else part for part in place.split("."))
        inner = reduce(getitem, above, content)
        if value is REMOVED:
            del inner[last]
        else:
            inner[last] = value
    return content
