"""Tables in batches: each is checked, split and added up on its own, and what is known of all is
merged exactly.

Guarantee   none spent: private rows stay private, what is merged are counts and hashes.

The random part that is held out is chosen by the hash of a row, so that a row's place depends on no
other row, on no order and on no cut; equal rows stand in one part. Of a benchmark the hash is
public, of any other table it is keyed (`split`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest

import numpy as np
import pyarrow as pa

from dpicl.contract.models import Contract
from dpicl.data.reading.checks import label_counts, rules_of, violations
from dpicl.data.reading.split import (
    added,
    check_sizes,
    fewer,
    held_out_queries,
    holds_out,
    lowest,
    multiset_digest,
    public_queries,
    row_hashes,
    sides_by_column,
)
from dpicl.ground.randomness import stream
from dpicl.ground.types import Violation

_BY_ROWS = ("row_count", "both_labels")
"""Rules on counts that are met by all batches together."""


@dataclass(frozen=True)
class Facts:
    """Counts of one batch or of several: `broken` by a rule's place in `rules_of`, `labels` by
    code; hashes, as uint64 (2,), of the rows to protect and of all.
    """

    rows: int
    train_rows: int
    labels: tuple[int, ...]
    broken: Mapping[int, int]
    hashes: tuple[int, int]
    all_hashes: tuple[int, int]

    @staticmethod
    def added(parts: Iterable[Facts]) -> Facts:
        """Of all parts."""
        every, broken = list(parts), Counter[int]()
        for one in every:
            broken.update(one.broken)
        labels = map(sum, zip_longest(*(part.labels for part in every), fillvalue=0))
        lanes = zip(
            (0, 0, 0, 0), *((*part.hashes, *part.all_hashes) for part in every), strict=True
        )
        first, second, all_first, all_second = (sum(lane) % 2**64 for lane in lanes)
        rows = sum(part.rows for part in every)
        train_rows = sum(part.train_rows for part in every)
        return Facts(
            rows, train_rows, tuple(labels), dict(broken), (first, second), (all_first, all_second)
        )

    def digest(self, contract: Contract) -> str:
        """Of the rows to protect, as a multiset: 64 hexadecimal digits."""
        return multiset_digest(np.array(self.hashes, dtype=np.uint64), self.train_rows, contract)

    def whole_digest(self, contract: Contract) -> str:
        """Of all rows, whichever way they were split: as `split.table_digest` of the table."""
        return multiset_digest(np.array(self.all_hashes, dtype=np.uint64), self.rows, contract)


@dataclass(frozen=True)
class Batch:
    """Rows to protect in short types, held-out rows, and what is known of both."""

    train: pa.Table
    test: pa.Table
    facts: Facts


def prepare(table: pa.Table, contract: Contract, *, key: bytes | None = None) -> Batch:
    """Check and split one batch. Raises PrivacyError: there is no key, and the table is no
    benchmark.

    Args:
        table: typed as `parse.typed_table` returns it, shape (rows, columns).
        key: as of `split_table`.
    """
    hashes = row_hashes(table, contract)
    split = contract.split
    if split is not None and split.column is not None:
        train, test = sides_by_column(table, contract)
    else:
        if contract.is_benchmark and split is not None:
            test = lowest(hashes[:, 0], split.test_fraction or 0.0)
        else:
            test = holds_out(table, contract, key=key)
        train = ~test
    if not (contract.is_benchmark or contract.evaluation == "charged"):
        test = np.zeros_like(test)  # rows that no answer is measured on are dropped
    protected = np.flatnonzero(train)
    places = {rule: place for place, rule in enumerate(rules_of(contract))}
    broken = {
        places[violation.rule]: violation.count
        for violation in violations(table, contract)
        if violation.rule.rule not in _BY_ROWS
    }
    labels = label_counts(table, contract).tolist()
    whole = added(hashes).tolist()
    lanes = whole if len(protected) == table.num_rows else added(hashes[protected]).tolist()
    facts = Facts(
        table.num_rows,
        len(protected),
        tuple(labels),
        broken,
        (lanes[0], lanes[1]),
        (whole[0], whole[1]),
    )
    rows = table if len(protected) == table.num_rows else table.take(protected)
    return Batch(compact(rows, contract), table.filter(pa.array(test)).combine_chunks(), facts)


def compact(table: pa.Table, contract: Contract) -> pa.Table:
    """Equal values and the same columns in fewer bytes."""
    columns = {name: table.column(name) for name in table.column_names}
    for name, column in contract.columns.items():
        columns[name] = column.compact(columns[name])
    return pa.table(columns)


def merged_violations(facts: Facts, contract: Contract) -> tuple[Violation, ...]:
    """The broken rules of a whole table, in the order of `rules_of`."""
    broken = []
    for place, rule in enumerate(rules_of(contract)):
        at_least = int(rule.at_least or 0)
        count = facts.broken.get(place, 0)
        if rule.rule == "row_count":
            count = max(0, at_least - facts.rows)
        elif rule.rule == "both_labels":
            count = sum(labelled < at_least for labelled in facts.labels)
        broken.append(Violation(rule, count))
    return tuple(violation for violation in broken if violation.count)


def held_out(
    parts: Sequence[pa.Table],
    train_rows: int,
    contract: Contract,
    *,
    key: bytes | None,
    most: int | None,
    queries: pa.Table | None,
) -> tuple[pa.Table, np.ndarray]:
    """The rows that may become queries, and the positions of those that do: held-out rows of all
    batches, or public ones; as of `split_table`.
    Raises DataError: of a benchmark nothing is left to protect, or to ask; PrivacyError: there is
    no key, and the table is no benchmark.
    """
    test = pa.concat_tables(parts).select(list(contract.columns)).combine_chunks()
    if contract.is_benchmark:
        assert contract.split is not None
        count = int(test.num_rows * Fraction(str(contract.split.query_fraction)))
        order = stream(0, "split", contract.name, "batches").generator().permutation(test.num_rows)
        positions = fewer(np.sort(order[:count]), most, contract.name)
    elif contract.evaluation == "charged":
        positions = held_out_queries(test, contract, key=key, most=most)
    else:
        test = public_queries(test, contract, queries).data
        positions = fewer(np.arange(test.num_rows), most, contract.name)
    check_sizes(contract, train_rows, len(positions))
    return test, positions
