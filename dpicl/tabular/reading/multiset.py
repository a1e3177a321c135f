"""A digest of rows that adds up: the same for any order of the rows and however they are cut into parts.

A row's hash is a parallel MAC of its values under a public key; hashes are added up in two lanes of 64 bits. Equal multisets of rows have
equal sums, others differ but by an accident of 2^-128. The key is public, so the digest is private as the rows are, and whoever chooses the
rows can find two tables that have the same.

    (1)  h(row) = E(E(1, x_1) xor ... xor E(d, x_d)),    E is AES-256 on (column number, value)
    (2)  digest = sum h(row) mod 2^64, in both lanes
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from dpicl.contract.columns import CategoryColumn
from dpicl.contract.models import Contract
from dpicl.types import NO_NUMBER

_KEY = hashlib.sha256(b"dpicl rows, version 1").digest()
_ROWS_PER_BLOCK = 1 << 12
"""What is encrypted for so many rows stays in the processor's cache."""


def row_hashes(table: pa.Table, contract: Contract) -> np.ndarray:
    """Equation (1): shape (rows, 2), uint64, of a table as `parse.typed_table` types it."""
    return column_hashes([words_of(table.column(name)) for name in contract.columns], key=_KEY)


def column_hashes(columns: Sequence[np.ndarray], *, key: bytes) -> np.ndarray:
    """Equation (1) of rows whose values are these words, one column of uint64 or more, under a key of 32 bytes: shape (rows, 2)."""
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - of numbered blocks, as equation (1) has it
    rows = len(columns[0])
    hashes = np.empty((rows, 2), dtype=np.uint64)
    for start in range(0, rows, _ROWS_PER_BLOCK):
        stop = min(start + _ROWS_PER_BLOCK, rows)
        cells = np.empty((len(columns), stop - start, 2), dtype=np.uint64)
        for number, values in enumerate(columns):
            cells[number, :, 0], cells[number, :, 1] = number + 1, values[start:stop]
        mixed = np.bitwise_xor.reduce(_encrypted(cells, encryptor), axis=0)
        hashes[start:stop] = _encrypted(mixed, encryptor)
    return hashes


def _encrypted(blocks: np.ndarray, encryptor: CipherContext) -> np.ndarray:
    """Every pair of words as one block of the cipher: of the same shape."""
    return np.frombuffer(encryptor.update(blocks.tobytes()), np.uint64).reshape(blocks.shape)


def added(hashes: np.ndarray) -> np.ndarray:
    """Equation (2): shape (2,), uint64; sums of parts are added by it again."""
    return np.asarray(hashes.sum(axis=0, dtype=np.uint64))


def table_digest(tables: Iterable[pa.Table], contract: Contract) -> tuple[str, int]:
    """Of all rows of a table, whole or in batches: 64 hexadecimal digits, and how many rows there are."""
    total, rows = np.zeros(2, dtype=np.uint64), 0
    for table in tables:
        total, rows = total + added(row_hashes(table, contract)), rows + table.num_rows
    return multiset_digest(total, rows, contract), rows


def multiset_digest(total: np.ndarray, rows: int, contract: Contract) -> str:
    """SHA-256 of equation (2), the number of rows and what the columns are: 64 hexadecimal digits."""
    header = [[name, column.categories if isinstance(column, CategoryColumn) else column.type] for name, column in contract.columns.items()]
    return hashlib.sha256(json.dumps([2, rows, header, total.tolist()]).encode()).hexdigest()


def words_of(column: pa.ChunkedArray) -> np.ndarray:
    """Numbers or codes as 64 bits each: shape (rows,), uint64."""
    values = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    values = values.indices if pa.types.is_dictionary(values.type) else values
    if values.null_count and pa.types.is_integer(values.type):  # a word of its own, whatever the other rows hold
        values = values.cast(pa.int64()).fill_null(NO_NUMBER)
    numbers = np.asarray(values)
    return numbers.view(np.uint64) if numbers.dtype == np.float64 else numbers.astype(np.int64).view(np.uint64)
