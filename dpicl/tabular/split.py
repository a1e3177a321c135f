"""Splitting a table into demonstrations (private) and queries, once for every run.

On a benchmark the random split is seeded by a constant, not by the run: every cell of a table of
results answers the same queries, and Table VI of the paper follows from the fractions, rounded
down. A permutation moves other rows where one is added, so on any other table rows go by a keyed
hash (`keyed_split`). Where persons are protected, a person stands on one side with all their rows.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa

from dpicl.contract.models import CategoryColumn, Contract
from dpicl.errors import DataError, PrivacyError
from dpicl.randomness import stream
from dpicl.tabular.keyed_split import asked_rows, is_held_out
from dpicl.types import PrivateTable, QueryTable, SplitTable

__all__ = ["SplitTable", "fewer", "key_of", "split_table"]
_SPLIT_SEED = 0


def split_table(table: pa.Table, contract: Contract, *, key: bytes | None = None, most: int | None = None) -> SplitTable:
    """Split the rows as the contract says.

    Args:
        key: 32 secret bytes, the same for every run; without use on a benchmark.
        most: at most so many rows are asked.

    Raises:
        DataError: nothing would be left to protect, or to ask.
        PrivacyError: there is no key, and the table is no benchmark.
    """
    rng = stream(_SPLIT_SEED, "split", contract.name, "").generator()
    seeded = contract.privacy.budget.benchmark
    train, test = _parts(table, contract, rng) if seeded else _keyed_parts(table, contract, key_of(contract, key))
    held_out = table.take(test)
    if seeded:
        count = int(len(test) * Fraction(str(contract.split.query_fraction)))
        asked = fewer(np.sort(rng.permutation(len(test))[:count]), most, contract.name)
    else:
        asked = asked_rows(held_out, contract, contract.split.query_fraction, most, key=key_of(contract, key))
    check_sizes(contract, len(train), len(asked))
    return SplitTable(PrivateTable(table.take(train)), QueryTable(held_out.select(list(contract.columns))), asked)


def key_of(contract: Contract, key: bytes | None) -> bytes:
    """The key that rows of a table with something at stake are split by.

    Raises:
        PrivacyError: there is none.
    """
    if key is None:
        raise PrivacyError(f"{contract.name}: a split that others do not know needs a key; expected `key`, 32 secret bytes")
    return key


def check_sizes(contract: Contract, train_rows: int, asked_rows: int) -> None:
    """Something is left to protect and to ask; how much is told of benchmarks only.

    Raises:
        DataError: one of both is empty.
    """
    if train_rows and asked_rows:
        return
    if contract.privacy.budget.benchmark:
        told = f"the split leaves {train_rows} rows to protect and {asked_rows} to ask, needs at least one of each"
        raise DataError(contract.name, told)
    raise DataError(contract.name, f"the split leaves no row to {'ask' if train_rows else 'protect'}; expected more rows, or another split")


def fewer(asked: np.ndarray, most: int | None, dataset: str) -> np.ndarray:
    """At most so many of the positions of public rows that are asked, ascending; the same ones in every run."""
    if most is None or len(asked) <= most:
        return asked
    return np.sort(stream(_SPLIT_SEED, "queries", dataset, "").generator().permutation(asked)[:most])


def _parts(table: pa.Table, contract: Contract, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Of a benchmark."""
    split, person = contract.split, contract.privacy.person
    if split.column is not None:
        return _published_parts(table, contract)
    if person:
        ids = table.column(person.id_column).to_numpy()
        asked = ids.view(np.uint64) < np.uint64(int(Fraction(str(split.test_fraction)) * 2**64))
        return np.flatnonzero(~asked), np.flatnonzero(asked)
    order = rng.permutation(table.num_rows)
    train_count = int(table.num_rows * (1 - Fraction(str(split.test_fraction))))
    return np.sort(order[:train_count]), np.sort(order[train_count:])


def _keyed_parts(table: pa.Table, contract: Contract, key: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Of any other table."""
    if contract.split.test_fraction is None:
        return _published_parts(table, contract)
    held_out = is_held_out(table, contract, contract.split.test_fraction, key=key)
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def _published_parts(table: pa.Table, contract: Contract) -> tuple[np.ndarray, np.ndarray]:
    """By a column of the rows' own.

    Raises:
        DataError: somebody has rows on both sides.
    """
    split, person = contract.split, contract.privacy.person
    declared = contract.columns[str(split.column)]
    assert isinstance(declared, CategoryColumn)
    codes = np.asarray(table.column(str(split.column)).combine_chunks().indices)
    train, test = (np.flatnonzero(codes == declared.categories.index(str(part))) for part in (split.train, split.test))
    if person:
        ids = table.column(person.id_column).to_numpy()
        parted = len(np.intersect1d(ids[train], ids[test]))
        if parted:
            raise DataError(contract.name, "persons have rows in both parts of the split; expected each in one", count=parted)
    return train, test
