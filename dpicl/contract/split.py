"""Which rows are held out, and what answers are measured on."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from dpicl.contract.base import Category, Frozen, Name
from dpicl.contract.sources import FilePath, Sha256

Evaluation = Literal["public", "charged", "none"]
"""What answers are measured on: public rows, exactly; held-out private rows, by noisy counts that are charged; nothing."""


class QueryFile(Frozen):
    """Public rows: they are sent to the model as they are, and accuracy on them is measured without noise."""

    file: FilePath
    """CSV, CSV.gz or Parquet, relative to the data folder, with all columns of the contract including the label."""
    sha256: Sha256 | None = None
    """SHA-256 of the file."""


class Split(Frozen):
    """How rows are split into demonstrations and held-out rows.

    Either a published split column, or a random fraction `test_fraction`. Of the held-out
    rows, `query_fraction` serve as queries.
    """

    later: ClassVar[tuple[str, ...]] = ("evaluation_epsilon",)

    column: Name | None = None
    """The category column of a published split; requires `train` and `test`."""
    train: Category | None = None
    """Its value in training rows, which demonstrations are made from."""
    test: Category | None = None
    """Its value in held-out rows."""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] | None = None
    """The fraction of rows held out at random, if there is no published split; the same rows in every run."""
    query_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The fraction of held-out rows that serve as queries."""
    evaluation_epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Epsilon charged for evaluating one unit on held-out private rows, in nats; if left out, nothing is evaluated on them."""

    @model_validator(mode="after")
    def _one_of(self) -> Split:
        published = (self.column, self.train, self.test)
        if all(published) == (self.test_fraction is not None) or (any(published) and not all(published)):
            raise ValueError("the split is unclear; expected column, train and test, or test_fraction")
        if all(published) and self.train == self.test:
            raise ValueError("train and test are the same part; expected two different values of the column")
        return self
