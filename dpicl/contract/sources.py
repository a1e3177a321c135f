"""Where the rows of a data set come from."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints, model_validator

from dpicl.contract.base import Category, Frozen, Grown, Text

FilePath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]*$", max_length=255)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Remote(Frozen):
    """Where a public repository keeps the set, and how its form differs from ours."""

    id: Annotated[int, Field(gt=0)]
    rename: dict[str, str] = {}
    values: dict[str, dict[Category, Category]] = {}
    """column -> {their value: our value}."""
    scale: dict[str, float] = {}
    """column -> factor."""
    published_split: tuple[str, int, str, str] | None = None
    """(column to add, rows of the first part, its value, value of the other rows)."""


class Origin(Frozen):
    """Who published a data set, and on what terms it may be used."""

    title: Text
    licence: Text
    citation: Text


class Query(Frozen):
    """Rows of a database: what is asked, and the environment variable that says where and with which password."""

    url_env: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,99}$")]
    sql: Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
    """One statement that gives the contract's columns; a limit on the rows should come with an order of them."""


class Source(Origin, Grown):
    """Origin, licence and checksum; at least one way to get the rows."""

    later: ClassVar[tuple[str, ...]] = ("folder", "query")

    bundled: Literal["breast_cancer"] | None = None
    file: FilePath | None = None
    """CSV, CSV.gz or Parquet; a relative path is looked up below the data folder."""
    folder: FilePath | None = None
    """A folder of Parquet files below the data folder; all of them are read, in the order of their names."""
    query: Query | None = None
    openml: Remote | None = None
    uci: Remote | None = None
    content_sha256: Sha256 | None = None
    """Digest of the typed rows in canonical order: the same for every way of getting them."""
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
        return self
