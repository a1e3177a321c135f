"""Which rows are held out, and what answers are measured on."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from dpicl.contract.base import Category, Frozen, Grown, Name
from dpicl.contract.sources import FilePath, Sha256

Evaluation = Literal["public", "charged", "none"]
"""What answers are measured on: public rows, exactly; held-out private rows, by noisy counts that are charged; nothing."""


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
