"""Splitting a table into demonstrations (private) and queries, once for every run.

Trust       the curator holds the key; who stands where stays secret.
Guarantee   none spent, and of what is no benchmark none lost: stability 1
            (`data.reading.stability`), as far as AES under a secret key cannot be told
            from a random function.

On a benchmark the random split is seeded by a constant, not by the run: every cell of a table of
results answers the same queries, and Table VI of the paper follows from the fractions, rounded
down. A permutation moves other rows where one is added, so on any other table rows go by a keyed
hash of the row, or of the person, so that nobody's place depends on anybody else:

    (1)  (w, v) = h_key(content, ordinal among equal contents)       h of `row_hashes`
         (w, v) = h_key(content)           in folders and queries: ordinals would need all rows at
                                           once, so that equal rows stand together
    (2)  w = first word of h_key(id)       where persons are protected: a person stands on one side
         with all their rows
    (3)  held out where w < f 2^64;   a query where v < a 2^64, of those the N lowest

Which of both lines of (1) holds is a public fact of the source, never of the number of rows: a
table that grows into batches is split as before.

Symbols     f the contract's `test_fraction`, a its `query_fraction`, N the most queries of a run.
Not covered a key that is known, or that others' rows are split by.

From `contributing_rows` on: how many rows of one person enter a release: bounded by chance within
the person, before all else.

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

From `Entered` on: which rows of a person enter a period of a series, given how many have entered
before: bounded across periods, by nothing but their own rows.

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

From `rank_within` on: of each place, how many of its kind stand before it.

From `row_hashes` on: a digest of rows that adds up: the same for any order of the rows and however
they are cut into parts.

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
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from dpicl.contract.models import Contract
from dpicl.ground.errors import DataError, ParameterError, PrivacyError
from dpicl.ground.randomness import Draws, stream
from dpicl.ground.types import NO_NUMBER, PrivateTable, QueryTable, SplitTable, Table

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
    if contract.is_benchmark and contract.split is not None:
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
    words = _marks(held_out, contract, key)[:, 1]
    person = contract.person
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
    fraction = contract.split.test_fraction if contract.split else None
    person = contract.person
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
    columns = [words_of(table.column(name)) for name in contract.read_columns]
    of_rows = _derived(key, b"dpicl rows", contract)
    content = column_hashes(columns, key=of_rows)
    in_batches = contract.source.folder is not None or contract.source.query is not None
    if in_batches and contract.person is None:
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
    if contract.is_benchmark and not (train_rows and query_rows):
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
    split = contract.split
    person = contract.person
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
    if split is None or not contract.is_benchmark:
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


def contributing_rows(train: PrivateTable, contract: Contract, draws: Draws) -> np.ndarray:
    """Equation (1): positions of the rows that may enter a central release, ascending, int64; all
    where the contract protects rows.
    """
    person = contract.person
    if person is None:
        return np.arange(train.row_count)
    order, starts, counts = _shuffled(train, person.id_column, draws)
    rank = np.arange(len(order)) - np.repeat(starts, counts)
    return np.sort(order[rank < person.max_rows])


def reporting_rows(train: PrivateTable, contract: Contract, draws: Draws) -> np.ndarray:
    """Equation (2): positions of the rows that clients report, int64, m per person; every row once
    where the contract protects rows.
    """
    person = contract.person
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
            np.concatenate([part.persons for part in all_parts]), return_inverse=True
        )
        rows = np.zeros(len(persons), dtype=np.int64)
        np.add.at(rows, places, np.concatenate([part.rows for part in all_parts]))
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
    person = contract.person
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


def rank_within(kinds: np.ndarray) -> np.ndarray:
    """Of each place, how many of its kind stand before it: shape (places,), int64."""
    order = np.argsort(kinds, kind="stable")
    _, starts, counts = np.unique(kinds[order], return_index=True, return_counts=True)
    ranks = np.empty(len(kinds), dtype=np.int64)
    ranks[order] = np.arange(len(kinds)) - np.repeat(starts, counts)
    return ranks


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
    hashes = np.zeros((rows, 2), dtype=np.uint64)
    cells = np.empty((_ROWS_PER_BLOCK, 2), dtype=np.uint64)
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
