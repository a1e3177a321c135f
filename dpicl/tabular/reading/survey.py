"""Tables that are read in batches: Parquet files, one after another in the order of their names.

A batch is a range of so many rows of all files together, so that it is the same however the rows
are cut into files and row groups. Whether a table is read so is said by its contract alone
(`in_batches`), never by how many rows there are: work in pieces is seen by others.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpicl.contract.models import Contract
from dpicl.errors import DataError, SourceError
from dpicl.files.bounded import below
from dpicl.files.deliveries import names_in
from dpicl.files.objects import SCHEME, Stored
from dpicl.files.row_groups import Footer, read_footer, read_rows
from dpicl.tabular.reading.header import check_columns
from dpicl.tabular.reading.parse import typed_table

BATCH_ROWS, WHOLE_ROWS = 1 << 17, 1 << 19
"""Rows of a batch; and the largest `population` that is read whole."""
_SUFFIX = ".parquet"


def in_batches(contract: Contract) -> bool:
    """Whether the rows are read in batches: of a folder or query whose contract states a
    `population` of more than `WHOLE_ROWS`, and nothing that is known of all rows only, which are
    persons, a check `unique` and a digest of sorted rows.
    """
    source, has_batches = contract.source, (contract.population or 0) > WHOLE_ROWS
    needs_all = (
        contract.privacy.person
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
            first, last = max(start - at, 0), min(stop - at, footer.rows)
            if first < last or (start == stop == at == 0):
                place, columns = place_of(self.folder, name, contract), list(contract.read_columns)
                tables.append(
                    typed_table(
                        read_rows(place, footer, columns, first, max(first, last), name),
                        contract,
                        name,
                    )
                )
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
                    one["name"],
                    Footer(
                        one["size"],
                        one["modified_ns"],
                        tuple(one["groups"]),
                        one.get("version", ""),
                    ),
                )
                for one in content
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
    for name in folder_files(contract, data_folder):
        footer = read_footer(
            place_of(folder, name, contract),
            partial(check_columns, contract=contract, where=name),
            name,
        )
        files.append((name, footer))
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
