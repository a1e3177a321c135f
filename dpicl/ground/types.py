"""Tables and releases, with their level of trust in the type.

*Private* rows may be read by mechanisms only. *Released* values came out of a mechanism
and carry its guarantee. *Queries* are public as far as this system is concerned: they are
sent to the model as they are, which every report says. `serialize` accepts the last two,
so a skipped noise step is a type error.

A rule that a data set must fulfil, and how often it is broken: what checks of tables and of texts
have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

if TYPE_CHECKING:
    # a tenth of a second, which a command that reads no table need not wait
    import pyarrow as pa

Made = TypeVar("Made")
LABEL = "label"
"""Name of the label among attributes; its codes are those of the contract's target."""
NO_NUMBER = -(2**63)
"""The word of a missing whole number where rows are told apart, and no value; that of a missing
real number is NaN's.
"""


@dataclass(frozen=True)
class Table:
    """Rows typed by a contract: int64 (or shorter integers), float64, or dictionary codes in
    contract order.
    """

    data: pa.Table

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return int(self.data.num_rows)

    def numbers(self, column: str) -> np.ndarray:
        """Values of a numeric column, shape (rows,): int64 or float64, or shorter integers where
        they are stored so.
        """
        return np.asarray(_one_chunk(self.data.column(column)).to_numpy(zero_copy_only=False))

    def codes(self, column: str) -> np.ndarray:
        """Category codes in contract order, shape (rows,): int16, or int8 where they are stored
        so.
        """
        return np.asarray(
            _one_chunk(self.data.column(column)).indices.to_numpy(zero_copy_only=False)
        )

    def stored(self, column: str) -> np.ndarray:
        """`codes` of a column of categories, `numbers` of any other."""
        is_coded = hasattr(self.data.schema.field(column).type, "value_type")
        return self.codes(column) if is_coded else self.numbers(column)


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Without a copy where there is one already."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


@dataclass(frozen=True)
class PrivateTable(Table):
    """Rows that a guarantee protects; `shared` is what releases need that are drawn together."""

    shared: dict[Hashable, Any] | None = field(default=None, compare=False, repr=False)

    def sharing(self) -> PrivateTable:
        """The same rows, for releases that are drawn together."""
        return PrivateTable(self.data, {})

    def once(self, name: Hashable, make: Callable[[], Made]) -> Made:
        """What `make` gives, made once for all releases that are drawn together."""
        if self.shared is None:
            return make()
        if name not in self.shared:
            self.shared[name] = make()
        made: Made = self.shared[name]
        return made


@dataclass(frozen=True)
class QueryTable(Table):
    """Held-out rows that are put to the model; not protected."""


@dataclass(frozen=True)
class SplitTable:
    """Private rows, the whole test part, and the positions in it of the queries that the model
    answers.
    """

    train: PrivateTable
    test: QueryTable
    query_positions: np.ndarray

    @property
    def queries(self) -> QueryTable:
        """The rows that are put to the model."""
        return QueryTable(self.test.data.take(self.query_positions))


@dataclass(frozen=True)
class EncodedQueries:
    """Held-out rows in a local encoding: codes of shape (rows, attributes)."""

    codes: np.ndarray


@dataclass(frozen=True)
class LabelNumbers:
    """Of a label that is a number.

    Attributes:
        of_code: the number that each code is answered with, shape (codes,); the middle of the
            bounds where it says that the number is missing.
        truth: the number of every row, shape (rows,); NaN where it is missing.
    """

    of_code: np.ndarray
    truth: np.ndarray


@dataclass(frozen=True)
class PrivateCodes:
    """Clients' true answers in a local encoding: codes of shape (clients, attributes).

    Exists on the client side only; `mechanisms.randomised_response` is the boundary.
    """

    codes: np.ndarray


@dataclass(frozen=True)
class LocalReports:
    """Randomised answers: codes of shape (clients, attributes), epsilon-LDP per client."""

    codes: np.ndarray


@dataclass(frozen=True)
class ReleasedRows:
    """Synthetic rows: codes of shape (rows, attributes), post-processing of reports or noisy
    counts.
    """

    codes: np.ndarray


@dataclass(frozen=True)
class ReleasedGroup:
    """One noisy group average: a number or a category name for every column, and the label."""

    key: tuple[str, ...]
    values: Mapping[str, float | str]
    label: int


@dataclass(frozen=True)
class ReleasedGroups:
    """The noisy averages of one partition, in the partition's public order."""

    groups: tuple[ReleasedGroup, ...]


@dataclass(frozen=True)
class Demonstration:
    """A text with its label, as a prompt shows it: released, but for real rows at epsilon =
    infinity.
    """

    label: str
    text: str


@dataclass(frozen=True)
class ReleasedPrompts:
    """Texts of released demonstrations and queries: any model may read them."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class PrivatePrompts:
    """Texts that hold rows without noise: only a model on a machine that may see the rows reads
    them.
    """

    texts: tuple[str, ...]


MADE_ROWS = 1 << 14
"""How many rows are made of a release at least, for runs to draw from."""
Estimator = Literal["simplex", "clip", "none", "em", "log-linear", "tree"]
"""How rows are reconstructed from clients' reports; see `tabular.local.estimate`."""
Design = Literal["all-columns", "one-column", "pairs", "subset", "agreement"]
"""Which columns a client reports; see `tabular.local.questions`."""
DEFAULT_DESIGN: Design = "subset"
_TableRule = Literal[
    "no_missing", "known_categories", "in_bounds", "row_count", "both_labels", "unique"
]
_TextRule = Literal["no_empty", "known_labels", "text_length"]
RuleName = _TableRule | _TextRule | Literal["relation"]
Severity = Literal["warn", "fail"]


@dataclass(frozen=True)
class DataRule:
    """One rule on a column, or on the whole table where `column` is empty."""

    rule: RuleName
    column: str | None
    severity: Severity
    at_least: int | None
    description: str


@dataclass(frozen=True)
class Violation:
    """A rule that is broken, and by how many values, rows or labels."""

    rule: DataRule
    count: int
