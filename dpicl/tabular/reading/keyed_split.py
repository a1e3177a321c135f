"""Holding out private rows: by a keyed hash of the row, or of the person, so that nobody's place depends on anybody else.

Trust       the curator holds the key; who stands where stays secret.
Guarantee   none spent, and none lost: stability 1 (`dpicl.tabular.reading.stability`), as far as AES under a
            secret key cannot be told from a random function.

    (1)  (w, v) = h_key(content, ordinal among equal contents)       h of `multiset`
         (w, v) = h_key(content)           in folders and queries: ordinals would need all rows at once,
                                           so that equal rows stand together
    (2)  w = first word of h_key(id)       where persons are protected
    (3)  held out where w < f 2^64;   a query where v < a 2^64, of those the N lowest

Which of both lines of (1) holds is a public fact of the source, never of the number of rows: a table
that grows into batches is split as before.

Symbols     f the contract's `test_fraction`, a its `query_fraction`, N the most queries of a run.
Not covered a key that is known, or that others' rows are split by.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction

import numpy as np
import pyarrow as pa

from dpicl.contract.models import Contract
from dpicl.errors import ParameterError
from dpicl.tabular.reading.multiset import column_hashes, words_of

KEY_BYTES = 32


def is_held_out(table: pa.Table, contract: Contract, fraction: float, *, key: bytes) -> np.ndarray:
    """Equation (3): whether each row is, bool of shape (rows,)."""
    person = contract.privacy.person
    if person is None:
        words = _marks(table, contract, key)[:, 0]
    else:
        words = column_hashes([words_of(table.column(person.id_column))], key=_derived(key, b"dpicl persons"))[:, 0]
    return _below(words, fraction)


def chosen_queries(held_out: pa.Table, contract: Contract, fraction: float, most: int | None, *, key: bytes) -> np.ndarray:
    """Equation (3): positions of the held-out rows that become queries, ascending, int64; of one person at most the contract's number of rows."""
    words, person = _marks(held_out, contract, key)[:, 1], contract.privacy.person
    chosen = np.flatnonzero(_below(words, fraction))
    chosen = chosen[np.argsort(words[chosen], kind="stable")]
    if person is not None:
        chosen = chosen[_rank_within(words_of(held_out.column(person.id_column))[chosen]) < person.max_rows]
    return np.sort(chosen[:most])


def _marks(table: pa.Table, contract: Contract, key: bytes) -> np.ndarray:
    """Equation (1): shape (rows, 2), uint64."""
    columns = [words_of(table.column(name)) for name in contract.read_columns]
    key = _derived(key, b"dpicl rows")
    content = column_hashes(columns, key=key)
    in_batches = contract.source.folder is not None or contract.source.query is not None
    if in_batches and contract.privacy.person is None:
        return content
    ordinals = _rank_within(content[:, 0]).astype(np.uint64)
    return column_hashes([*columns, ordinals], key=key)


def _rank_within(kinds: np.ndarray) -> np.ndarray:
    """Of each place, how many of its kind stand before it: shape (places,), int64."""
    order = np.argsort(kinds, kind="stable")
    _, starts, counts = np.unique(kinds[order], return_index=True, return_counts=True)
    ranks = np.empty(len(kinds), dtype=np.int64)
    ranks[order] = np.arange(len(kinds)) - np.repeat(starts, counts)
    return ranks


def _below(words: np.ndarray, fraction: float) -> np.ndarray:
    exact = Fraction(str(fraction))
    return words < np.uint64(int(exact * 2**64)) if exact < 1 else np.ones(len(words), dtype=bool)


def _derived(key: bytes, purpose: bytes) -> bytes:
    """One key for each purpose. Raises ParameterError: the key has not 32 bytes."""
    if len(key) != KEY_BYTES:
        raise ParameterError("key", f"{len(key)} bytes", f"{KEY_BYTES} bytes")
    return hashlib.blake2b(key=key, person=purpose, digest_size=KEY_BYTES).digest()
