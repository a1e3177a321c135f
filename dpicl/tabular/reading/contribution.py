"""How many rows of one person enter a release: bounded by chance within the person, before all
else.

Trust       as the method that calls it; which rows were drawn stays secret.
Unit        One person, known by the contract's id column.
Neighbours  both: a person's rows are drawn by that person's own randomness, so that adding,
            removing or replacing a person changes no other person's rows.
Guarantee   none spent. At most m rows of anybody are used, which `accounting.guarantee.to_person`
            prices; with replacement-one of local reports, exactly m, so that their number tells
            nothing.
Paper       [AKMV19] Amin, Kulesza, Munoz and Vassilvitskii 2019: bounding user contributions.

    (1)  contributing   a uniform subset of min(n, m) of the person's n rows
    (2)  reporting      m rows in a uniform order, starting over where n < m

Symbols     n rows of a person, m the contract's `person.max_rows`.
Not covered whether two ids are one human being.
"""

from __future__ import annotations

import numpy as np

from dpicl.contract.models import Contract
from dpicl.randomness import Draws
from dpicl.types import PrivateTable


def contributing_rows(train: PrivateTable, contract: Contract, draws: Draws) -> np.ndarray:
    """Equation (1): positions of the rows that may enter a central release, ascending, int64; all
    where the contract protects rows.
    """
    person = contract.privacy.person
    if person is None:
        return np.arange(train.row_count)
    order, starts, counts = _shuffled(train, person.id_column, draws)
    rank = np.arange(len(order)) - np.repeat(starts, counts)
    return np.sort(order[rank < person.max_rows])


def reporting_rows(train: PrivateTable, contract: Contract, draws: Draws) -> np.ndarray:
    """Equation (2): positions of the rows that clients report, int64, m per person; every row once
    where the contract protects rows.
    """
    person = contract.privacy.person
    if person is None:
        return np.arange(train.row_count)
    order, starts, counts = _shuffled(train, person.id_column, draws)
    turns = np.arange(person.max_rows) % counts[:, np.newaxis]
    return order[(starts[:, np.newaxis] + turns).ravel()]


def _shuffled(
    train: PrivateTable, id_column: str, draws: Draws
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows person by person, each person's in a uniform order; where a person starts, and their
    number of rows.
    """
    persons = train.numbers(id_column)
    order = np.lexsort((draws.secret("contribution", "").words(len(persons), np.uint64), persons))
    _, starts, counts = np.unique(persons[order], return_index=True, return_counts=True)
    return order, starts, counts
