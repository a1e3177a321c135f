"""Files of released rows, CSV or Parquet."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

import pyarrow as pa

from dpicl.errors import ParameterError

TABLE_FORMS = ("parquet", "csv")


def writer_of(rows: pa.Table, form: str) -> Callable[[BinaryIO], object]:
    """What writes these rows to a file; the same bytes for the same rows.

    Raises:
        ParameterError: there is no such form.
    """
    if form == "parquet":
        import pyarrow.parquet as pq

        return lambda file: pq.write_table(rows, file, compression="zstd")
    if form == "csv":
        import pyarrow.csv as pa_csv

        options = pa_csv.WriteOptions(quoting_style="needed")
        return lambda file: pa_csv.write_csv(rows, file, options)
    raise ParameterError("as", form, f"one of {', '.join(TABLE_FORMS)}")
