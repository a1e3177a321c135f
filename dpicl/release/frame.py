"""Released rows as a pandas DataFrame that remembers its release."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from dpicl.ground.errors import DpiclError
from dpicl.ground.warned import warn

if TYPE_CHECKING:
    from dpicl.data.conditions import Where
    from dpicl.release.release import Release

_WITH_GAPS = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}


class ReleasedTable(pd.DataFrame):
    """Rows of a release. What is made of it (a filter, a copy) is a plain DataFrame, and so is what
    is read back.
    """

    _metadata = ["_release", "_schema", "_where"]
    _release: Release
    _schema: pa.Schema
    _where: Where | None

    @classmethod
    def of(cls, release: Release, rows: pa.Table, where: Where | None = None) -> ReleasedTable:
        """The rows of a release, all of which meet a condition."""
        frame = rows.to_pandas(date_as_object=False)
        for field in rows.schema:
            # else pandas would make floats or objects of them
            if field.nullable and (kind := _WITH_GAPS.get(field.type)):
                frame[field.name] = rows.column(field.name).to_pandas(
                    types_mapper=lambda _, kind=kind: kind
                )
        table = cls(frame)
        table._release = release
        table._schema = rows.schema
        table._where = where
        return table

    @property
    def _constructor(self) -> Any:
        return pd.DataFrame

    def to_arrow(self) -> pa.Table:
        """An Arrow table; dates, which pandas has as times, are dates again."""
        table = pa.Table.from_pandas(self, preserve_index=False)
        try:
            return table.cast(self._schema)
        except (ValueError, pa.ArrowException):  # changed since it was released
            return table

    def to_polars(self) -> Any:
        """A polars DataFrame.

        Raises:
            DpiclError: that package is not installed.
        """
        try:
            import polars
        except ModuleNotFoundError:
            raise DpiclError(
                "to_polars: needs the package polars; type `pip install polars`"
            ) from None
        return polars.from_arrow(self.to_arrow())

    def to_parquet(self, path: Any = None, *arguments: Any, **options: Any) -> Any:
        """Write the rows and their certificate; with a buffer or options of pandas, as pandas
        does.
        """
        if not _is_plain(path, arguments, options):
            return super().to_parquet(path, *arguments, **options)
        return self._write(path, "parquet")

    def to_csv(self, path_or_buf: Any = None, *arguments: Any, **options: Any) -> Any:
        """Write the rows and their certificate; with a buffer or options of pandas, as pandas
        does.
        """
        if not _is_plain(path_or_buf, arguments, options):
            return super().to_csv(path_or_buf, *arguments, **options)
        return self._write(path_or_buf, "csv")

    def _write(self, path: Any, form: str) -> None:
        if not self._release.arrow(len(self), self._where).equals(self.to_arrow()):
            raise DpiclError(
                f"to_{form}: this table was changed since it was released; expected "
                f"pandas.DataFrame(table).to_{form}(…)"
            )
        self._release.write(Path(path), form, len(self), self._where)
        if form == "csv" and (told := self._release.contract.formula_warning):
            warn(f"{Path(path).name}{told}")


def _is_plain(path: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> bool:
    return isinstance(path, str | PathLike) and not arguments and options in ({}, {"index": False})
