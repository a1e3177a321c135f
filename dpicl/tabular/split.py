"""Parting a table into demonstrations (private) and queries (public), once for every run.

The random split is seeded by a constant, not by the run: every cell of a table of results
answers the same queries. Table VI of the paper follows from the fractions, rounded down.
Where persons are protected, a person stands in one part with all their rows: a random split
goes by the hash of their id, so that nobody's place depends on anybody else.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa

from dpicl.contract.models import CategoryColumn, Contract
from dpicl.errors import DataError
from dpicl.randomness import stream
from dpicl.types import PrivateTable, QueryTable, SplitTable

__all__ = ["SplitTable", "fewer", "split_table"]
_SPLIT_SEED = 0


def split_table(table: pa.Table, contract: Contract) -> SplitTable:
    """Part the rows as the contract says.

    Raises:
        DataError: a part would be empty.
    """
    rng = stream(_SPLIT_SEED, "split", contract.name, "").generator()
    train, test = _parts(table, contract, rng)
    asked_count = int(len(test) * Fraction(str(contract.split.query_fraction)))
    if not len(train) or not asked_count:
        raise DataError(
            contract.name, f"the split leaves {len(train)} rows to protect and {asked_count} to ask, needs at least one of each"
        )
    asked = np.sort(rng.permutation(len(test))[:asked_count])
    return SplitTable(PrivateTable(table.take(train)), QueryTable(table.select(list(contract.columns)).take(test)), asked)


def fewer(asked: np.ndarray, most: int | None, dataset: str) -> np.ndarray:
    """At most so many of the positions that are asked, ascending; the same ones in every run."""
    if most is None or len(asked) <= most:
        return asked
    return np.sort(stream(_SPLIT_SEED, "queries", dataset, "").generator().permutation(asked)[:most])


def _parts(table: pa.Table, contract: Contract, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    split, person = contract.split, contract.privacy.person
    if person:
        return _person_parts(table, contract, table.column(person.id_column).to_numpy())
    if split.column is None:
        order = rng.permutation(table.num_rows)
        train_count = int(table.num_rows * (1 - Fraction(str(split.test_fraction))))
        return np.sort(order[:train_count]), np.sort(order[train_count:])
    return _published_parts(table, contract)


def _published_parts(table: pa.Table, contract: Contract) -> tuple[np.ndarray, np.ndarray]:
    split = contract.split
    declared = contract.columns[str(split.column)]
    assert isinstance(declared, CategoryColumn)
    codes = np.asarray(table.column(str(split.column)).combine_chunks().indices)
    return tuple(np.flatnonzero(codes == declared.categories.index(str(part))) for part in (split.train, split.test))  # type: ignore[return-value]


def _person_parts(table: pa.Table, contract: Contract, persons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Raises a DataError if a published split parts somebody's rows."""
    if contract.split.column is None:
        asked = persons.view(np.uint64) < np.uint64(int(Fraction(str(contract.split.test_fraction)) * 2**64))
        return np.flatnonzero(~asked), np.flatnonzero(asked)
    train, test = _published_parts(table, contract)
    parted = len(np.intersect1d(persons[train], persons[test]))
    if parted:
        raise DataError(contract.name, "persons have rows in both parts of the split; expected each in one", count=parted)
    return train, test
