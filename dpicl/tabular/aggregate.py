"""Noisy averages of every group: the released demonstrations of GDP-TabICL.

Trust       Central: the curator reads the subsample; only noisy averages leave.
Unit        One row.
Neighbours  ADD_OR_REMOVE_ONE; a contract that asks for REPLACE_ONE is charged twice.
Guarantee   epsilon-DP, delta = 0: columns of a group in sequence, groups in parallel
            (their predicates are public). Subsampling amplifies it afterwards.
Paper       DP-TabICL algorithm 2 and section V-E, mended (see the mechanisms).

    (1)  epsilon_j = epsilon / C    C columns that are paid for in the group
    (2)  category or label: argmax of a noisy histogram over the public categories
    (3)  number: noisy mean on the contract's bounds, narrowed by the group's predicate

Symbols     C leaves out what the predicate already says; `all-columns` is the paper's
            split, which pays for those columns too.
Not covered correlations between columns of a group; columns are averaged one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Literal

import numpy as np

from dpicl.accounting.guarantee import Event, Guarantee, Neighbours, compose_parallel, compose_sequential
from dpicl.contract.models import CategoryColumn, Contract
from dpicl.mechanisms import noisy_count, noisy_mean
from dpicl.mechanisms.noisy_mean import Grid, Origin
from dpicl.randomness import Stream
from dpicl.tabular.encode import label_codes
from dpicl.tabular.group import Group
from dpicl.types import PrivateTable, ReleasedGroup, ReleasedGroups

CITATIONS = ("carey2024dptabicl",)
Allocation = Literal["paid-columns", "all-columns"]


@dataclass(frozen=True)
class AggregateOptions:
    """Choices that cost the same epsilon: the paper's are `all-columns` and `lower`."""

    allocation: Allocation = "paid-columns"
    sum_origin: Origin = "centre"


def guarantee(groups: tuple[Group, ...], contract: Contract, *, epsilon: float, options: AggregateOptions) -> Guarantee:
    """What `aggregate` costs before amplification, known before any row is read."""
    total = noisy_count.exact_epsilon(epsilon)
    return compose_parallel([_group_guarantee(group, contract, _share(group, contract, total, options), options) for group in groups])


def _group_guarantee(group: Group, contract: Contract, share: Fraction | None, options: AggregateOptions) -> Guarantee:
    histograms = [name for name in _paid(group, contract) if isinstance(contract.columns[name], CategoryColumn)]
    means = [name for name in _paid(group, contract) if name not in histograms]
    costs = [noisy_count.guarantee(share) for _ in histograms] + [
        noisy_mean.guarantee(_grid(name, group, contract, options), share) for name in means
    ]
    if group.label is None:
        costs.append(noisy_count.guarantee(share))
    return compose_sequential(costs) if costs else Guarantee(0.0, 0.0, Neighbours.ADD_OR_REMOVE_ONE, "row", Event("public-key"))


def aggregate(
    table: PrivateTable,
    members: np.ndarray,
    groups: tuple[Group, ...],
    contract: Contract,
    *,
    epsilon: float,
    options: AggregateOptions,
    stream: Stream,
) -> ReleasedGroups:
    """Average every group; equations (1) to (3).

    Args:
        members: position in `groups` of each row, shape (rows,); rows of no group are -1.

    Returns:
        One released group per public key, empty groups included.
    """
    total = noisy_count.exact_epsilon(epsilon)
    values, labels = _values(table, contract), label_codes(table, contract)
    order = np.argsort(members, kind="stable")
    bounds = np.searchsorted(members[order], np.arange(len(groups) + 1))
    averages = []
    for group, (start, end) in zip(groups, pairwise(bounds.tolist()), strict=True):
        rows = _Rows(values, labels, order[start:end])
        averages.append(_average(rows, group, contract, _share(group, contract, total, options), options, stream))
    return ReleasedGroups(tuple(averages))


@dataclass(frozen=True)
class _Rows:
    """Some rows of a table, column by column: a table is converted once for all groups."""

    all_values: Mapping[str, np.ndarray]
    all_labels: np.ndarray
    positions: np.ndarray

    def values(self, column: str) -> np.ndarray:
        return self.all_values[column][self.positions]

    def labels(self) -> np.ndarray:
        return self.all_labels[self.positions]


def _values(table: PrivateTable, contract: Contract) -> dict[str, np.ndarray]:
    """Codes of categories, and numbers: shape (rows,) by column."""
    return {
        name: table.codes(name) if isinstance(contract.columns[name], CategoryColumn) else table.numbers(name) for name in contract.features
    }


def _paid(group: Group, contract: Contract) -> list[str]:
    """Columns that the group's predicate leaves open."""
    return [name for name in contract.features if _known(name, group, contract) is None]


def _share(group: Group, contract: Contract, total: Fraction | None, options: AggregateOptions) -> Fraction | None:
    """Equation (1)."""
    if options.allocation == "all-columns":
        columns = len(contract.features) + 1
    else:
        columns = len(_paid(group, contract)) + (group.label is None)
    return None if total is None else total / max(columns, 1)


def _average(
    rows: _Rows, group: Group, contract: Contract, share: Fraction | None, options: AggregateOptions, stream: Stream
) -> ReleasedGroup:
    values = {name: _column(rows, name, group, contract, share, options, stream) for name in contract.features}
    label = group.label
    if label is None:
        counts = np.bincount(rows.labels(), minlength=2).tolist()
        label = noisy_count.noisy_mode(counts, epsilon=share, stream=stream)
    return ReleasedGroup(group.key, values, label)


def _known(name: str, group: Group, contract: Contract) -> float | str | None:
    """The one value of a column that the group's predicate allows; None where it allows several."""
    declared = contract.columns[name]
    if isinstance(declared, CategoryColumn):
        categories = _open_categories(name, group, contract)
        return categories[0] if len(categories) == 1 else None
    low, high = group.bounds.get(name, declared.bounds)
    return low if high - low < declared.step else None


def _open_categories(name: str, group: Group, contract: Contract) -> tuple[str, ...]:
    declared = contract.columns[name]
    return group.categories.get(name, declared.categories) if isinstance(declared, CategoryColumn) else ()


def _grid(name: str, group: Group, contract: Contract, options: AggregateOptions) -> Grid:
    declared = contract.columns[name]
    assert not isinstance(declared, CategoryColumn)
    return Grid(*group.bounds.get(name, declared.bounds), step=declared.step, origin=options.sum_origin)


def _column(
    rows: _Rows, name: str, group: Group, contract: Contract, share: Fraction | None, options: AggregateOptions, stream: Stream
) -> float | str:
    known = _known(name, group, contract)
    if known is not None:
        return known
    declared = contract.columns[name]
    if not isinstance(declared, CategoryColumn):
        return noisy_mean.noisy_mean(rows.values(name), _grid(name, group, contract, options), epsilon=share, stream=stream)
    open_categories = _open_categories(name, group, contract)
    counts = np.bincount(rows.values(name), minlength=len(declared.categories))
    open_counts = [int(counts[declared.categories.index(category)]) for category in open_categories]
    return open_categories[noisy_count.noisy_mode(open_counts, epsilon=share, stream=stream)]
