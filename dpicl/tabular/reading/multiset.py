"""A digest of rows that adds up: the same for any order of the rows and however they are cut into
parts.

A row's hash is a parallel MAC of its values under a public key; hashes are added up in two lanes of
64 bits. Equal multisets of rows have equal sums, others differ but by an accident of 2^-128. The
key is public, so the digest is private as the rows are, and whoever chooses the rows can find two
tables that have the same.

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

from dpicl.contract.models import Contract
from dpicl.types import NO_NUMBER

_KEY = hashlib.sha256(b"dpicl rows, version 1").digest()
_ROWS_PER_BLOCK = 1 << 12
"""What is encrypted for so many rows stays in the processor's cache."""
_LONGEST_LIST = 1 << 16
"""Most words of a column that are encrypted once each and then looked up, for rows of four times as
many.
"""


def row_hashes(table: pa.Table, contract: Contract) -> np.ndarray:
    """Equation (1): shape (rows, 2), uint64, of a table as `parse.typed_table` types it."""
    return column_hashes([words_of(table.column(name)) for name in contract.columns], key=_KEY)


def column_hashes(columns: Sequence[np.ndarray], *, key: bytes) -> np.ndarray:
    """Equation (1) of rows whose values are these words, one column or more as `words_of` gives
    them, under a key of 32 bytes: shape (rows, 2).
    """
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - of numbered blocks, as equation (1) has it
    rows = len(columns[0])
    hashes, cells = (
        np.zeros((rows, 2), dtype=np.uint64),
        np.empty((_ROWS_PER_BLOCK, 2), dtype=np.uint64),
    )
    listed = [_listed(number, values, encryptor) for number, values in enumerate(columns, 1)]
    for start in range(0, rows, _ROWS_PER_BLOCK):
        mixed = hashes[start : start + _ROWS_PER_BLOCK]
        for number, (values, (low, known)) in enumerate(zip(columns, listed, strict=True), 1):
            words = values[start : start + _ROWS_PER_BLOCK]
            if known is None:
                mixed ^= _encrypted_words(number, words, cells[: len(words)], encryptor)
            else:
                mixed ^= known.take(
                    words.astype(np.int64) - low, axis=0, out=cells[: len(words)], mode="clip"
                )
        mixed[:] = _encrypted(mixed, encryptor)
    return hashes


def _listed(
    number: int, values: np.ndarray, encryptor: CipherContext
) -> tuple[int, np.ndarray | None]:
    """The lowest word of a column and E of each from there to the highest, shape (words, 2); None
    where these are not few beside its rows.
    """
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if values.dtype == np.uint64 or high - low >= min(_LONGEST_LIST, len(values) // 4):
        return 0, None
    words = np.arange(high - low + 1) + np.int64(low)  # high + 1 might be no such number
    return low, _encrypted_words(
        number, words, np.empty((len(words), 2), dtype=np.uint64), encryptor
    )


def _encrypted_words(
    number: int, words: np.ndarray, cells: np.ndarray, encryptor: CipherContext
) -> np.ndarray:
    """E of (column number, word) for each word, shape (words, 2); `cells` are overwritten."""
    cells[:, 0], cells[:, 1] = number, words
    return _encrypted(cells, encryptor)


def _encrypted(blocks: np.ndarray, encryptor: CipherContext) -> np.ndarray:
    """Every pair of words as one block of the cipher: of the same shape."""
    return np.frombuffer(
        encryptor.update(blocks.reshape(-1).view(np.uint8).data), np.uint64
    ).reshape(blocks.shape)


def added(hashes: np.ndarray) -> np.ndarray:
    """Equation (2): shape (2,), uint64; sums of parts are added by it again."""
    return np.asarray(hashes.sum(axis=0, dtype=np.uint64))


def table_digest(tables: Iterable[pa.Table], contract: Contract) -> tuple[str, int]:
    """Of all rows of a table, whole or in batches: 64 hexadecimal digits, and how many rows there
    are.
    """
    total, rows = np.zeros(2, dtype=np.uint64), 0
    for table in tables:
        total, rows = total + added(row_hashes(table, contract)), rows + table.num_rows
    return multiset_digest(total, rows, contract), rows


def multiset_digest(total: np.ndarray, rows: int, contract: Contract) -> str:
    """SHA-256 of equation (2), the number of rows and what the columns are: 64 hexadecimal
    digits.
    """
    header = [
        [name, contract.listed[name].categories if name in contract.listed else column.type]
        for name, column in contract.columns.items()
    ]
    return hashlib.sha256(json.dumps([2, rows, header, total.tolist()]).encode()).hexdigest()


def words_of(column: pa.ChunkedArray) -> np.ndarray:
    """Whole numbers or codes in the type they have, real numbers as the 64 bits of each: shape
    (rows,).
    """
    values = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    values = values.indices if pa.types.is_dictionary(values.type) else values
    # a word of its own, whatever the other rows hold
    if values.null_count and pa.types.is_integer(values.type):
        values = values.cast(pa.int64()).fill_null(NO_NUMBER)
    numbers = np.asarray(values)
    return numbers.view(np.uint64) if numbers.dtype == np.float64 else numbers
