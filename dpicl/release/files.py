"""Files of released rows: CSV or Parquet."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from dpicl.engine.files import publish
from dpicl.errors import ParameterError

TABLE_FORMS = ("parquet", "csv")


def write_rows(rows: pa.Table, path: Path, form: str, *, replace: bool = False) -> Path:
    """Rows as a file, whole or not at all.

    Raises:
        ParameterError: no such form.
    """
    if form == "parquet":
        import pyarrow.parquet as pq

        return publish(path, lambda file: pq.write_table(rows, file, compression="zstd"), replace=replace)
    if form == "csv":
        import pyarrow.csv as pa_csv

        options = pa_csv.WriteOptions(quoting_style="needed")
        return publish(path, lambda file: pa_csv.write_csv(rows, file, options), replace=replace)
    raise ParameterError("as", form, f"one of {', '.join(TABLE_FORMS)}")
