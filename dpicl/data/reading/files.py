"""Reading a table strictly, typed by its contract: a file of any kind (`written`).

A row digest tells whether two files hold the same rows, whatever their order and format.

Tables that are read in batches: Parquet files, one after another in the order of their names.

Folders in which each period of a calendar has a file, named by it; which are there is public, and
opens none of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.contract.models import Contract
from dpicl.contract.text import TextContract
from dpicl.data.reading.parse import check_columns, check_distinct, typed_table
from dpicl.data.reading.written import SUFFIXES, as_ours, read_columns
from dpicl.ground.errors import DataError, SourceError
from dpicl.ground.objects import SCHEME, Stored, names_below
from dpicl.ground.records import (
    Footer,
    below,
    read_bytes,
    read_csv,
    read_footer,
    read_rows,
)

_LARGEST = 2**62
"""Of a key that several columns are put into."""


def read_table(path: Path | Stored, contract: Contract, *, part: bool = False) -> pa.Table:
    """The rows of a file or object, typed by the contract; see `parse.typed_table`. A `part` of a
    source may have no header either.

    Raises DataError: the file cannot be read or breaks a rule; names file, column, rule and count,
    never a value; SourceError: the store does not give the object, or an extra is not installed.
    """
    if not path.name.endswith(SUFFIXES):
        raise DataError(
            path.name, "is of an unknown kind; expected a name that ends in " + ", ".join(SUFFIXES)
        )
    data = read_bytes(path, part=part)
    if part and not data.strip():  # of nothing there is no header either
        return no_rows(contract)

    def columns_to_read(names: list[str]) -> list[str]:
        check_columns(names, contract, path.name)
        return list(contract.read_columns)

    columns = read_columns(
        data,
        path.name,
        contract,
        columns_to_read,
        wanted=contract.read_columns,
        known={*contract.read_columns, *contract.source.ignore},
        leave_out=contract.leaves_out and not contract.exchanges,
    )
    return typed_table(columns, contract, path.name)


def no_rows(contract: Contract) -> pa.Table:
    """A table of none, typed as `read_table` types it."""
    return typed_table(
        pa.table({name: pa.array([], pa.string()) for name in contract.read_columns}),
        contract,
        contract.name,
    )


def read_text_table(path: Path) -> pa.Table:
    """All columns of any CSV file as text: shape (rows, columns).
    Raises DataError: as for `read_table`, without the rules of a contract.
    """
    return read_csv(read_bytes(path), lambda names: check_distinct(names, path.name), path.name)


def canonical_order(table: pa.Table) -> pa.Table:
    """The rows of a table as `read_table` types it, sorted by all columns, the first counting most;
    categories by their code.
    """
    return table.take(_order([_numbers(column) for column in table.columns]))


def rows_digest(table: pa.Table) -> str:
    """SHA-256 of the rows as a multiset, in hexadecimal, of a table as `read_table` types it.
    The same for any order of rows, columns and categories, and for any source format.
    """
    columns, header = [], []
    for name in sorted(table.column_names):
        column, used = table.column(name), []
        values = _numbers(column)
        # codes by the rank of those categories that occur, sorted as text
        if pa.types.is_dictionary(column.type):
            categories = column.combine_chunks().dictionary.to_pylist()
            used = sorted(categories[code] for code in np.flatnonzero(np.bincount(values)))
            rank = {category: number for number, category in enumerate(used)}
            values = np.array([rank.get(category, -1) for category in categories], dtype="<i8")[
                values
            ]
        values = values.astype(values.dtype.newbyteorder("<"))
        columns.append(values)
        header.append([name, values.dtype.str, used])
    order = _order(columns)
    digest = hashlib.sha256(json.dumps([1, table.num_rows, header]).encode())
    for values in columns:
        digest.update(values[order].tobytes())
    return digest.hexdigest()


def _order(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Rows sorted by all columns, the first counting most: shape (rows,). Whole numbers of
    neighbouring columns are sorted as one.
    """
    keys, sizes = list[np.ndarray](), list[int]()
    for values in columns:
        is_whole = (
            values.dtype.kind in "iu" and np.can_cast(values.dtype, np.int64) and len(values) > 0
        )
        low, high = (int(values.min()), int(values.max())) if is_whole else (0, _LARGEST)
        size = high - low + 1
        # as it is: a number with decimals, or of a range that a difference does not hold
        if size > _LARGEST:
            keys, sizes = [*keys, values], [*sizes, size]
        elif keys and sizes[-1] * size <= _LARGEST:
            keys[-1] = keys[-1] * size + (values.astype(np.int64) - low)
            sizes[-1] = sizes[-1] * size
        else:
            keys, sizes = [*keys, values.astype(np.int64) - low], [*sizes, size]
    if sizes[0] > _LARGEST:
        return np.lexsort(keys[::-1])
    # several times as fast as a stable sort; rows that are equal in all columns are the same ones
    order = np.argsort(keys[0])
    if len(keys) > 1:
        first = keys[0][order]
        alike = first[1:] == first[:-1]
        places = np.flatnonzero(np.append(alike, False) | np.append(False, alike))
        # 0.0 and -0.0 are equal, and stay in the order that they came in
        tied = np.sort(order[places])
        order[places] = tied[np.lexsort([key[tied] for key in reversed(keys)])]
    return order


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Values, or codes of a category column: shape (rows,)."""
    values = column.combine_chunks()
    return np.asarray(values.indices if pa.types.is_dictionary(values.type) else values)


BATCH_ROWS, WHOLE_ROWS = 1 << 17, 1 << 19
"""Rows of a batch; and the largest `population` that is read whole."""
_SUFFIX = ".parquet"


def in_batches(contract: Contract) -> bool:
    """Whether the rows are read in batches: of a folder or query whose contract states a
    `population` of more than `WHOLE_ROWS`, and nothing that is known of all rows only, which are
    persons, a check `unique` and a digest of sorted rows.
    """
    source = contract.source
    has_batches = (contract.population or 0) > WHOLE_ROWS
    needs_all = (
        contract.person
        or source.content_sha256
        or any(check.rule == "unique" for check in contract.checks)
    )
    return bool((source.folder or source.query) and has_batches and not needs_all)


@dataclass(frozen=True)
class Survey:
    """Parquet files below the data folder, or objects of a store by their addresses, in the order
    of their names.
    """

    folder: Path
    files: tuple[tuple[str, Footer], ...]

    @property
    def rows(self) -> int:
        """Of all files."""
        return sum(footer.rows for _, footer in self.files)

    @property
    def batches(self) -> int:
        """How many batches the rows come in, of a table that is read so: at least one, perhaps
        without rows.
        """
        return max(1, -(-self.rows // BATCH_ROWS))

    def batch(self, number: int, contract: Contract) -> pa.Table:
        """The rows of one batch, typed by the contract as `parse.typed_table` types them; perhaps
        none. Raises DataError: a file breaks a rule, or was changed since the survey.
        """
        return self._read(number * BATCH_ROWS, min((number + 1) * BATCH_ROWS, self.rows), contract)

    def whole(self, contract: Contract) -> pa.Table:
        """All rows in memory. Raises DataError: a file breaks a rule."""
        return self._read(0, self.rows, contract).combine_chunks()

    def _read(self, start: int, stop: int, contract: Contract) -> pa.Table:
        """A range of rows: every file's part of it; of the first file nothing where the range is
        empty.
        """
        tables, at = [], 0
        for name, footer in self.files:
            first = max(start - at, 0)
            last = min(stop - at, footer.rows)
            if first < last or (start == stop == at == 0):
                place = place_of(self.folder, name, contract)
                theirs = {ours: name for name, ours in contract.source.rename.items()}
                columns = [theirs.get(column, column) for column in contract.read_columns]
                rows = read_rows(place, footer, columns, first, max(first, last), name)
                tables.append(typed_table(as_ours(rows, contract), contract, name))
            at += footer.rows
        return pa.concat_tables(tables)

    def as_json(self) -> list[Any]:
        """For a file; the folder is left out."""
        return [{"name": name, **asdict(footer)} for name, footer in self.files]

    @staticmethod
    def read(content: list[Any], folder: Path) -> Survey:
        """The survey that `as_json` gave."""
        return Survey(
            folder,
            tuple(
                (
                    file["name"],
                    Footer(
                        file["size"],
                        file["modified_ns"],
                        tuple(file["groups"]),
                        file.get("version", ""),
                    ),
                )
                for file in content
            ),
        )


def survey(contract: Contract, data_folder: Path | None) -> Survey | None:
    """What the contract's folder of Parquet files holds, by the footers; None where the rows come
    otherwise: a file is read whole. Raises SourceError: the folder is not there, or holds no
    Parquet file; DataError: a file is no Parquet file, or has other columns than the contract.
    """
    named = contract.source.folder
    if named is None or (data_folder is None and not named.startswith(SCHEME)):
        return None
    files, folder = [], data_folder or Path()
    rename = contract.source.rename

    def check(names: list[str], where: str) -> None:
        # pieces are read by these names alone
        if absent := [name for name in rename if name not in names]:
            rule = "is not among the columns, though `source.rename` names it"
            raise DataError(where, rule, column=absent[0])
        check_columns([rename.get(name, name) for name in names], contract, where)

    for name in folder_files(contract, data_folder):
        place = place_of(folder, name, contract)
        files.append((name, read_footer(place, partial(check, where=name), name)))
    return Survey(folder, tuple(files))


def place_of(folder: Path, name: str, contract: Contract) -> Path | Stored:
    """A file below the data folder, or an object. Raises SourceError: it leads out of the
    folder.
    """
    return Stored(name) if name.startswith(SCHEME) else below(folder, name, contract.name)


def folder_files(contract: Contract, data_folder: Path | None) -> list[str]:
    """The files of the contract's folder, below the data folder or by their addresses, in the order
    of their names; opens none.

    Names that begin with a dot or an underscore are of those who write such folders, and are left
    alone. Raises SourceError: the folder is not at hand, empty, or cannot be read; DataError:
    something in it is not called as a Parquet file is.
    """
    named = str(contract.source.folder).rstrip("/")
    names = names_in(named, contract.name, data_folder)
    others = sum(not name.endswith(_SUFFIX) for name in names)
    if others:
        raise DataError(
            f"{named}/",
            f"holds other files than Parquet files; expected only names that end in {_SUFFIX}",
            count=others,
        )
    if not names:
        raise SourceError(
            f"{contract.name}: folder {named} holds no file; expected names that end in {_SUFFIX}"
        )
    return [f"{named}/{name}" for name in names]


def names_in(named: str, dataset: str, data_folder: Path | None) -> list[str]:
    """Names in a folder, below the data folder or in a store, in order, but those that begin with a
    dot or an underscore. Raises SourceError: it is not at hand, or cannot be read.
    """
    if named.startswith(SCHEME):
        every = names_below(named)
    elif data_folder is None or not (folder := below(data_folder, named, dataset)).is_dir():
        raise SourceError(
            f"{dataset}: no rows at hand; set DPICL_DATA to the folder that holds {named}/"
        )
    else:
        try:
            paths = [path for path in folder.iterdir() if not path.name.startswith((".", "_"))]
            # by a link, rows would be another account's too, or of two periods
            linked = any(not path.resolve().is_relative_to(folder) for path in paths)
            linked = linked or len(
                {(status.st_dev, status.st_ino) for status in (path.stat() for path in paths)}
            ) < len(paths)
        except OSError as error:
            raise SourceError(
                f"{dataset}: folder {named} cannot be read ({error.strerror})"
            ) from None
        if linked:
            raise SourceError(
                f"{dataset}: folder {named} holds links; expected files of its own, each once"
            )
        every = [path.name for path in paths]
    return sorted(name for name in every if not name.startswith((".", "_")))


def delivered(
    contract: Contract | TextContract,
    data_folder: Path | None,
    suffixes: Sequence[str],
    wanted: Iterable[str] = (),
) -> dict[str, str]:
    """{period: path of its file below the data folder, or its address} of the deliveries that are
    there, of this horizon and of other times; opens none. Raises SourceError: as `names_in`, or a
    wanted period has no file, where one is refused: its rows are yet to come; DataError: something
    in the folder is not named as deliveries are, or a period has two files.
    """
    folder = str(contract.source.deliveries).rstrip("/")
    calendar = contract.releases.calendar
    files, others = dict[str, str](), 0
    for name in names_in(folder, contract.name, data_folder):
        suffix = next((suffix for suffix in suffixes if name.endswith(suffix)), "")
        period = name.removesuffix(suffix)
        if not suffix or not calendar.is_period(period):
            others += 1
        elif period in files:
            raise DataError(f"{folder}/", f"has two files for {period}; expected one")
        else:
            files[period] = f"{folder}/{name}"
    if others:
        endings = ", ".join(suffixes)
        raise DataError(
            f"{folder}/",
            f"holds files that are named by no period; expected names such as "
            f"{calendar.periods[0]} with {endings}",
            count=others,
        )
    for period in wanted:
        if period not in files and contract.source.undelivered == "refused":
            raise SourceError(
                f"{contract.name}: {period} is not delivered yet; expected {folder}/{period} "
                f"with {' or '.join(suffixes)}, without rows if nothing arrived"
            )
    return files


def forms_of(file: str, suffixes: Sequence[str]) -> list[str]:
    """A file's name, and then with each other ending that can be read."""
    stem = next((file.removesuffix(suffix) for suffix in suffixes if file.endswith(suffix)), file)
    return [file, *(stem + suffix for suffix in suffixes if stem + suffix != file)]


def file_sha256(path: Path) -> str:
    """Of its bytes, 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
