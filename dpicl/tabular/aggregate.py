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

from collections import defaultdict
from collections.abc import Sequence
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
    order = np.argsort(members, kind="stable")
    bounds = np.searchsorted(members[order], np.arange(len(groups) + 1)).tolist()
    total = noisy_count.exact_epsilon(epsilon)
    parts = [
        _Part(group, _share(group, contract, total, options), order[start:end])
        for group, (start, end) in zip(groups, pairwise(bounds), strict=True)
    ]
    columns = {name: _column(table, name, parts, contract, options, stream) for name in contract.features}
    labels = _labels(label_codes(table, contract), parts, stream)
    averages = [{name: column[i] for name, column in columns.items()} for i in range(len(parts))]
    return ReleasedGroups(
        tuple(ReleasedGroup(part.group.key, values, label) for part, values, label in zip(parts, averages, labels, strict=True))
    )


@dataclass(frozen=True)
class _Part:
    """A group, what each of its columns is paid, and where its rows are."""

    group: Group
    share: Fraction | None
    positions: np.ndarray


_Codes = tuple[int, ...]
"""The categories that a group's predicate leaves open, as numbers."""


def _column(
    table: PrivateTable, name: str, parts: Sequence[_Part], contract: Contract, options: AggregateOptions, stream: Stream
) -> list[float | str]:
    """Equations (2) and (3), or what is known."""
    known, declared = [_known(name, part.group, contract) for part in parts], contract.columns[name]
    if not isinstance(declared, CategoryColumn):
        grids = [_grid(name, part.group, contract, options) if value is None else None for value, part in zip(known, parts, strict=True)]
        means = _averages(table.numbers(name), grids, parts, stream)
        return [means[i] if value is None else value for i, value in enumerate(known)]
    categories = declared.categories
    open_codes = [
        tuple(map(categories.index, _open_categories(name, part.group, contract))) if value is None else None
        for value, part in zip(known, parts, strict=True)
    ]
    modes = _averages(table.codes(name), open_codes, parts, stream)
    return [categories[int(modes[i])] if value is None else value for i, value in enumerate(known)]


def _labels(codes: np.ndarray, parts: Sequence[_Part], stream: Stream) -> list[int]:
    modes = _averages(codes, [(0, 1) if part.group.label is None else None for part in parts], parts, stream)
    return [int(modes[i]) if part.group.label is None else part.group.label for i, part in enumerate(parts)]


def _averages(values: np.ndarray, ways: Sequence[Grid | _Codes | None], parts: Sequence[_Part], stream: Stream) -> dict[int, float | int]:
    """The noisy mean or mode of every part that has a way to it; parts that are treated alike draw their noise together."""
    alike: dict[tuple[Grid | _Codes, Fraction | None], list[int]] = defaultdict(list)
    for i, way in enumerate(ways):
        if way is not None:
            alike[way, parts[i].share].append(i)
    averaged: dict[int, float | int] = {}
    for (way, share), places in alike.items():
        inside = [values[parts[i].positions] for i in places]
        averaged |= zip(places, _drawn(inside, way, share, stream), strict=True)
    return averaged


def _drawn(groups: Sequence[np.ndarray], way: Grid | _Codes, share: Fraction | None, stream: Stream) -> Sequence[float | int]:
    if isinstance(way, Grid):
        return noisy_mean.noisy_means(groups, way, epsilon=share, stream=stream)
    histograms = [np.bincount(codes, minlength=max(way) + 1)[list(way)].tolist() for codes in groups]
    return [way[mode] for mode in noisy_count.noisy_modes(histograms, epsilon=share, stream=stream)]


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
