"""GROUP BY with public keys: a partition of all possible rows, known before any is read.

Guarantee   none spent: the predicates come from the contract; every group is emitted, empty or not,
            in the same order.
Paper       DP-TabICL section V-E and table VII.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from dpicl.contract.columns.base import Extent
from dpicl.contract.models import Contract
from dpicl.contract.parts import GroupKey
from dpicl.errors import ParameterError
from dpicl.tabular.reading.encode import label_codes, part_codes
from dpicl.types import Table

Key = GroupKey | Literal["label"]


@dataclass(frozen=True)
class Group:
    """One part of the partition: what its predicate leaves open for every key column.

    Attributes:
        label: the code of all its rows' answers; None where they differ.
        open: {column of a key: the values that the predicate allows}.
    """

    key: tuple[str, ...]
    label: int | None
    open: Mapping[str, Extent]


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
    label, names = None if contract.label else 0, []
    allowed: dict[str, Extent] = {}
    for key, part in zip(keys, parts, strict=True):
        if not isinstance(key, GroupKey):
            label = part
            names.append(f"label={contract.target.answers[part]}")
            continue
        allowed[key.column], name = contract.columns[key.column].part(key, part, key.column)
        names.append(name)
    return Group(tuple(names) or ("all",), label, allowed)


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
            numbers = numbers * key.part_count + part_codes(table, key, contract, rows)
        else:
            numbers = numbers * contract.target.count + (
                contract.target.count - 1 - label_codes(table, contract, rows)
            )
    return numbers
