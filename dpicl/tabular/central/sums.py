"""What noisy averages are made of: exact counts, sums and histograms of every group; they add up
over batches of a table.

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
from itertools import pairwise

import numpy as np

from dpicl.contract.models import Contract
from dpicl.mechanisms.noisy_mean import Grid
from dpicl.tabular.reading.encode import label_codes
from dpicl.types import PrivateTable

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
