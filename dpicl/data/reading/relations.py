"""Which private rows break a relation of their contract: of each by itself, and told to
their holder alone.

Guarantee   none spent here: a row's own affair, so that neighbours still differ in one row.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from dpicl.contract.models import Contract
from dpicl.contract.relations import Never, Order, Relation
from dpicl.ground.types import Table

_ROUNDING = 1e-9
"""Of a sum of real numbers."""


def broken(table: Table, contract: Contract) -> dict[str, np.ndarray]:
    """Of each column that may be missing, in which rows a relation that it is in is broken: shape
    (rows,). By each row alone.
    """
    found: dict[str, np.ndarray] = {}
    for relation in contract.relations:
        breaks = breaks_of(table, relation, contract)
        for name in relation.columns:
            if contract.columns[name].nullable and name in contract.features:
                found[name] = found.get(name, False) | breaks
    return found


def breaks_of(table: Table, relation: Relation, contract: Contract) -> np.ndarray:
    """Which rows break it: shape (rows,). Of a row without one of the values nothing is known."""
    if isinstance(relation, Never):
        together = np.ones(table.row_count, dtype=bool)
        for name, category in relation.never.items():
            together &= table.codes(name) == contract.listed[name].categories.index(category)
        return together
    if isinstance(relation, Order):
        rising = [table.numbers(name) for name in relation.rising]
        beyond = np.greater if relation.or_equal else np.greater_equal
        return np.any([beyond(low, high) for low, high in pairwise(rising)], axis=0)
    parts = np.sum([table.numbers(name) for name in relation.parts], axis=0)
    total = table.numbers(relation.total)
    apart = np.abs(total - parts)
    return apart > _ROUNDING * np.maximum(1.0, np.abs(total))
