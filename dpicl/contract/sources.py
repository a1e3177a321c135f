"""Where the rows of a data set come from, which are held out, and what answers are measured on."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, StringConstraints, model_serializer, model_validator

from dpicl.contract.base import Category, Frozen, Grown, Name, Text

FilePath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]*$", max_length=255)]
_PLACE = r"^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/)?[A-Za-z0-9_][A-Za-z0-9_./-]*$"


def _known_scheme(value: Any) -> Any:
    scheme, separator, _ = str(value).partition("://")
    if separator and scheme != "s3":
        raise ValueError(f"got the scheme {scheme[:20]!r}; expected a path below the data folder, or s3://BUCKET/KEY")
    return value


TablePath = Annotated[str, BeforeValidator(_known_scheme), StringConstraints(pattern=_PLACE, max_length=255)]
"""Below the data folder, or the address of an object; keys and endpoint of the store come from the environment only."""
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Evaluation = Literal["public", "charged", "none"]
"""What answers are measured on: public rows, exactly; held-out private rows, by noisy counts that are charged; nothing."""


class Remote(Frozen):
    """Where a public repository keeps the set, and how its form differs from ours."""

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


class Origin(Frozen):
    """Who published a data set, and on what terms it may be used."""

    title: Text
    """What the set is called where it was published."""
    licence: Text
    """On what terms it may be used."""
    citation: Text
    """Whom to cite; `none` of a set that was not published."""


class Query(Frozen):
    """Rows of a database: what is asked, and the environment variable that says where and with which password."""

    url_env: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,99}$")]
    """Name of the environment variable that holds the database's address with its password."""
    sql: Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
    """One statement that gives the contract's columns; a limit on the rows should come with an order of them."""


class Source(Origin, Grown):
    """Origin, licence and checksum; at least one way to get the rows."""

    later: ClassVar[tuple[str, ...]] = ("folder", "query", "formerly")

    bundled: Literal["breast_cancer"] | None = None
    """Rows that come with an installed package."""
    file: TablePath | None = None
    """CSV, CSV.gz or Parquet; a relative path is looked up below the data folder, `s3://BUCKET/KEY` in an S3 store."""
    folder: TablePath | None = None
    """A folder of Parquet files below the data folder, or `s3://BUCKET/PREFIX/`; all of them are read, in the order of their names."""
    formerly: TablePath | None = None
    """What stood in `file` or `folder` when releases were bought, before the same rows were moved, in the same key: they stay bought."""
    query: Query | None = None
    """Rows of a database, in place of a file."""
    openml: Remote | None = None
    """Where `dpicl data fetch` gets them from OpenML."""
    uci: Remote | None = None
    """Where `dpicl data fetch` gets them from the UCI repository."""
    content_sha256: Sha256 | None = None
    """Of a benchmark only: digest of the typed rows in canonical order, the same for every way of getting them."""
    ignore: tuple[str, ...] = ()
    """Columns that may stand in the file and are dropped unread."""
    missing: Category | None = None
    """A row that holds this marker is dropped."""

    @model_validator(mode="after")
    def _some_way(self) -> Source:
        if not (self.bundled or self.file or self.folder or self.query or self.openml or self.uci):
            raise ValueError("no way to get the rows; expected one of bundled, file, folder, query, openml, uci")
        others = [way for way in (self.bundled, self.file, self.folder, self.query, self.openml, self.uci) if way is not None]
        if (self.folder or self.query) and len(others) > 1:
            raise ValueError("more than one place for the rows; expected `folder` or `query` alone")
        if self.formerly and not (self.file or self.folder):
            raise ValueError("`formerly` stands alone; expected it beside the `file` or `folder` that the rows were moved to")
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Digested where the rows were when releases were bought: the place says nothing of what is released."""
        content = super()._as_before(serialise)
        moved = content.pop("formerly", None)
        return {name: moved if moved and name in ("file", "folder") and value else value for name, value in content.items()}


class QueryFile(Frozen):
    """Rows declared public, which are put to the model as they are and measured on exactly."""

    file: FilePath
    """CSV, CSV.gz or Parquet below the data folder, with the contract's columns, the label's included."""
    sha256: Sha256 | None = None
    """Digest of the file as it stands there."""


class Split(Grown):
    """How rows are split into demonstrations and held-out rows.

    Either a published split column, or a random share of `test_fraction`. Of the held-out
    rows, `query_fraction` is put to the model.
    """

    later: ClassVar[tuple[str, ...]] = ("evaluation_epsilon",)

    column: Name | None = None
    """The category column of a published split; with `train` and `test`."""
    train: Category | None = None
    """Its value in rows that demonstrations are made from."""
    test: Category | None = None
    """Its value in rows that are held out."""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] | None = None
    """The share of rows that is held out at random where no split is published: the same rows in every run."""
    query_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The share of the held-out rows that is put to the model."""
    evaluation_epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """What one unit's evaluation on held-out rows is charged, in nats; left out, nothing is measured on rows that are no benchmark's."""

    @model_validator(mode="after")
    def _one_of(self) -> Split:
        published = (self.column, self.train, self.test)
        if all(published) == (self.test_fraction is not None) or (any(published) and not all(published)):
            raise ValueError("the split is unclear; expected column, train and test, or test_fraction")
        if all(published) and self.train == self.test:
            raise ValueError("train and test are the same part; expected two different values of the column")
        return self
