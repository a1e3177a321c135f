"""Which rows of a person enter a period of a series, given how many have entered before: bounded
across periods, by nothing but their own rows.

Trust       as the method that calls it; who has entered, and with how many rows, stays secret.
Unit        One person, known by the contract's id column.
Neighbours  both: histories in which one person's rows differ, in any periods, admit the same rows
            of everybody else (stability 1).
Guarantee   none spent. Of nobody enter more than c rows in a period and k in the horizon: what
            `continual_counts.Contribution` states.

    (1)  of the rows of a person in period t, the min(c, k - e) with the lowest  h_key(row, ordinal
         among equal rows)  enter
    (2)  e <- e + their number

A person's rows are told apart by a keyed hash and not by their place in the table: where rows are
added, the others stand as before.

Symbols     c the contract's `max_rows`, k its `max_rows_in_horizon`, e how many rows have entered
            in earlier periods.
Not covered that a row which takes another one back has one to take back: it enters as any row, if
there is room for it, whatever it says.
            Whether two ids are one human being; a row that was replaced by another after it had
            entered, which counts as two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dpicl.contract.models import Contract
from dpicl.tabular.reading.multiset import column_hashes, words_of
from dpicl.tabular.reading.ranks import rank_within
from dpicl.types import PrivateTable


@dataclass(frozen=True)
class Entered:
    """Private: how many rows of each person entered; `persons` keyed hashes of ids, rising, uint64,
    `rows` int64, both of shape (persons,).
    """

    persons: np.ndarray
    rows: np.ndarray

    @staticmethod
    def nobody() -> Entered:
        """Before the first period."""
        return Entered(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64))

    @staticmethod
    def together(parts: Iterable[Entered]) -> Entered:
        """Equation (2) over several periods."""
        all_parts = [Entered.nobody(), *parts]
        persons, places = np.unique(
            np.concatenate([one.persons for one in all_parts]), return_inverse=True
        )
        rows = np.zeros(len(persons), dtype=np.int64)
        np.add.at(rows, places, np.concatenate([one.rows for one in all_parts]))
        return Entered(persons, rows)

    def of(self, persons: np.ndarray) -> np.ndarray:
        """How many rows of these entered: shape as given, int64."""
        if not len(self.persons):
            return np.zeros(len(persons), dtype=np.int64)
        places = np.minimum(np.searchsorted(self.persons, persons), len(self.persons) - 1)
        return np.where(self.persons[places] == persons, self.rows[places], 0)


def entering_rows(
    table: PrivateTable, contract: Contract, entered: Entered, *, key: bytes
) -> tuple[np.ndarray, Entered]:
    """Equation (1) for the rows of one period: positions of those that enter, ascending, int64, and
    whose they are.

    All enter, and nobody is noted, where the contract protects rows.

    Args:
        key: 32 secret bytes, the same for the whole horizon.
    """
    person = contract.privacy.person
    if person is None:
        return np.arange(table.row_count), Entered.nobody()
    most = person.rows_in_horizon
    ids = column_hashes([words_of(table.data.column(person.id_column))], key=key)[:, 0]
    columns = [words_of(table.data.column(name)) for name in contract.read_columns]
    content = column_hashes(columns, key=key)[:, 0]
    order = column_hashes([*columns, rank_within(content)], key=key)[:, 1]
    places = np.lexsort((order, ids))
    ranks = np.empty(len(ids), dtype=np.int64)
    ranks[places] = rank_within(ids[places])
    enters = ranks < np.minimum(person.max_rows, most - entered.of(ids))
    persons, counts = np.unique(ids[enters], return_counts=True)
    return np.flatnonzero(enters), Entered(persons, counts.astype(np.int64))
