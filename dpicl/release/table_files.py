"""Tables in files that appear whole or not at all: Parquet, and Arrow's own for what only a run
reads.

A large table in batches: the index that `ingest` wrote, and for each batch its rows to protect, its
held-out rows and its facts.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ipc

from dpicl.contract import Contract, Declared
from dpicl.contract.load import contract_digest
from dpicl.data.reading.batches import Facts, prepare
from dpicl.data.reading.files import Survey
from dpicl.ground.errors import RunError
from dpicl.ground.files import PRIVATE_MODE, PUBLIC_MODE, publish, read_json, write_json
from dpicl.ground.nouns import many
from dpicl.ground.types import PrivateTable
from dpicl.home.settings import KEY, Settings
from dpicl.ledger import load_key
from dpicl.ledger.keys import keyed_hash


def write_table(path: Path, table: pa.Table) -> Path:
    """A Parquet file."""
    return publish(path, lambda file: pq.write_table(table, file, compression="zstd"))


def keep_table(path: Path, table: pa.Table) -> Path:
    """A private table, for as long as a run needs it, as Arrow's file: written and read several
    times as fast as Parquet, at twice its size.
    """

    def write(file: BinaryIO) -> None:
        options = ipc.IpcWriteOptions(compression="lz4", unify_dictionaries=True)
        with ipc.new_file(file, table.schema, options=options) as writer:
            writer.write_table(table)

    return publish(path, write, mode=PRIVATE_MODE)


def kept_table(path: Path) -> pa.Table:
    """The rows that `keep_table` wrote."""
    with path.open("rb") as file:
        return ipc.open_file(file).read_all()


def write_row_groups(path: Path, tables: Iterator[pa.Table], *, mode: int = PUBLIC_MODE) -> Path:
    """A Parquet file of one table or more that are made one after another; each is a row group at
    least.
    """

    def write(file: BinaryIO) -> None:
        first = next(tables)
        with pq.ParquetWriter(file, first.schema, compression="zstd") as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table)

    return publish(path, write, mode=mode)


def read_row_groups(path: Path) -> Iterator[pa.Table]:
    """The rows of a Parquet file, so many at a time as were written together."""
    with path.open("rb") as file:
        groups = pq.ParquetFile(file)
        for number in range(groups.num_row_groups):
            yield groups.read_row_group(number)


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a Parquet file, or these columns of them."""
    with path.open("rb") as file:
        # `pq.read_table` would import data sets of files
        table = pq.ParquetFile(file).read(columns=columns)
    return table if columns is None else table.select(columns)


INDEX = "private_batches.json"
PARTS = 16
"""Pieces of work at least, however many batches there are: how many is seen in logs, on pages and
in names of tasks. Many workers make it more.
"""


def split_key(settings: Settings, contract: Declared) -> bytes | None:
    """32 secret bytes that private rows are held out by, from the installation's key and the
    account's name: the same for every run on an asset, so that the same rows are held out; None for
    a benchmark, which needs none.
    """
    if contract.is_benchmark:
        return None
    return bytes.fromhex(keyed_hash(load_key(settings.home / KEY), "split", contract.name))


@dataclass(frozen=True)
class Batches:
    """The batches of one table in one run; `survey` is None where all of them are there already."""

    contract: Contract
    place: Path
    count: int
    survey: Survey | None
    key: bytes | None = None
    """That rows of a table with something at stake are split by."""

    @staticmethod
    def find(contract: Declared, settings: Settings, folder: Path) -> Batches | None:
        """The batches of a table that was ingested so, into this private folder; None where it is
        whole. Raises RunError: they were made under another contract.
        """
        if not (folder / INDEX).exists():
            return None
        assert isinstance(contract, Contract)
        content = read_json(folder / INDEX)
        if content["contract"] != contract_digest(contract):
            raise RunError(
                f"{contract.name}: its rows were prepared under another contract; start a new run"
            )
        survey = (
            None
            if content["files"] is None
            else Survey.read(content["files"], Path(content["folder"]))
        )
        place = private_folder(folder, content["place"])
        return Batches(contract, place, content["count"], survey, split_key(settings, contract))

    def numbers(self, part: int, parts: int) -> range:
        """The batches of one piece of work."""
        return range(part, self.count, parts)

    def train(self, number: int) -> PrivateTable:
        """Rows to protect, in short types."""
        return PrivateTable(kept_table(self._file("train", number)))

    def test(self, number: int) -> pa.Table:
        """Held-out rows."""
        return kept_table(self._file("test", number))

    def facts(self) -> Facts:
        """Of all batches; prepares those that are missing."""
        parts = []
        for number in range(self.count):
            self.prepare(number)
            told: dict[str, Any] = read_json(self._facts_file(number))
            broken = {int(place): count for place, count in told["broken"].items()}
            parts.append(
                Facts(
                    told["rows"],
                    told["train_rows"],
                    tuple(told["labels"]),
                    broken,
                    tuple(told["hashes"]),
                    tuple(told["all_hashes"]),
                )
            )
        return Facts.added(parts)

    def prepare(self, number: int) -> None:
        """Read, check and split a batch, unless it is done. Raises DataError: the rows break the
        contract; RunError: it is gone.
        """
        if self._facts_file(number).exists():
            return
        if self.survey is None:
            raise RunError(f"{self.contract.name}: a batch of its query is gone; start a new run")
        self.keep(number, self.survey.batch(number, self.contract))

    def keep(self, number: int, table: pa.Table) -> None:
        """Check, split and store a batch."""
        batch = prepare(table, self.contract, key=self.key)
        check_open(self.place)
        keep_table(self._file("train", number), batch.train)
        keep_table(self._file("test", number), batch.test)
        write_json(self._facts_file(number), asdict(batch.facts), mode=PRIVATE_MODE)

    def _file(self, kind: str, number: int) -> Path:
        return self.place / f"{kind}-{number:05}.arrow"

    def _facts_file(self, number: int) -> Path:
        return self.place / f"facts-{number:05}.json"


def check_open(folder: Path) -> None:
    """A worker that comes late must not make a run's folder of private files again. Raises
    RunError: the run has ended.
    """
    if not folder.exists():
        raise RunError(f"{folder.name}: the run has ended meanwhile; nothing private is kept of it")


def begin(survey: Survey, contract: Contract, folder: Path) -> str:
    """Note what there is to prepare; reads no row."""
    count = survey.batches
    _write_index(
        folder,
        contract,
        {
            "count": count,
            "place": "batches",
            "folder": str(survey.folder),
            "files": survey.as_json(),
        },
    )
    return _in_words(contract, survey.rows, count)


def keep_stream(
    tables: Iterator[pa.Table], contract: Contract, settings: Settings, folder: Path
) -> str:
    """Prepare the batches of a query as they come, in a folder that counts once all are there: the
    same query may give other rows later.

    Raises:
        DataError: the rows break the contract.
    """
    name = f"batches-{secrets.token_hex(4)}"
    key = split_key(settings, contract)
    mine = private_folder(folder, name)
    count = 0
    rows = 0
    try:
        for count, table in enumerate(tables, 1):
            rows += table.num_rows
            Batches(contract, mine, 0, None, key).keep(count - 1, table)
        _write_index(folder, contract, {"count": count, "place": name, "folder": "", "files": None})
    finally:
        index = read_json(folder / INDEX) if (folder / INDEX).exists() else {}
        if index.get("place") != name:
            shutil.rmtree(mine)
    return _in_words(contract, rows, count)


def _in_words(contract: Contract, rows: int, batches: int) -> str:
    """A line of counts; the number of batches goes by that of the rows."""
    return (
        f"{many(rows, 'row')} in {many(batches, 'batch', 'batches')}"
        if contract.tells_row_count
        else "rows in batches"
    )


def _write_index(folder: Path, contract: Contract, content: dict[str, Any]) -> None:
    write_json(
        folder / INDEX, {"contract": contract_digest(contract), **content}, mode=PRIVATE_MODE
    )


def private_folder(folder: Path, *below: str) -> Path:
    """A folder below a private one, made for its owner alone."""
    for name in below:
        folder = folder / name
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder
