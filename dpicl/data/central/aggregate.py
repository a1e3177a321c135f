"""Noisy averages of every group: the released demonstrations of GDP-TabICL.

Trust       Central: the curator reads the subsample; only noisy averages leave.
Unit        One row.
Neighbours  ADD_OR_REMOVE_ONE; a contract that asks for REPLACE_ONE is charged twice.
Guarantee   epsilon-DP, delta = 0: columns of a group in sequence, groups in parallel
            (their predicates are public). Subsampling amplifies it afterwards.
Paper       DP-TabICL algorithm 2 and section V-E, mended (see the mechanisms).

    (1)  epsilon_j = epsilon / C    C columns that are paid for in the group
    (2)  category or label: argmax of a noisy histogram over the public categories, (missing) among
         them
    (3)  number: noisy mean on the contract's bounds, narrowed by the group's predicate, of the rows
         that have a value

    (4)  `shared-count`: one noisy count of the group, and (3) from a noisy sum over it; the count
         is one of the C. It counts rows whose value is missing too, which pull the mean to the
         origin of the sum, as if they had that value: by their share of the group

Symbols     C leaves out what the predicate already says, and the label where a contract has none;
            `all-columns` is the paper's split, which pays for what the predicate says too.
Not covered correlations between columns of a group; columns are averaged one by one.

Groups are those of GROUP BY with public keys (DP-TabICL section V-E and table VII): a partition of
all possible rows, known before any is read. Their predicates come from the contract; every group is
emitted, empty or not, in the same order.

`GroupSums` are what noisy averages are made of: exact counts, sums and histograms of every group.
They are private, and only `noised` may make something of them that leaves. Whole numbers: the sums
of two batches of rows add up to the sums of both, so that what is released does not depend on how
the rows are split. One row more moves a count by one, a histogram by one in one cell, and a sum by
at most a grid's sensitivity, or not at all where its value is missing.

Sums of a grid's units are stored as two halves, of the units' upper and lower 32 bits: a sum that
wraps round at 2^64 would have no bounded sensitivity, and halves of 2^31 rows do not wrap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from typing import Literal, TypeVar

import numpy as np

from dpicl.accounting.guarantee import (
    Event,
    Guarantee,
    Neighbours,
    compose_parallel,
    compose_sequential,
)
from dpicl.contract.columns.base import Extent
from dpicl.contract.models import Contract
from dpicl.contract.parts import GroupKey
from dpicl.data.reading.encode import label_codes, part_codes
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream
from dpicl.ground.types import PrivateTable, ReleasedGroup, ReleasedGroups, Table
from dpicl.mechanisms import noisy_count, noisy_mean
from dpicl.mechanisms.noisy_mean import Grid, Origin

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


Allocation = Literal["paid-columns", "all-columns", "shared-count"]
Way = TypeVar("Way")


@dataclass(frozen=True)
class AggregateOptions:
    """Choices that cost the same epsilon: the paper's are `all-columns` and `lower`."""

    allocation: Allocation = "paid-columns"
    sum_origin: Origin = "centre"


def guarantee(
    groups: tuple[Group, ...], contract: Contract, *, epsilon: float, options: AggregateOptions
) -> Guarantee:
    """What `aggregate` costs before amplification, known before any row is read."""
    total = noisy_count.exact_epsilon(epsilon)
    shared = options.allocation == "shared-count"
    of_mean = noisy_mean.sum_guarantee if shared else noisy_mean.guarantee
    guarantees = []
    for group in groups:
        paid, means = _paid(group, contract)
        share = _share(group, contract, total, options)
        costs = [
            *[noisy_count.guarantee(share)] * (len(paid) - len(means)),
            *[of_mean(_grid(name, group, contract, options), share) for name in means],
            # in this order they were always written down, and a release's price stands
            *[noisy_count.guarantee(share)] * ((group.label is None) + (shared and bool(means))),
        ]
        nothing = Guarantee(0.0, 0.0, Neighbours.ADD_OR_REMOVE_ONE, "row", Event("public-key"))
        guarantees.append(compose_sequential(costs) if costs else nothing)
    return compose_parallel(guarantees)


def expected_errors(
    groups: tuple[Group, ...],
    contract: Contract,
    *,
    epsilon: float,
    options: AggregateOptions,
    rows: float,
) -> dict[str, float]:
    """Of every column, about how far noise moves an average: in widths of its bounds, or of a
    histogram in rows of the group; at most 1. `rows` are of the subsample, taken to be as many in
    every group.
    """
    total = noisy_count.exact_epsilon(epsilon)
    shared = options.allocation == "shared-count"
    errors = {}
    for name in contract.features:
        shares = [
            _share(group, contract, total, options)
            for group in groups
            if known_value(name, group, contract) is None
        ]
        noise = max(
            (0.0 if share is None else len(groups) / (rows * float(share)) for share in shares),
            default=0.0,
        )
        # the sum has half of it, and D of the mean's equation (2) is a half
        if name in contract.numbers:
            noise *= (1.0 if shared else 2.0) * (0.5 if options.sum_origin == "centre" else 1.0)
        errors[name] = min(1.0, noise)
    return errors


def exact_sums(
    table: PrivateTable,
    rows: np.ndarray,
    members: np.ndarray,
    groups: tuple[Group, ...],
    contract: Contract,
    *,
    options: AggregateOptions,
) -> GroupSums:
    """What `noised` needs to know of the rows at these positions, each in the group that `members`
    says; private.
    """
    grids = {
        name: [_open_grid(name, group, contract, options) for group in groups]
        for name in contract.features
        if name in contract.numbers
    }
    return group_sums(table, rows, members, len(groups), contract, grids)


_Shares = Sequence[Fraction | None]
"""Of every group, what each of its columns is paid."""


def noised(
    sums: GroupSums,
    groups: tuple[Group, ...],
    contract: Contract,
    *,
    epsilon: float,
    options: AggregateOptions,
    stream: Stream,
) -> ReleasedGroups:
    """Equations (1) to (3) on exact sums of whole groups: the only draw of noise."""
    total = noisy_count.exact_epsilon(epsilon)
    shares = [_share(group, contract, total, options) for group in groups]
    if options.allocation == "shared-count":  # of every group that has a number to average
        rows = np.zeros(len(groups), dtype=np.int64)
        averages_numbers = [True if _paid(group, contract)[1] else None for group in groups]
        for (_, share), places in _alike(averages_numbers, shares).items():
            rows[places] = noisy_count.noisy_counts(
                [int(sums.arrays["rows"][i]) for i in places], epsilon=share, stream=stream
            )
        sums = GroupSums(
            {name: array for name, array in sums.arrays.items() if not name.startswith("known ")}
            | {"rows": rows}
        )

    def column(name: str) -> list[float | str]:
        """Equations (2) and (3), or what is known."""
        known = [known_value(name, group, contract) for group in groups]
        found: dict[int, float | str] = {}
        if name in contract.listed:
            categories = contract.listed[name].categories
            ways = [
                open_codes(name, group, contract) if value is None else None
                for value, group in zip(known, groups, strict=True)
            ]
            modes = _modes(sums.arrays[f"count {name}"], ways, shares, stream)
            found = {i: categories[mode] for i, mode in modes.items()}
        else:
            grids = [_open_grid(name, group, contract, options) for group in groups]
            # over rows that are noisy already where the count is shared
            averages = (
                noisy_mean.means_over
                if options.allocation == "shared-count"
                else noisy_mean.noised_means
            )
            for (grid, share), places in _alike(grids, shares).items():
                totals = [sums.total(name, i) for i in places]
                counts = [sums.valued(name, i) for i in places]
                found |= zip(
                    places,
                    averages(totals, counts, grid, epsilon=share, stream=stream),
                    strict=True,
                )
        return [found[i] if value is None else value for i, value in enumerate(known)]

    columns = {name: column(name) for name in contract.features}
    every_label = tuple(range(contract.target.count))
    labels = _modes(
        sums.arrays["labels"],
        [every_label if group.label is None else None for group in groups],
        shares,
        stream,
    )
    released = []
    for i, group in enumerate(groups):
        values = {name: column[i] for name, column in columns.items()}
        released.append(
            ReleasedGroup(group.key, values, labels[i] if group.label is None else group.label)
        )
    return ReleasedGroups(tuple(released))


def _modes(
    counts: np.ndarray, ways: Sequence[tuple[int, ...] | None], shares: _Shares, stream: Stream
) -> dict[int, int]:
    """The noisy mode of every group that has open categories, whose codes are its way."""
    chosen: dict[int, int] = {}
    for (codes, share), places in _alike(ways, shares).items():
        histograms = [counts[i, list(codes)].tolist() for i in places]
        modes = noisy_count.noisy_modes(histograms, epsilon=share, stream=stream)
        chosen |= zip(places, (codes[mode] for mode in modes), strict=True)
    return chosen


def _alike(
    ways: Sequence[Way | None], shares: _Shares
) -> dict[tuple[Way, Fraction | None], list[int]]:
    """Groups by how they are averaged and what they are paid: those that are treated alike draw
    their noise together.
    """
    alike: dict[tuple[Way, Fraction | None], list[int]] = defaultdict(list)
    for i, (way, share) in enumerate(zip(ways, shares, strict=True)):
        if way is not None:
            alike[way, share].append(i)
    return alike


def _paid(group: Group, contract: Contract) -> tuple[list[str], list[str]]:
    """Columns that the group's predicate leaves open, and the numbers among them."""
    paid = [name for name in contract.features if known_value(name, group, contract) is None]
    return paid, [name for name in paid if name in contract.numbers]


def _share(
    group: Group, contract: Contract, total: Fraction | None, options: AggregateOptions
) -> Fraction | None:
    """Equation (1)."""
    if options.allocation == "all-columns":
        columns = len(contract.features) + (contract.label is not None)
    else:
        paid, numbers = _paid(group, contract)
        columns = (
            len(paid)
            + (group.label is None)
            + (options.allocation == "shared-count" and bool(numbers))
        )
    return None if total is None else total / max(columns, 1)


def known_value(name: str, group: Group, contract: Contract) -> float | str | None:
    """The one value of a column that the group's predicate allows; None where it allows several."""
    declared = contract.columns[name]
    return declared.only(group.open.get(name, declared.extent))


def open_codes(name: str, group: Group, contract: Contract) -> tuple[int, ...]:
    """Those of a category column that the group's predicate allows."""
    categories = contract.listed[name].categories
    return tuple(map(categories.index, group.open.get(name, categories)))


def _open_grid(
    name: str, group: Group, contract: Contract, options: AggregateOptions
) -> Grid | None:
    """How a number column is averaged in a group; None where the key says the number."""
    if known_value(name, group, contract) is None:
        return _grid(name, group, contract, options)
    return None


def _grid(name: str, group: Group, contract: Contract, options: AggregateOptions) -> Grid:
    declared = contract.numbers[name]
    low, high = group.open.get(name, declared.bounds)
    return Grid(low, high, step=declared.step, origin=options.sum_origin)
