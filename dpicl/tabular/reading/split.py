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
from dpicl.contract.sources import Split
from dpicl.errors import DataError, PrivacyError
from dpicl.randomness import stream
from dpicl.tabular.reading.keyed_split import asked_rows, is_held_out
from dpicl.types import PrivateTable, QueryTable, SplitTable

__all__ = ["SplitTable", "asked_of", "check_sizes", "fewer", "holds_out", "public_queries", "split_table"]
_SPLIT_SEED = 0


def split_table(
    table: pa.Table, contract: Contract, *, key: bytes | None = None, most: int | None = None, queries: pa.Table | None = None
) -> SplitTable:
    """Split the rows as the contract says; of a table with something at stake, held-out rows are kept only where measuring on them is charged.

    Args:
        key: 32 secret bytes, the same for every run; without use on a benchmark.
        most: at most so many rows are asked.
        queries: the public rows of the contract's `queries`, of shape (queries, columns).

    Raises:
        DataError: nothing would be left to protect; of a benchmark also if nothing is left to ask.
        PrivacyError: there is no key, and the table is no benchmark.
    """
    if contract.privacy.budget.benchmark:
        return _seeded(table, contract, most)
    train, test = _keyed_sides(table, contract, key)
    check_sizes(contract, len(train), 0)
    if contract.evaluation == "charged":
        held_out = table.take(test)
        asked = asked_of(held_out, contract, key=key, most=most)
        return SplitTable(PrivateTable(table.take(train)), QueryTable(held_out.select(list(contract.columns))), asked)
    public = public_queries(table, contract, queries)
    return SplitTable(PrivateTable(table.take(train)), public, fewer(np.arange(public.row_count), most, contract.name))


def public_queries(table: pa.Table, contract: Contract, queries: pa.Table | None) -> QueryTable:
    """The rows of the contract's `queries`; none where it has none, typed as the table's are."""
    return QueryTable(table.slice(0, 0).select(list(contract.columns)) if queries is None else queries)


def asked_of(held_out: pa.Table, contract: Contract, *, key: bytes | None, most: int | None) -> np.ndarray:
    """Positions of the held-out private rows that are asked, at most so many, ascending.

    Raises:
        PrivacyError: there is no key.
    """
    fraction = contract.split.query_fraction if contract.split else 0.0
    return asked_rows(held_out, contract, fraction, most, key=_key_of(contract, key))


def holds_out(table: pa.Table, contract: Contract, *, key: bytes | None) -> np.ndarray:
    """Whether each private row is held out at random: bool of shape (rows,); none of them where the contract has no such split.

    Raises:
        PrivacyError: it has one, and there is no key.
    """
    fraction = contract.split.test_fraction if contract.split else None
    if fraction is None:
        return np.zeros(table.num_rows, dtype=bool)
    return is_held_out(table, contract, fraction, key=_key_of(contract, key))


def _key_of(contract: Contract, key: bytes | None) -> bytes:
    if key is None:
        raise PrivacyError(f"{contract.name}: a split that others do not know needs a key; expected `key`, 32 secret bytes")
    return key


def check_sizes(contract: Contract, train_rows: int, asked_rows: int) -> None:
    """Something is left to protect; on a benchmark, whose counts may be told, something to ask too.

    Raises:
        DataError: there is nothing.
    """
    seeded = contract.privacy.budget.benchmark
    if not train_rows and not seeded:
        raise DataError(contract.name, "the split leaves no row to protect; expected more rows, or another split")
    if seeded and not (train_rows and asked_rows):
        told = f"the split leaves {train_rows} rows to protect and {asked_rows} to ask, needs at least one of each"
        raise DataError(contract.name, told)


def fewer(asked: np.ndarray, most: int | None, dataset: str) -> np.ndarray:
    """At most so many of the positions of public rows that are asked, ascending; the same ones in every run."""
    if most is None or len(asked) <= most:
        return asked
    return np.sort(stream(_SPLIT_SEED, "queries", dataset, "").generator().permutation(asked)[:most])


def _seeded(table: pa.Table, contract: Contract, most: int | None) -> SplitTable:
    """Of a benchmark."""
    rng = stream(_SPLIT_SEED, "split", contract.name, "").generator()
    assert contract.split is not None
    train, test = _seeded_sides(table, contract, contract.split, rng)
    asked = np.sort(rng.permutation(len(test))[: int(len(test) * Fraction(str(contract.split.query_fraction)))])
    check_sizes(contract, len(train), len(asked))
    held_out = QueryTable(table.select(list(contract.columns)).take(test))
    return SplitTable(PrivateTable(table.take(train)), held_out, fewer(asked, most, contract.name))


def _seeded_sides(table: pa.Table, contract: Contract, split: Split, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    if split.column is not None:
        return _published_sides(table, contract, split)
    if contract.privacy.person:
        ids = table.column(contract.privacy.person.id_column).to_numpy()
        asked = ids.view(np.uint64) < np.uint64(int(Fraction(str(split.test_fraction)) * 2**64))
        return np.flatnonzero(~asked), np.flatnonzero(asked)
    order = rng.permutation(table.num_rows)
    train_count = int(table.num_rows * (1 - Fraction(str(split.test_fraction))))
    return np.sort(order[:train_count]), np.sort(order[train_count:])


def _keyed_sides(table: pa.Table, contract: Contract, key: bytes | None) -> tuple[np.ndarray, np.ndarray]:
    """Of any other table."""
    if contract.split is not None and contract.split.column is not None:
        return _published_sides(table, contract, contract.split)
    held_out = holds_out(table, contract, key=key)
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def _published_sides(table: pa.Table, contract: Contract, split: Split) -> tuple[np.ndarray, np.ndarray]:
    """By a column of the rows' own.

    Raises:
        DataError: somebody has rows on both sides.
    """
    person = contract.privacy.person
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
