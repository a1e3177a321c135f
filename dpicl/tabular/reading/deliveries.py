"""Deliveries: a folder with a file for each period of a horizon, for rows that do not say when they
arrived.

Trust       as the method that calls it: how many rows a delivery has stays secret; which files
            there are is public, by the contract's word.
Unit        One row.
Neighbours  both: a row belongs to the period of its file, so that one that comes, goes or changes
            moves no other.
Guarantee   none spent; stability 1 (`stability`). Only deliveries that are yet to be counted are
            read: one that is changed or comes after its period was frozen is late, and enters
            nowhere.

That a file is not there says one thing alone, which the contract states (`source.undelivered`): its
rows are yet to come, and nothing is released; or nothing arrived. A file without rows says that
nothing arrived, in either case. So whoever delivers writes a file whether or not there are rows, or
leaves it out where there are none; and no refusal depends on how many there are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from dpicl.contract.models import Contract
from dpicl.files.deliveries import by_period, check_delivered
from dpicl.tabular.reading.read import SUFFIXES, no_rows, read_table
from dpicl.tabular.reading.survey import place_of

PERIOD = ":period"
"""The column with the period of each row, counted from 1; no contract can name one so."""
_READ = b"dpicl deliveries"
"""Of a table's metadata: the periods whose deliveries were read, rows or none."""


def delivered(contract: Contract, data_folder: Path | None) -> dict[str, str]:
    """{period: file} of the deliveries that are there, of this horizon and of other times, below
    the data folder or by address; opens none. Raises SourceError: the folder is not at hand;
    DataError: something in it is not named as deliveries are, or a period has two files.
    """
    named, calendar = str(contract.source.deliveries), contract.releases.calendar
    return by_period(
        named,
        contract.name,
        data_folder,
        suffixes=SUFFIXES,
        is_period=calendar.is_period,
        example=calendar.periods[0],
    )


def read_deliveries(
    contract: Contract, data_folder: Path | None, periods: Iterable[int]
) -> pa.Table:
    """The rows of these periods, typed by the contract as `parse.typed_table` types them, perhaps
    none; with a column PERIOD. Raises SourceError: one is not delivered yet, and nothing was read;
    DataError: a file breaks a rule; names file, column, rule and count.
    """
    names, files, wanted = (
        contract.releases.calendar.periods,
        delivered(contract, data_folder),
        sorted(set(periods)),
    )
    if contract.source.undelivered == "refused":
        check_delivered(
            files,
            [names[period - 1] for period in wanted],
            contract.name,
            str(contract.source.deliveries),
            SUFFIXES,
        )
    tables = [_of_period(no_rows(contract), 0)]
    for period in wanted:
        if (file := files.get(names[period - 1])) is not None:
            tables.append(
                _of_period(
                    read_table(
                        place_of(data_folder or Path(), file, contract), contract, part=True
                    ),
                    period,
                )
            )
    return (
        pa.concat_tables(tables)
        .combine_chunks()
        .replace_schema_metadata({_READ: json.dumps(wanted).encode()})
    )


def were_read(table: pa.Table) -> Sequence[int]:
    """The periods whose deliveries a table has the rows of."""
    return [int(one) for one in json.loads((table.schema.metadata or {}).get(_READ, b"[]"))]


def _of_period(table: pa.Table, period: int) -> pa.Table:
    return table.append_column(PERIOD, [np.full(table.num_rows, period, dtype=np.int64)])
