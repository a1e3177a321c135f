"""Public repositories: a data set's number to a table of text, in the repository's form.

OpenML   GET {base}/api/v1/json/data/{id}   -> data_set_description: url, format, md5_checksum; dense ARFF
UCI      GET {base}/api/dataset?id={id}     -> data: data_url; CSV with a header
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpicl.errors import DataError, SourceError
from dpicl.tabular.reading.read import read_text_table
from dpicl.tabular.reading.remote import download
from dpicl.tabular.reading.visit import Visit

_DESCRIPTION_BYTES = 1 << 20


def openml_table(number: int, visit: Visit) -> pa.Table:
    """An OpenML data set as text, shape (rows, columns); a missing value is empty. Raises SourceError: names the host and what happened."""
    description = _description(f"{visit.base}/api/v1/json/data/{number}", "data_set_description", visit)
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
        return pa.table({name: list(map(_as_csv, column)) for name, column in zip(names, columns, strict=True)})
    except (ArffException, ValueError):
        raise SourceError(f"{visit.host}: data set {number} is not a dense ARFF file in UTF-8") from None


def _as_csv(value: str | float | None) -> str:
    """A value as our CSV writes it: whole numbers without a point, nothing for missing."""
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def uci_table(number: int, visit: Visit) -> pa.Table:
    """A UCI data set as text, shape (rows, columns); a missing value is empty. Raises SourceError: names the host and what happened."""
    path = _file(_description(f"{visit.base}/api/dataset?id={number}", "data", visit), "data_url", visit)
    try:
        return read_text_table(path)
    except DataError as error:
        raise SourceError(f"{visit.host}: data set {number} is not a CSV file: {error.rule}") from None


def _description(url: str, key: str, visit: Visit) -> dict[str, Any]:
    path = visit.scratch / "description.json"
    download(url, path, replace(visit, limits=replace(visit.limits, max_bytes=_DESCRIPTION_BYTES), progress=None))
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
        raise SourceError(f"{visit.host}: the description has no {key!r}; this data set cannot be had as one file")
    path = visit.scratch / "download.csv"
    download(url, path, visit, md5=md5)
    return path
