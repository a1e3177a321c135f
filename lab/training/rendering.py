"""From a synthetic table to rows of text: through the product's own serialiser, or in another
wording.

Guarantee   none spent: tables are made up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from dpicl.contract.columns.category import CategoryColumn
from dpicl.contract.columns.real import RealColumn
from dpicl.contract.models import Contract
from dpicl.contract.parts import Attribute, Label, Prompts, Template
from dpicl.data.prompts import central_demonstrations, local_demonstrations
from dpicl.ground.types import ReleasedGroup, ReleasedGroups, ReleasedRows
from lab.training.columns import Column, NumberColumn, PartsColumn
from lab.training.wording import Wording
from lab.training.words import word

_PAIRS = (
    ("No", "Yes"),
    ("no", "yes"),
    ("False", "True"),
    ("false", "true"),
    ("0", "1"),
    ("low", "high"),
    ("A", "B"),
)
_LINES = (
    ("{n}: {v}", ", ", "label:"),
    ("{n} = {v}", ", ", "->"),
    ("{n} {v}", "; ", "=>"),
    ("{v}", ", ", "?"),
    ("{v}", "; ", "->"),
    ("{v}", " | ", "Answer:"),
    ("{n} is {v}", ". ", "Answer:"),
    ("{n}: {v}", " | ", "class:"),
)


def local_contract(columns: Sequence[PartsColumn], said: Wording) -> Contract:
    """As much of a contract as local prompts are made from; unchecked, since made up by the
    thousand.
    """
    attributes = tuple(
        Attribute.model_construct(name=f"c{index}", column=f"c{index}", texts=column.texts)
        for index, column in enumerate(columns)
    )
    return _contract(said, local=attributes, columns={})


def central_contract(columns: Sequence[Column], said: Wording) -> Contract:
    """As much of a contract as central prompts are made from."""
    declared = {f"c{index}": _declared(column) for index, column in enumerate(columns)}
    return _contract(said, local=(), columns=declared)


def _contract(
    said: Wording, *, local: tuple[Attribute, ...], columns: Mapping[str, object]
) -> Contract:
    template = Template.model_construct(text=said.template, words={})
    unchecked: Any = Contract.model_construct  # with the parts alone that the serialiser reads
    return cast(
        Contract,
        unchecked(
            local=local,
            columns=columns,
            label=Label.model_construct(column="label", cuts=(1.0,), question=said.question),
            prompts=Prompts.model_construct(local=template, central=template),
        ),
    )


def _declared(column: Column) -> CategoryColumn | RealColumn:
    if isinstance(column, NumberColumn):
        return RealColumn.model_construct(type="real", bounds=(0.0, 1.0), decimals=column.decimals)
    return CategoryColumn.model_construct(type="category", categories=column.texts, texts={})


def local_rows(columns: Sequence[PartsColumn], said: Wording, labels: np.ndarray) -> list[str]:
    """One demonstration per row, answer included, as LDP-TabICL puts it; labels of shape
    (rows,).
    """
    codes = np.stack([*(column.parts for column in columns), labels], axis=1)
    return local_demonstrations(
        ReleasedRows(codes), lambda rows: rows, local_contract(columns, said)
    )


def central_rows(columns: Sequence[Column], said: Wording, labels: np.ndarray) -> list[str]:
    """One demonstration per row, answer included, as GDP-TabICL puts group averages and rows."""
    groups = [
        ReleasedGroup((), _values(columns, row), int(label)) for row, label in enumerate(labels)
    ]
    return central_demonstrations(ReleasedGroups(tuple(groups)), central_contract(columns, said))


def _values(columns: Sequence[Column], row: int) -> dict[str, float | str]:
    return {
        f"c{index}": float(column.numbers[row])
        if isinstance(column, NumberColumn)
        else column.texts[column.parts[row]]
        for index, column in enumerate(columns)
    }


def plain_rows(
    rng: np.random.Generator, columns: Sequence[Column], labels: np.ndarray
) -> list[str]:
    """Rows as lists of values, most with names, with a pair of answers drawn at random, either way
    round.
    """
    form, link, cue = _LINES[rng.integers(len(_LINES))]
    pair = _PAIRS[rng.integers(len(_PAIRS))][:: rng.choice([-1, 1])]
    names = [word(rng) for _ in columns]
    rows = []
    for row, label in enumerate(labels):
        shown = [
            form.format(n=name, v=_shown(column, row))
            for name, column in zip(names, columns, strict=True)
        ]
        rows.append(f"{link.join(shown)} {cue} {pair[label]}")
    return rows


def _shown(column: Column, row: int) -> str:
    if isinstance(column, PartsColumn):
        return column.texts[column.parts[row]]
    return f"{column.numbers[row]:.{column.decimals}f}"


def parted(row: str) -> tuple[str, str]:
    """A demonstration without its answer, and the answer with the blank before it."""
    text, _, answer = row.rpartition(" ")
    return text, f" {answer}"
