"""Rows that a model is asked about: a file that the contract declares public, with the right
answers, or a user's own, without a label.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpicl.contract.models import Contract
from dpicl.data.reading.files import file_sha256, read_table
from dpicl.data.reading.parse import check_distinct, typed_table
from dpicl.data.reading.written import read_columns
from dpicl.ground.errors import DataError, SourceError
from dpicl.ground.records import BYTE_ORDER_MARK, below
from dpicl.ground.types import QueryTable

AS_WE_WRITE: dict[str, Any] = {
    "delimiter": ",",
    "decimal": ".",
    "encoding": "utf-8",
    "dates": None,
    "rename": {},
}
"""What `source` would say of files of released rows."""


def load_queries(contract: Contract, *, data_folder: Path | None) -> pa.Table | None:
    """The rows of the contract's `queries`, typed as the source's are, without anybody's id; None
    where it has none. Raises SourceError: the file is not at hand (the message says what to type),
    or not that of `sha256`; DataError: the file breaks the contract.
    """
    if contract.queries is None:
        return None
    path = None if data_folder is None else below(data_folder, contract.queries.file, contract.name)
    if path is None or not path.exists():
        raise SourceError(
            f"{contract.name}: no queries at hand; set DPICL_DATA to the folder that holds "
            f"{contract.queries.file}"
        )
    expected = contract.queries.sha256
    if expected is not None:
        actual = file_sha256(path)
        if actual != expected:
            raise SourceError(
                f"{contract.name}: {path.name}: the file has sha256 {actual[:12]}, expected "
                f"{expected[:12]}"
            )
    # of rows that protect nobody a person's id need not be there, nor the day on which a row
    # arrived, nor its sign; they are dropped where they are
    person = contract.person
    source = contract.source
    unread = (person and person.id_column, source.arrived, source.sign)
    ignored = {
        "ignore": (*source.ignore, *filter(None, unread)),
        "arrived": None,
        "sign": None,
    }
    rows = contract.privacy.model_copy(update={"unit": "row", "person": None})
    contract = contract.model_copy(
        update={"privacy": rows, "source": source.model_copy(update=ignored)}
    )
    table = read_table(path, contract.refusing())
    if not table.num_rows:
        raise DataError(path.name, "has no rows; expected at least one to ask")
    return table


def read_unlabelled(data: bytes, contract: Contract, where: str) -> QueryTable:
    """A user's rows, in a file of any kind that the contract's may be and written as it is, or as
    dpicl writes released rows; columns that are no features are ignored. Raises DataError: a
    feature is missing, a value breaks the contract, or there is no row.

    Args:
        where: the file's name, for messages; CSV if its ending is none that is known.
    """
    try:
        return _as_stated(data, contract, where)
    except DataError:
        plain = contract.model_copy(
            update={"source": contract.source.model_copy(update=AS_WE_WRITE)}
        )
        if plain.source == contract.source:
            raise
        try:
            return _as_stated(data, plain, where)
        except DataError:
            if _has_our_header(data, contract):
                raise
        raise  # of the form that the contract states


def _has_our_header(data: bytes, contract: Contract) -> bool:
    """Whether the first line has all features between commas, where those of the contract's files
    are between other marks.
    """
    line = data.removeprefix(BYTE_ORDER_MARK).partition(b"\n")[0].decode(errors="replace")
    names = next(csv.reader([line.rstrip("\r")]), [])
    return contract.source.delimiter != "," and set(contract.features) <= set(names)


def _as_stated(data: bytes, contract: Contract, where: str) -> QueryTable:
    """Rows of a file that is written as `source` states."""

    def check(names: list[str]) -> tuple[str, ...]:
        check_distinct(names, where)
        missing = [name for name in contract.features if name not in names]
        if missing:
            rule = (
                f"is not among the columns; expected all {len(contract.features)} features of the "
                f"contract"
            )
            raise DataError(where, rule, column=missing[0])
        return contract.features

    columns = read_columns(data, where, contract, check, wanted=contract.features, known=None)
    filled = {name: columns.column(name) for name in contract.features}
    contract = contract.model_copy(
        update={"source": contract.source.model_copy(update={"arrived": None, "sign": None})}
    )
    for name in contract.read_columns:
        # any value will do for a column that no prompt shows, such as the label
        if name not in filled:
            column = contract.columns.get(name)
            bound = "nobody" if column is None else column.any_value
            filled[name] = pa.array([bound] * columns.num_rows)
    if not columns.num_rows:
        raise DataError(where, "has no rows; expected at least one")
    typed = typed_table(pa.table(filled), contract.refusing(), where)
    if typed.num_rows < columns.num_rows:
        raise DataError(
            where,
            "holds rows with a missing value; expected every feature",
            count=columns.num_rows - typed.num_rows,
        )
    return QueryTable(typed.select(list(contract.columns)))
