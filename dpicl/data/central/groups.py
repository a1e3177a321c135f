"""GROUP BY with public keys: a partition of all possible rows, known before any is read.

Guarantee   none spent: the predicates come from the contract; every group is emitted, empty or not,
            in the same order.
Paper       DP-TabICL section V-E and table VII.

From `GroupSums` on: what noisy averages are made of: exact counts, sums and histograms of every
group; they add up over batches of a table.

Trust       Central: exact and private; only `aggregate.noised` may make something of them that
            leaves.
Guarantee   none spent. Whole numbers: the sums of two batches of rows add up to the sums of both,
            so that what is released does not depend on how the rows are split. One row more moves a
            count by one, a histogram by one in one cell, and a sum by at most a grid's sensitivity,
            or not at all where its value is missing.

Sums of a grid's units are stored as two halves, of the units' upper and lower 32 bits: a sum that
wraps round at 2^64 would have no bounded sensitivity, and halves of 2^31 rows do not wrap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Literal

import numpy as np

from dpicl.contract.columns.base import Extent
from dpicl.contract.models import Contract
from dpicl.contract.parts import GroupKey
from dpicl.data.reading.encode import label_codes, part_codes
from dpicl.ground.errors import ParameterError
from dpicl.ground.types import PrivateTable, Table
from dpicl.mechanisms.noisy_mean import Grid

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


_ROWS_PER_COMPARISON = 400
"""Of at least so many rows for each category, comparing all with every category is the faster way
to count.
"""


@dataclass(frozen=True)
class GroupSums:
    """Of all groups, int64, by name: `rows` of shape (groups,), `labels` (groups, codes), of
    category columns `count NAME` (groups, codes), of numbers `sum NAME` (groups, 2), and of
    nullable ones `known NAME` (groups,), the rows that have a value: those that the sum adds up.
    """

    arrays: Mapping[str, np.ndarray]

    def total(self, name: str, group: int) -> int:
        """The sum of a number column's units in a group, exactly."""
        high, low = self.arrays[f"sum {name}"][group].tolist()
        return int((high << 32) + low)

    def valued(self, name: str, group: int) -> int:
        """The rows of a group that have a value in a number column."""
        return int(self.arrays.get(f"known {name}", self.arrays["rows"])[group])

    def __add__(self, other: GroupSums) -> GroupSums:
        return GroupSums(
            {name: numbers + other.arrays[name] for name, numbers in self.arrays.items()}
        )


Grids = Mapping[str, Sequence[Grid | None]]
"""Of every number column, a grid per group; None where the group's key says the number already."""


def group_sums(
    table: PrivateTable,
    rows: np.ndarray,
    groups: np.ndarray,
    count: int,
    contract: Contract,
    grids: Grids,
) -> GroupSums:
    """Sum the rows at these positions, in any order, in the groups 0..count-1 beside them; copies
    of a column only what it sums.
    """
    short = groups.astype(np.int16)  # which numpy sorts by its digits
    order = np.argsort(short, kind="stable")
    bounds = np.searchsorted(short[order], np.arange(count + 1)).tolist()
    taken = rows[order]
    labels = label_codes(table, contract, taken)
    sums = {"rows": np.diff(bounds), "labels": _histograms(labels, bounds, contract.target.count)}
    for name in contract.features:
        declared = contract.columns[name]
        values = table.stored(name)[taken]
        if name in contract.listed:
            sums[f"count {name}"] = _histograms(values, bounds, declared.count())
        else:
            inside = [values[start:stop] for start, stop in pairwise(bounds)]
            totals = [
                0 if grid is None else grid.total(part)
                for grid, part in zip(grids[name], inside, strict=True)
            ]
            sums[f"sum {name}"] = np.array(
                [(total >> 32, total & 0xFFFFFFFF) for total in totals], dtype=np.int64
            ).reshape(-1, 2)
            if declared.nullable:
                sums[f"known {name}"] = np.array(
                    [np.count_nonzero(~np.isnan(part)) for part in inside], dtype=np.int64
                )
    return GroupSums(sums)


def _histograms(codes: np.ndarray, bounds: Sequence[int], size: int) -> np.ndarray:
    counts = np.zeros((len(bounds) - 1, size), dtype=np.int64)
    for group, (start, stop) in enumerate(pairwise(bounds)):
        inside = codes[start:stop]
        if len(inside) < _ROWS_PER_COMPARISON * size:
            counts[group] = np.bincount(inside, minlength=size)
            continue
        for code in range(size - 1):
            counts[group, code] = np.count_nonzero(inside == codes.dtype.type(code))
        counts[group, -1] = len(inside) - counts[group].sum()
    return counts
