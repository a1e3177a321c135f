"""GROUP BY with public keys: a partition of all possible rows, known before any is read.

Guarantee   none spent: the predicates come from the contract; every group is emitted,
            empty or not, in the same order.
Paper       DP-TabICL section V-E and table VII.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from dpicl.contract.models import CategoryColumn, Contract, GroupKey, IntegerColumn, Rule
from dpicl.contract.rules import resolve_parts
from dpicl.errors import ParameterError
from dpicl.tabular.reading.encode import part_codes
from dpicl.types import Table


@dataclass(frozen=True)
class Group:
    """One part of the partition: what its predicate leaves open for every key column."""

    key: tuple[str, ...]
    label: int | None
    bounds: dict[str, tuple[float, float]]
    categories: dict[str, tuple[str, ...]]


def partition(contract: Contract, shots: int) -> tuple[Group, ...]:
    """The public groups for this number of demonstrations; one open group for 1.

    Raises:
        ParameterError: the contract has no groups for `shots`.
    """
    if shots == 1:
        return (Group(("all",), None, {}, {}),)
    if shots not in contract.groups:
        known = ", ".join(map(str, contract.shots))
        raise ParameterError("shots", shots, f"one of {known} for {contract.name}: the contract groups by these")
    keys = [(contract.label.column, contract.label) if key == "label" else (key.column, key) for key in contract.groups[shots]]
    # Positive first, as the paper's demonstrations stand.
    orders = [range(rule.part_count)[::-1] if column == contract.label.column else range(rule.part_count) for column, rule in keys]
    return tuple(_group(contract, keys, parts) for parts in product(*orders))


def _group(contract: Contract, keys: Sequence[tuple[str, Rule]], parts: tuple[int, ...]) -> Group:
    label, bounds, categories, names = None, {}, {}, []
    for (column, rule), part in zip(keys, parts, strict=True):
        if column == contract.label.column:
            label = part
            names.append(f"label={'Yes' if part else 'No'}")
            continue
        declared = contract.columns[column]
        if isinstance(declared, CategoryColumn):
            categories[column] = resolve_parts(rule.parts, declared.categories, column, contract.name)[part]
            names.append(f"{column} in {{{', '.join(categories[column])}}}")
        else:
            # Whole numbers below 17.5 reach up to 17.
            cuts = tuple(map(math.ceil, rule.cuts)) if isinstance(declared, IntegerColumn) else rule.cuts
            edges = (declared.bounds[0], *cuts, declared.bounds[1] + declared.step)
            bounds[column] = (edges[part], edges[part + 1] - declared.step)
            names.append(f"{column} in [{edges[part]:g}, {edges[part + 1]:g})" if part < len(rule.cuts) else f"{column} >= {edges[part]:g}")
    return Group(tuple(names), label, bounds, categories)


def assign(table: Table, contract: Contract, shots: int, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
    """Position in `partition` of each row's group (or of some rows', by their positions): shape (rows,), int64."""
    keys = contract.groups[shots] if shots != 1 else ()
    numbers = np.zeros(len(range(table.row_count)[rows]) if isinstance(rows, slice) else len(rows), dtype=np.int64)
    for key in keys:
        column, rule = (contract.label.column, contract.label) if not isinstance(key, GroupKey) else (key.column, key)
        parts = part_codes(table, column, rule, contract, rows)
        numbers = numbers * rule.part_count + (rule.part_count - 1 - parts if column == contract.label.column else parts)
    return numbers
