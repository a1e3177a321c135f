"""Released rows as a pandas DataFrame that remembers its release."""

from __future__ import annotations

from operator import methodcaller
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
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
        """Write the rows and their certificate, also with options of pandas; a buffer gets the
        rows alone.
        """
        if not isinstance(path, str | PathLike):
            return super().to_parquet(path, *arguments, **options)
        if _is_plain(arguments, options):
            return self._write(path, "parquet")
        return self._write_as(path, "parquet", arguments, options)

    def to_csv(self, path_or_buf: Any = None, *arguments: Any, **options: Any) -> Any:
        """Write the rows and their certificate, also with options of pandas, such as `sep=";"`;
        without row numbers where `index` is left out. A buffer gets the rows alone.
        """
        if not isinstance(path_or_buf, str | PathLike):
            return super().to_csv(path_or_buf, *arguments, **options)
        if _is_plain(arguments, options):
            return self._write(path_or_buf, "csv")
        return self._write_as(path_or_buf, "csv", arguments, {"index": False} | options)

    def _write(self, path: str | PathLike[str], form: str) -> None:
        self._check_unchanged(form)
        self._release.write(Path(path), form, len(self), self._where)
        self._warn(path, form)

    def _write_as(
        self, path: str | PathLike[str], form: str, arguments: Any, options: dict[str, Any]
    ) -> None:
        """As pandas does with these options. Raises DpiclError: it would not be a file of its own,
        of which a certificate could be.
        """
        self._check_unchanged(form)
        if options.get("mode", "w") not in ("w", "wb", "x") or options.get("partition_cols"):
            raise DpiclError(
                f"to_{form}: a certificate is of one whole file; expected no `mode` that adds to "
                f"one and no `partition_cols`, or pandas.DataFrame(table).to_{form}(…) without a "
                "certificate"
            )
        from dpicl.release.certificate_files import write_certified

        with TemporaryDirectory() as folder:
            written = Path(folder) / Path(path).name  # pandas takes the compression from the name
            getattr(pd.DataFrame(self), f"to_{form}")(written, *arguments, **options)
            content = methodcaller("write", written.read_bytes())
        release = self._release
        settings, condition = release.published.settings, release._condition(self._where)
        write_certified(Path(path), content, release.certificate, settings, condition)
        self._warn(path, form)

    def _check_unchanged(self, form: str) -> None:
        if not self._release.arrow(len(self), self._where).equals(self.to_arrow()):
            raise DpiclError(
                f"to_{form}: this table was changed since it was released; expected "
                f"pandas.DataFrame(table).to_{form}(…)"
            )

    def _warn(self, path: str | PathLike[str], form: str) -> None:
        if form == "csv" and (told := self._release.contract.formula_warning):
            warn(f"{Path(path).name}{told}")


def _is_plain(arguments: tuple[Any, ...], options: dict[str, Any]) -> bool:
    return not arguments and options in ({}, {"index": False})
