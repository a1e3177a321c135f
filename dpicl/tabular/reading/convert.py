"""From a repository's form of a data set to ours, as the contract's `source` describes it."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal, InvalidOperation

import pyarrow as pa

from dpicl.contract.sources import Remote
from dpicl.errors import DataError


def to_our_form(theirs: pa.Table, remote: Remote, missing: str | None, where: str) -> pa.Table:
    """Rename columns, then replace values, scale numbers and add the published split.

    Repositories leave missing values empty; they become the contract's `missing` marker.
    All parts of `remote` but `rename` go by our names of columns. Tables are text, of shape
    (rows, columns); `where` is the repository, for messages.

    Raises:
        DataError: `remote` names a column that is not there, or scales what is no number.
    """
    _require(remote.rename, theirs, "rename", where)
    ours = theirs.rename_columns([remote.rename.get(name, name) for name in theirs.column_names])
    _require(remote.values, ours, "values", where)
    _require(remote.scale, ours, "scale", where)
    columns: dict[str, list[str]] = {}
    for name in ours.column_names:
        mapping = remote.values.get(name, {})
        values = [missing if value == "" and missing is not None else value for value in ours.column(name).to_pylist()]
        values = [mapping.get(value, value) for value in values]
        if name in remote.scale:
            try:  # decimal products: 0.1 times 3 is 0.3, so that the rows keep their digest
                factor = Decimal(str(remote.scale[name]))
                values = [value if value == missing else format(Decimal(value) * factor, "f") for value in values]
            except InvalidOperation:
                raise DataError(where, "is scaled but holds something other than numbers", column=name) from None
        columns[name] = values
    if remote.published_split is not None:
        name, first_count, first, rest = remote.published_split
        if first_count > ours.num_rows:
            raise DataError(where, f"has {ours.num_rows} rows; expected {first_count} in the first part of the published split")
        columns[name] = [first] * first_count + [rest] * (ours.num_rows - first_count)
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def _require(named: Collection[str], table: pa.Table, key: str, where: str) -> None:
    for name in named:
        if name not in table.column_names:
            raise DataError(where, f"is not in the download, though `{key}` names it", column=name)
