"""Where the rows of a data set come from, which are held out, and what answers are measured on."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BeforeValidator,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    StringConstraints,
    model_serializer,
    model_validator,
)

from dpicl.contract.base import Category, CategoryName, Frozen, Name, Text

FilePath = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]*$", max_length=255)
]
_PLACE = r"^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/)?[A-Za-z0-9_][A-Za-z0-9_./-]*$"


_ALIASES = ("-s3alias", "--ol-s3", ".mrap")


def _known_scheme(value: Any) -> Any:
    """Of a store there is one spelling of each object and prefix, and one name of each bucket."""
    scheme, separator, place = str(value).partition("://")
    if not separator:
        return value
    if scheme != "s3":
        raise ValueError(
            f"got the scheme {scheme[:20]!r}; expected a path below the data folder, or "
            f"s3://BUCKET/KEY"
        )
    bucket, *parts = place.removesuffix("/").split("/")
    if bucket.endswith(_ALIASES):
        raise ValueError("is the alias of an access point; expected the bucket's own name")
    if {"", ".", ".."} & set(parts):
        raise ValueError(
            "has an empty part, `.` or `..` in its key; expected s3://BUCKET/KEY without them"
        )
    return value


TablePath = Annotated[
    str, BeforeValidator(_known_scheme), StringConstraints(pattern=_PLACE, max_length=255)
]
"""Below the data folder, or the address of an object; keys and endpoint of the store come from the
environment only.
"""
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Evaluation = Literal["public", "charged", "none"]
"""What answers are measured on: public rows, exactly; held-out private rows, by noisy counts that
are charged; nothing.
"""


class Remote(Frozen):
    """A data set in a public repository, and how to convert it."""

    id: Annotated[int, Field(gt=0)]
    """The set's number in the repository."""
    rename: dict[str, str] = {}
    """{their column: our column}."""
    values: dict[str, dict[Category, Category]] = {}
    """column -> {their value: our value}."""
    scale: dict[str, float] = {}
    """column -> factor."""
    published_split: tuple[str, int, str, str] | None = None
    """(column to add, rows of the first part, its value, value of the other rows)."""


ORIGIN_WORDS = ("obtain", "stands_in")
"""Keys of `Origin` that came later and are words for people: no digest of a contract contains
them.
"""


class Origin(Frozen):
    """Who published a data set, and under which licence."""

    unsaid: ClassVar[tuple[str, ...]] = ("invalid", *ORIGIN_WORDS)

    title: Text = "Private records"
    """The title under which it was published."""
    licence: Text = "not published"
    """The licence under which it may be used."""
    citation: Text = "none"
    """What to cite; `none` if it was not published."""
    invalid: Literal["refuse", "leave-out"] | None = None
    """What becomes of a row, or text, that breaks the contract by itself: `refuse` refuses all of
    them, which tells that there is one; `leave-out` leaves it out, or makes a value of a nullable
    column missing. If left out: `refuse` where one release is made, `leave-out` where
    `releases.every` is a period.
    """
    obtain: Text | None = None
    """Where anyone can get rows that are not shipped, and in which form, in words."""
    stands_in: Text | None = None
    """Of what this set takes the place in a paper's tables, and how it differs, in words."""


class Query(Frozen):
    """Rows from a database: the statement, and the environment variable that holds the address."""

    url_env: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,99}$")]
    """Name of the environment variable that holds the database URL, password included."""
    sql: Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
    """One statement that returns the contract's columns; give it an ORDER BY, at least with a
    LIMIT.
    """


class Source(Origin):
    """Origin, licence and checksum, and at least one place to get the rows from."""

    unsaid: ClassVar[tuple[str, ...]] = (
        *Origin.unsaid,
        *("folder", "query", "moved_from", "frame", "arrived", "sign", "deliveries", "undelivered"),
    )

    bundled: Literal["breast_cancer"] | None = None
    """Rows that are shipped with an installed package."""
    file: TablePath | None = None
    """CSV, CSV.gz or Parquet: a path relative to the data folder, or `s3://BUCKET/KEY`."""
    folder: TablePath | None = None
    """A folder of Parquet files, relative to the data folder, or `s3://BUCKET/PREFIX/`; all are
    read, in order of their names.
    """
    deliveries: TablePath | None = None
    """Of a series (`releases.horizon`) whose rows do not say when they arrived: a folder, relative
    to the data folder, or `s3://BUCKET/PREFIX/`, with a file for each period, named by it, such as
    2027-01-31.csv (CSV, CSV.gz or Parquet). A period without rows has a file without rows.
    """
    undelivered: Literal["refused", "empty"] = "refused"
    """With `deliveries`: what a period that is over and has no file means: that its rows are yet to
    come, so that nothing is released; or, with `empty`, that nothing arrived in it.
    """
    moved_from: TablePath | None = None
    """The earlier value of `file`, `folder` or `deliveries`, if the same rows were moved after
    releases had been charged: no release is charged again.
    """
    query: Query | None = None
    """Rows from a database."""
    frame: bool = False
    """Rows are given by the program that makes the release, under the account that the contract
    names.
    """
    openml: Remote | None = None
    """Rows on OpenML, for `dpicl data fetch`."""
    uci: Remote | None = None
    """Rows in the UCI repository, for `dpicl data fetch`."""
    content_sha256: Sha256 | None = None
    """Benchmarks only: digest of the typed rows in canonical order, independent of where they come
    from.
    """
    ignore: tuple[str, ...] = ()
    """Columns of the file to ignore."""
    arrived: Name | None = None
    """Of a series (`releases.horizon`): the column with the day on which a row arrived, such as
    2027-01-31; it is used for nothing else.
    """
    sign: Name | None = None
    """Of a series that protects persons: the column with 1 for a row that comes, and -1 for one
    that takes an earlier row of that person back. Both count among the person's rows.
    """
    missing: Category | None = None
    """A word that stands for a missing value, beside an empty cell, in every column without a
    `missing` of its own; rows that have it in a column that is not nullable are dropped.
    """

    @model_validator(mode="after")
    def _some_way(self) -> Source:
        ways = (
            self.bundled,
            self.file,
            self.folder,
            self.deliveries,
            self.query,
            self.openml,
            self.uci,
        )
        others = [way for way in ways if way is not None]
        if not (others or self.frame):
            raise ValueError(
                "no way to get the rows; expected one of bundled, file, folder, deliveries, "
                "query, openml, uci"
            )
        if len(others) > 1 - self.frame and (
            self.folder or self.deliveries or self.query or self.frame
        ):
            raise ValueError(
                "more than one place for the rows; expected `folder`, `deliveries`, `query` or "
                "`frame` alone"
            )
        if self.moved_from and not (self.file or self.folder or self.deliveries):
            raise ValueError(
                "`moved_from` is given alone; expected it with the `file`, `folder` or "
                "`deliveries` that the rows were moved to"
            )
        return self

    @model_serializer(mode="wrap")
    def _stable_form(
        self, serialise: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, Any]:
        """With the rows' first address: a release does not depend on where the rows are stored."""
        content = super()._stable_form(serialise, info)
        moved = content.pop("moved_from", None)
        return {
            name: moved if moved and name in ("file", "folder", "deliveries") and value else value
            for name, value in content.items()
        }


class QueryFile(Frozen):
    """Public rows: they are sent to the model as they are, and accuracy on them is measured without
    noise.
    """

    file: FilePath
    """CSV, CSV.gz or Parquet, relative to the data folder, with all columns of the contract
    including the label.
    """
    sha256: Sha256 | None = None
    """SHA-256 of the file."""


class Split(Frozen):
    """How rows are split into demonstrations and held-out rows.

    Either a published split column, or a random fraction `test_fraction`. Of the held-out
    rows, `query_fraction` serve as queries.
    """

    unsaid: ClassVar[tuple[str, ...]] = ("evaluation_epsilon",)

    column: Name | None = None
    """The category column of a published split; requires `train` and `test`."""
    train: CategoryName | None = None
    """Its value in training rows, which demonstrations are made from."""
    test: CategoryName | None = None
    """Its value in held-out rows."""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] | None = None
    """The fraction of rows held out at random, if there is no published split; the same rows in
    every run.
    """
    query_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The fraction of held-out rows that serve as queries."""
    evaluation_epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Epsilon charged for evaluating one unit on held-out private rows, in nats; if left out,
    nothing is evaluated on them.
    """

    @model_validator(mode="after")
    def _one_of(self) -> Split:
        published = (self.column, self.train, self.test)
        if all(published) == (self.test_fraction is not None) or (
            any(published) and not all(published)
        ):
            raise ValueError(
                "the split is unclear; expected column, train and test, or test_fraction"
            )
        if all(published) and self.train == self.test:
            raise ValueError(
                "train and test are the same part; expected two different values of the column"
            )
        return self
