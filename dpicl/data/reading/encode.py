"""From typed rows to the codes that clients report and groups are made of.

Guarantee   none spent: encoding happens before any mechanism, on whichever side holds the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpicl.contract.models import Contract
from dpicl.contract.parts import Attribute, GroupKey, Label
from dpicl.ground.types import (
    LABEL,
    EncodedQueries,
    LabelNumbers,
    PrivateCodes,
    PrivateTable,
    QueryTable,
    Table,
)

Encoding = Literal["k-ary", "one-hot"]
UNKNOWN = -1
"""Bin of a one-hot attribute of which no bit is set."""


def part_codes(
    table: Table,
    rule: Attribute | GroupKey | Label,
    contract: Contract,
    rows: np.ndarray | slice = slice(None),
) -> np.ndarray:
    """The part of a rule that each row (or some, by their positions) falls into: shape (rows,),
    whole numbers.
    """
    return contract.columns[rule.column].part_codes(table.stored(rule.column)[rows], rule)


def label_codes(
    table: Table, contract: Contract, rows: np.ndarray | slice = slice(None)
) -> np.ndarray:
    """The code of each row's answer, as `contract.target` lists them: shape (rows,), int64."""
    label = contract.label
    if label is None:
        return np.zeros(table.row_count, dtype=np.int64)[rows]
    if label.has_rule:
        return part_codes(table, label, contract, rows).astype(np.int64)
    values = table.stored(label.column)[rows]
    return contract.columns[label.column].codes(values).astype(np.int64)


def label_numbers(table: Table, contract: Contract) -> LabelNumbers | None:
    """The label of each row as a number, and that of each code; None of a label that is no
    number.
    """
    if contract.target.kind != "number" or contract.label is None:
        return None
    column = contract.numbers[contract.label.column]
    centre = sum(column.bounds) / 2
    of_code = [centre if isinstance(middle, str) else middle for middle in column.middles()]
    return LabelNumbers(np.array(of_code), table.numbers(contract.label.column).astype(np.float64))


@dataclass(frozen=True)
class LocalEncoding:
    """The answers that a client reports, label last: one code, always 0, where a contract has none.

    `k-ary` reports every attribute once. `one-hot` is the paper's: an attribute with more than two
    bins becomes one bit per bin, each randomised on its own, so that a report may name no bin or
    several. The label stays one answer: a row has one label.
    """

    kind: Encoding
    names: tuple[str, ...]
    bin_counts: tuple[int, ...]

    @staticmethod
    def of(contract: Contract, kind: Encoding) -> LocalEncoding:
        """The encoding of a contract's local attributes and label."""
        names = (*(attribute.name for attribute in contract.attributes), LABEL)
        return LocalEncoding(
            kind,
            names,
            (*(attribute.part_count for attribute in contract.attributes), contract.target.count),
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Domain size of every reported answer."""
        return tuple(
            size
            for bins, width in zip(self.bin_counts, self._widths, strict=True)
            for size in ([2] * width if width > 1 else [bins])
        )

    @property
    def _widths(self) -> tuple[int, ...]:
        """How many answers each attribute and the label become."""
        one_hot = self.kind == "one-hot"
        return (*(bins if one_hot and bins > 2 else 1 for bins in self.bin_counts[:-1]), 1)

    def encode(self, bins: np.ndarray) -> np.ndarray:
        """Bins (rows, attributes) to reported answers (rows, answers), uint8."""
        if self.kind == "k-ary":
            return bins.astype(np.uint8, copy=False)
        answers: list[np.ndarray] = []
        for codes, width in zip(bins.T, self._widths, strict=True):
            if width == 1:
                answers.append(codes.astype(np.uint8, copy=False))
            else:
                answers += [(codes == number).view(np.uint8) for number in range(width)]
        return np.stack(answers).T

    def decode(self, answers: np.ndarray) -> np.ndarray:
        """Reported answers back to bins (rows, attributes), int64: of several set bits the first
        counts; none gives `UNKNOWN`.
        """
        if self.kind == "k-ary":
            return answers.astype(np.int64)
        columns, start = [], 0
        for width in self._widths:
            bits = answers[:, start : start + width]
            columns.append(
                np.where(bits.any(axis=1), bits.argmax(axis=1), UNKNOWN)
                if width > 1
                else bits[:, 0].astype(np.int64)
            )
            start += width
        return np.stack(columns, axis=1)


def _bins(table: Table, contract: Contract, kind: type[np.integer[Any]]) -> np.ndarray:
    """Shape (rows, attributes and label), column after column."""
    bins = np.empty((len(contract.attributes) + 1, table.row_count), dtype=kind)
    for place, attribute in enumerate(contract.attributes):
        bins[place] = part_codes(table, attribute, contract)
    bins[-1] = label_codes(table, contract)
    return bins.T


def encode_clients(
    table: PrivateTable, contract: Contract, encoding: LocalEncoding
) -> PrivateCodes:
    """What each client would report if it told the truth; stays on the client's side."""
    return PrivateCodes(encoding.encode(_bins(table, contract, np.uint8)))


def encode_queries(table: QueryTable, contract: Contract) -> EncodedQueries:
    """Held-out rows as attribute bins, label last: shape (rows, attributes), int64."""
    return EncodedQueries(_bins(table, contract, np.int64))
