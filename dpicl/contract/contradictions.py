"""Relations that name what is not there, or that no row can keep together: found by the contract
alone, before anything is charged.

Orders and sums are linear, and some numbers within the bounds keep them, or none do, by a linear
program; whole numbers and dates are at least 1 apart where one is below the other. That some of
them may be missing is no way out. Of categories, none among them where it may be, all rows are
tried, where there are few enough kinds of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np

from dpicl.contract.base import Problems
from dpicl.contract.columns import Column
from dpicl.contract.columns.category import CategoryColumn
from dpicl.contract.columns.number import NumberColumn
from dpicl.contract.relations import Never, Order, Relation, Sum, sums_of
from dpicl.ground.errors import one_of

_MOST_ROWS = 1 << 10
"""Kinds of rows that are tried."""
_LEAST_APART = 1e-9
"""Of real numbers of which one is below the other."""


def check_relations(relations: tuple[Relation, ...], columns: dict[str, Column]) -> Problems:
    """Each is about columns that there are, and some row within the bounds keeps all of them."""
    problems = [*_each(relations, columns)]
    sums = [relation for relation in relations if isinstance(relation, Sum)]
    if not problems and len(sums) > len(sums_of(relations)):
        expected = "no total among the parts of its own sum, or of theirs"
        problems.append(("relations", "has sums that add up each other", expected))
    if not problems and (against := _contradiction(relations, columns)):
        together = " together" * (len(against) > 1)
        key = "relations" if together else f"relations.{relations.index(against[0])}"
        rule = f"cannot hold{together}: {'; '.join(map(str, against))}"
        problems.append((key, rule, f"what a row within the bounds can keep{together}"))
    yield from problems


def _each(relations: tuple[Relation, ...], columns: dict[str, Column]) -> Problems:
    """What is wrong with one of them alone."""
    for index, relation in enumerate(relations):
        key = f"relations.{index}"
        unknown = [name for name in relation.columns if name not in columns]
        if unknown:
            expected = one_of(unknown[0], columns, " of this contract")
            yield key, f"names {unknown[0]}, which is no column", expected
        elif len(set(relation.columns)) < len(relation.columns):
            (twice, *_) = (name for name in relation.columns if relation.columns.count(name) > 1)
            yield key, f"names {twice} twice", "distinct columns"
        else:
            yield from relation.problems(columns, key)
            if relation in relations[:index]:
                yield key, f"states `{relation}` again", "each relation once"
            totals = [other.total for other in relations[:index] if isinstance(other, Sum)]
            if isinstance(relation, Sum) and relation.total in totals:
                yield key, f"states {relation.total} as a sum again", "one sum for each total"


def _contradiction(relations: Sequence[Relation], columns: dict[str, Column]) -> list[Relation]:
    """A part of them that no row within the bounds keeps, and which each fewer of them leaves room
    for; empty if a row can keep all.
    """

    def can(some: Sequence[Relation]) -> bool:
        exclusions = [one for one in some if isinstance(one, Never)]
        linear = [one for one in some if not isinstance(one, Never)]
        return _categories_can(exclusions, columns) and _numbers_can(linear, columns)

    some = [*relations]
    if can(some):
        return []
    for one in relations:
        fewer = [other for other in some if other is not one]
        some = some if can(fewer) else fewer
    return some


def _numbers_can(relations: Sequence[Order | Sum], columns: dict[str, Column]) -> bool:
    if not relations:
        return True
    from scipy.optimize import linprog

    names = sorted({name for relation in relations for name in relation.columns})
    numbers = {name: one for name in names if isinstance(one := columns[name], NumberColumn)}
    ends = {name: one.bounds for name, one in numbers.items()}
    below, apart, equal, totals = [], [], [], []

    def line(parts: Sequence[str], less: str, slack: float) -> list[float]:
        """Of the parts above their lower bounds less that of another column, and the slack."""
        return [*(float(name in parts) - float(name == less) for name in names), slack]

    for relation in relations:
        if isinstance(relation, Sum):
            equal.append(line(relation.parts, relation.total, 0.0))
            low = math.fsum(ends[name][0] for name in relation.parts)
            totals.append(ends[relation.total][0] - low)
            continue
        for low_name, high_name in pairwise(relation.rising):
            is_whole = all(numbers[name].grain for name in (low_name, high_name))
            is_strict = not relation.or_equal
            below.append(line((low_name,), high_name, float(is_strict and not is_whole)))
            room = ends[high_name][0] - ends[low_name][0]
            apart.append(room - float(is_strict and is_whole))
    found = linprog(
        [*([0.0] * len(names)), -1.0],
        A_ub=np.array(below) if below else None,
        b_ub=apart or None,
        A_eq=np.array(equal) if equal else None,
        b_eq=totals or None,
        bounds=[*((0.0, ends[name][1] - ends[name][0]) for name in names), (0.0, 1.0)],
    )
    if found.status == 2:
        return False
    return found.status != 0 or float(found.x[-1]) > _LEAST_APART


def _categories_can(relations: Sequence[Never], columns: dict[str, Column]) -> bool:
    names = sorted({name for relation in relations for name in relation.columns})
    kinds: list[list[str | None]] = []
    for name in names:
        column = columns[name]
        assert isinstance(column, CategoryColumn)
        stated = {relation.never[name] for relation in relations if name in relation.never}
        has_other = column.nullable or len(stated) < len(column.categories)
        kinds.append([*stated, *([None] if has_other else [])])
    if math.prod(map(len, kinds)) > _MOST_ROWS:
        return True
    rows = (dict(zip(names, row, strict=True)) for row in product(*kinds))
    return any(
        not any(
            all(row[name] == category for name, category in relation.never.items())
            for relation in relations
        )
        for row in rows
    )
