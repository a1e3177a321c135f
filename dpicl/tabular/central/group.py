"""GROUP BY with public keys: a partition of all possible rows, known before any is read.

Guarantee   none spent: the predicates come from the contract; every group is emitted, empty or not,
            in the same order.
Paper       DP-TabICL section V-E and table VII.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from dpicl.contract.columns import CategoryColumn, GroupKey, IntegerColumn
from dpicl.contract.models import Contract
from dpicl.contract.rules import resolve_parts
from dpicl.errors import ParameterError
from dpicl.tabular.reading.encode import label_codes, part_codes
from dpicl.types import Table

Key = GroupKey | Literal["label"]


@dataclass(frozen=True)
class Group:
    """One part of the partition: what its predicate leaves open for every key column.

    Attributes:
        label: the code of all its rows' answers; None where they differ.
    """

    key: tuple[str, ...]
    label: int | None
    bounds: dict[str, tuple[float, float]]
    categories: dict[str, tuple[str, ...]]


def partition(contract: Contract, shots: int) -> tuple[Group, ...]:
    """The public groups for this number of demonstrations; one open group for 1.

    Where a contract has no label, all rows have its only code. Raises ParameterError: the contract
    has no groups for `shots`.
    """
    if shots == 1:
        return (_group(contract, (), ()),)
    if shots not in contract.group_keys:
        known = ", ".join(map(str, contract.shots))
        raise ParameterError(
            "shots", shots, f"one of {known} for {contract.name}: the contract groups by these"
        )
    keys = contract.group_keys[shots]
    # Positive first, as the paper's demonstrations stand.
    orders = [
        range(key.part_count) if isinstance(key, GroupKey) else range(contract.target.count)[::-1]
        for key in keys
    ]
    return tuple(_group(contract, keys, parts) for parts in product(*orders))


def _group(contract: Contract, keys: Sequence[Key], parts: tuple[int, ...]) -> Group:
    label, bounds, categories, names = None if contract.label else 0, {}, {}, []
    for key, part in zip(keys, parts, strict=True):
        if not isinstance(key, GroupKey):
            label = part
            names.append(f"label={contract.target.answers[part]}")
            continue
        rule, column = key, key.column
        declared = contract.columns[column]
        if isinstance(declared, CategoryColumn):
            categories[column] = resolve_parts(
                rule.parts, declared.categories, column, contract.name
            )[part]
            names.append(f"{column} in {{{', '.join(categories[column])}}}")
        else:
            # Whole numbers below 17.5 reach up to 17.
            cuts = (
                tuple(map(math.ceil, rule.cuts))
                if isinstance(declared, IntegerColumn)
                else rule.cuts
            )
            edges = (declared.bounds[0], *cuts, declared.bounds[1] + declared.step)
            bounds[column] = (edges[part], edges[part + 1] - declared.step)
            names.append(
                f"{column} in [{edges[part]:g}, {edges[part + 1]:g})"
                if part < len(rule.cuts)
                else f"{column} >= {edges[part]:g}"
            )
    return Group(tuple(names) or ("all",), label, bounds, categories)


def assign(
    table: Table, contract: Contract, shots: int, rows: np.ndarray | slice = slice(None)
) -> np.ndarray:
    """Position in `partition` of each row's group (or of some rows', by their positions): shape
    (rows,), int64.
    """
    keys = contract.group_keys[shots] if shots != 1 else ()
    numbers = np.zeros(
        len(range(table.row_count)[rows]) if isinstance(rows, slice) else len(rows), dtype=np.int64
    )
    for key in keys:
        if isinstance(key, GroupKey):
            numbers = numbers * key.part_count + part_codes(table, key.column, key, contract, rows)
        else:
            numbers = numbers * contract.target.count + (
                contract.target.count - 1 - label_codes(table, contract, rows)
            )
    return numbers
