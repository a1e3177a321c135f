"""Public repositories: a data set's number to a table of text, in the repository's form, and from
there to ours.

OpenML   GET {base}/api/v1/json/data/{id}   -> data_set_description: url, format, md5_checksum;
         dense ARFF
UCI      GET {base}/api/dataset?id={id}     -> data: data_url; CSV with a header
"""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpicl.contract.declared import Remote
from dpicl.data.reading.files import read_text_table
from dpicl.ground.cache import Visit
from dpicl.ground.downloads import download
from dpicl.ground.errors import DataError, SourceError

_DESCRIPTION_BYTES = 1 << 20


def openml_table(number: int, visit: Visit) -> pa.Table:
    """An OpenML data set as text, shape (rows, columns); a missing value is empty. Raises
    SourceError: names the host and what happened.
    """
    description = _description(
        f"{visit.base}/api/v1/json/data/{number}", "data_set_description", visit
    )
    if str(description.get("format", "")).lower() != "arff":
        raise SourceError(f"{visit.host}: data set {number} is not stated to be dense ARFF")
    md5 = description.get("md5_checksum")
    path = _file(description, "url", visit, md5=md5 if isinstance(md5, str) and md5 else None)
    from sklearn.externals._arff import ArffException, load  # a second to import

    try:
        with path.open(encoding="utf-8") as file:
            parsed = load(file)
        names = [name for name, _ in parsed["attributes"]]
        columns = zip(*parsed["data"], strict=True) if parsed["data"] else [()] * len(names)
        # as our CSV has it: whole numbers without a point, nothing for missing
        whole = (
            (
                int(value) if isinstance(value, float) and value.is_integer() else value
                for value in column
            )
            for column in columns
        )
        texts = [["" if value is None else str(value) for value in column] for column in whole]
        return pa.table(dict(zip(names, texts, strict=True)))
    except (ArffException, ValueError):
        raise SourceError(
            f"{visit.host}: data set {number} is not a dense ARFF file in UTF-8"
        ) from None


def uci_table(number: int, visit: Visit) -> pa.Table:
    """A UCI data set as text, shape (rows, columns); a missing value is empty. Raises SourceError:
    names the host and what happened.
    """
    path = _file(
        _description(f"{visit.base}/api/dataset?id={number}", "data", visit), "data_url", visit
    )
    try:
        return read_text_table(path)
    except DataError as error:
        raise SourceError(
            f"{visit.host}: data set {number} is not a CSV file: {error.rule}"
        ) from None


def _description(url: str, key: str, visit: Visit) -> dict[str, Any]:
    path = visit.scratch / "description.json"
    download(
        url,
        path,
        replace(visit, limits=replace(visit.limits, max_bytes=_DESCRIPTION_BYTES), progress=None),
    )
    try:
        description = json.loads(path.read_bytes())[key]
    except (ValueError, KeyError, TypeError, RecursionError):
        description = None
    if not isinstance(description, dict):
        raise SourceError(f"{visit.host}: the description is not JSON with {key!r}")
    return description


def _file(description: dict[str, Any], key: str, visit: Visit, md5: str | None = None) -> Path:
    url = description.get(key)
    if not isinstance(url, str) or not url:
        raise SourceError(
            f"{visit.host}: the description has no {key!r}; this data set cannot be had as one file"
        )
    path = visit.scratch / "download.csv"
    download(url, path, visit, md5=md5)
    return path


def to_our_form(theirs: pa.Table, remote: Remote, missing: str | None, where: str) -> pa.Table:
    """Rename columns, then replace values, scale numbers and add the published split.

    Repositories leave missing values empty; they become the contract's `missing` marker. All parts
    of `remote` but `rename` go by our names of columns. Tables are text, of shape (rows, columns);
    `where` is the repository, for messages. Raises DataError: `remote` names a column that is not
    there, or scales what is no number.
    """
    ours = theirs.rename_columns([remote.rename.get(name, name) for name in theirs.column_names])
    for key, named, table in (
        ("rename", remote.rename, theirs),
        ("values", remote.values, ours),
        ("scale", remote.scale, ours),
    ):
        for name in named:
            if name not in table.column_names:
                raise DataError(
                    where, f"is not in the download, though `{key}` names it", column=name
                )
    columns: dict[str, list[str]] = {}
    for name in ours.column_names:
        mapping = remote.values.get(name, {})
        values = [
            missing if value == "" and missing is not None else value
            for value in ours.column(name).to_pylist()
        ]
        values = [mapping.get(value, value) for value in values]
        if name in remote.scale:
            try:  # decimal products: 0.1 times 3 is 0.3, so that the rows keep their digest
                factor = Decimal(str(remote.scale[name]))
                values = [
                    value if value == missing else format(Decimal(value) * factor, "f")
                    for value in values
                ]
            except InvalidOperation:
                raise DataError(
                    where, "is scaled but holds something other than numbers", column=name
                ) from None
        columns[name] = values
    if remote.published_split is not None:
        name, first_count, first, rest = remote.published_split
        if first_count > ours.num_rows:
            raise DataError(
                where,
                f"has {ours.num_rows} rows; expected {first_count} in the first part of the "
                f"published split",
            )
        columns[name] = [first] * first_count + [rest] * (ours.num_rows - first_count)
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
