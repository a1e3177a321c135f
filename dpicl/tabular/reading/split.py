"""Splitting a table into demonstrations (private) and queries, once for every run.

Trust       the curator holds the key; who stands where stays secret.
Guarantee   none spent, and of what is no benchmark none lost: stability 1
            (`dpicl.tabular.reading.stability`), as far as AES under a secret key cannot be told
            from a random function.

On a benchmark the random split is seeded by a constant, not by the run: every cell of a table of
results answers the same queries, and Table VI of the paper follows from the fractions, rounded
down. A permutation moves other rows where one is added, so on any other table rows go by a keyed
hash of the row, or of the person, so that nobody's place depends on anybody else:

    (1)  (w, v) = h_key(content, ordinal among equal contents)       h of `multiset`
         (w, v) = h_key(content)           in folders and queries: ordinals would need all rows at
                                           once, so that equal rows stand together
    (2)  w = first word of h_key(id)       where persons are protected: a person stands on one side
         with all their rows
    (3)  held out where w < f 2^64;   a query where v < a 2^64, of those the N lowest

Which of both lines of (1) holds is a public fact of the source, never of the number of rows: a
table that grows into batches is split as before.

Symbols     f the contract's `test_fraction`, a its `query_fraction`, N the most queries of a run.
Not covered a key that is known, or that others' rows are split by.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction

import numpy as np
import pyarrow as pa

from dpicl.contract.models import Contract
from dpicl.errors import DataError, ParameterError, PrivacyError
from dpicl.randomness import stream
from dpicl.tabular.reading.multiset import column_hashes, words_of
from dpicl.tabular.reading.ranks import rank_within
from dpicl.types import PrivateTable, QueryTable, SplitTable, Table

__all__ = [
    "SplitTable",
    "check_sizes",
    "fewer",
    "held_out_queries",
    "holds_out",
    "lowest",
    "public_queries",
    "split_table",
]
_SPLIT_SEED = 0
_KEY_BYTES = 32


def split_table(
    table: pa.Table,
    contract: Contract,
    *,
    key: bytes | None = None,
    most: int | None = None,
    queries: pa.Table | None = None,
) -> SplitTable:
    """Split the rows as the contract says; of a table with something at stake, held-out rows are
    kept only where measuring on them is charged.
    Raises DataError: of a benchmark nothing would be left to protect, or to ask; PrivacyError:
    there is no key, and the table is no benchmark.

    Args:
        key: 32 secret bytes, the same for every run; without use on a benchmark.
        most: at most so many rows become queries.
        queries: the public rows of the contract's `queries`, of shape (queries, columns).
    """
    rng = stream(_SPLIT_SEED, "split", contract.name, "").generator()
    train, test = _sides(table, contract, key, rng)
    private = PrivateTable(table if contract.split is None else table.take(train))
    if contract.privacy.budget.benchmark and contract.split is not None:
        positions = np.sort(
            rng.permutation(len(test))[
                : int(len(test) * Fraction(str(contract.split.query_fraction)))
            ]
        )
        check_sizes(contract, len(train), len(positions))
        return SplitTable(
            private,
            QueryTable(table.select(list(contract.columns)).take(test)),
            fewer(positions, most, contract.name),
        )
    if contract.evaluation == "charged":
        held_out = table.take(test)
        positions = held_out_queries(held_out, contract, key=key, most=most)
        return SplitTable(private, QueryTable(held_out.select(list(contract.columns))), positions)
    public = public_queries(table, contract, queries)
    return SplitTable(private, public, fewer(np.arange(public.row_count), most, contract.name))


def public_queries(table: pa.Table, contract: Contract, queries: pa.Table | None) -> QueryTable:
    """The rows of the contract's `queries`; none where it has none, typed as the table's are."""
    return QueryTable(
        table.slice(0, 0).select(list(contract.columns)) if queries is None else queries
    )


def held_out_queries(
    held_out: pa.Table, contract: Contract, *, key: bytes | None, most: int | None
) -> np.ndarray:
    """Equation (3): positions of the held-out private rows that become queries, at most so many,
    ascending, int64.

    Of one person at most the contract's number of rows. Raises PrivacyError: there is no key.
    """
    words, person = _marks(held_out, contract, key)[:, 1], contract.privacy.person
    chosen = np.flatnonzero(lowest(words, contract.split.query_fraction if contract.split else 0.0))
    chosen = chosen[np.argsort(words[chosen], kind="stable")]
    if person is not None:
        chosen = chosen[
            rank_within(words_of(held_out.column(person.id_column))[chosen]) < person.max_rows
        ]
    return np.sort(chosen[:most])


def holds_out(table: pa.Table, contract: Contract, *, key: bytes | None) -> np.ndarray:
    """Equation (3): whether each private row is held out at random, bool of shape (rows,); none
    where the contract has no such split. Raises PrivacyError: it has one, and there is no key.
    """
    fraction, person = (
        contract.split.test_fraction if contract.split else None,
        contract.privacy.person,
    )
    if fraction is None:
        return np.zeros(table.num_rows, dtype=bool)
    if person is None:
        return lowest(_marks(table, contract, key)[:, 0], fraction)
    of_persons = _derived(key, b"dpicl persons", contract)
    return lowest(
        column_hashes([words_of(table.column(person.id_column))], key=of_persons)[:, 0], fraction
    )


def lowest(words: np.ndarray, fraction: float) -> np.ndarray:
    """Whether each word is below this fraction of all that there can be: bool of shape (words,)."""
    exact = Fraction(str(fraction))
    return words < np.uint64(int(exact * 2**64)) if exact < 1 else np.ones(len(words), dtype=bool)


def _marks(table: pa.Table, contract: Contract, key: bytes | None) -> np.ndarray:
    """Equation (1): shape (rows, 2), uint64."""
    columns, of_rows = (
        [words_of(table.column(name)) for name in contract.read_columns],
        _derived(key, b"dpicl rows", contract),
    )
    content = column_hashes(columns, key=of_rows)
    in_batches = contract.source.folder is not None or contract.source.query is not None
    if in_batches and contract.privacy.person is None:
        return content
    return column_hashes([*columns, rank_within(content[:, 0])], key=of_rows)


def _derived(key: bytes | None, purpose: bytes, contract: Contract) -> bytes:
    """One key for each purpose. Raises PrivacyError: there is none; ParameterError: it has not 32
    bytes.
    """
    if key is None:
        raise PrivacyError(
            f"{contract.name}: a split that others do not know needs a key; expected `key`, 32 "
            f"secret bytes"
        )
    if len(key) != _KEY_BYTES:
        raise ParameterError("key", f"{len(key)} bytes", f"{_KEY_BYTES} bytes")
    return hashlib.blake2b(key=key, person=purpose, digest_size=_KEY_BYTES).digest()


def check_sizes(contract: Contract, train_rows: int, query_rows: int) -> None:
    """Of a benchmark, whose counts are public, something is left to protect and to ask. Raises
    DataError: there is nothing.
    """
    if contract.privacy.budget.benchmark and not (train_rows and query_rows):
        raise DataError(
            contract.name,
            f"the split leaves {train_rows} rows to protect and {query_rows} to ask, needs at "
            f"least one of each",
        )


def fewer(positions: np.ndarray, most: int | None, dataset: str) -> np.ndarray:
    """At most so many of the positions of public queries, ascending; the same ones in every run."""
    if most is None or len(positions) <= most:
        return positions
    return np.sort(
        stream(_SPLIT_SEED, "queries", dataset, "").generator().permutation(positions)[:most]
    )


def _sides(
    table: pa.Table, contract: Contract, key: bytes | None, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the rows to protect and of the held-out ones, ascending.
    Who has rows on both sides of a split by column is on neither, or refused with a DataError: as
    the contract says of what breaks it by itself.
    """
    split, person = contract.split, contract.privacy.person
    ids = table.column(person.id_column).to_numpy() if person else None
    if split is not None and split.column is not None:
        train, test = (np.flatnonzero(side) for side in sides_by_column(table, contract))
        on_both = np.empty(0) if ids is None else np.intersect1d(ids[train], ids[test])
        if ids is not None and contract.leaves_out:
            return train[~np.isin(ids[train], on_both)], test[~np.isin(ids[test], on_both)]
        if len(on_both):
            raise DataError(
                contract.name,
                "persons have rows in both parts of the split; expected each in one",
                count=len(on_both),
            )
        return train, test
    if split is None or not contract.privacy.budget.benchmark:
        held_out = holds_out(table, contract, key=key)
    elif ids is not None:
        held_out = lowest(ids.view(np.uint64), split.test_fraction or 0.0)
    else:
        order = rng.permutation(table.num_rows)
        held_out = np.zeros(table.num_rows, dtype=bool)
        held_out[order[int(table.num_rows * (1 - Fraction(str(split.test_fraction)))) :]] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def sides_by_column(table: pa.Table, contract: Contract) -> tuple[np.ndarray, np.ndarray]:
    """Whether each row is to protect, and whether it is held out, by the column of the contract's
    split: bool of shape (rows,).
    """
    assert contract.split is not None
    column = str(contract.split.column)
    codes = Table(table).codes(column)
    train, test = (
        codes == contract.listed[column].categories.index(str(part))
        for part in (contract.split.train, contract.split.test)
    )
    return train, test
