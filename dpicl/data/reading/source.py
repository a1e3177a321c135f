"""Where the rows of a contract come from: bundled, a file or folder (local, or of an S3 store), a
database, or a cached download.

All ways give the same typed rows: where the contract states `content_sha256`, rows are
checked against it and put in canonical order, so that one split fits every way.

From `read_deliveries` on: deliveries: a folder with a file for each period of a horizon, for rows
that do not say when they arrived.

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

From `arrival_periods` on: in which period of a horizon a row arrived: said by the row's own day, or
by the file that it was delivered in (`read_deliveries`).

Trust       as the method that calls it: how many rows a period has stays secret.
Unit        One row.
Neighbours  both: a row's period depends on that row alone, so that one that comes, goes or changes
            moves no other.
Guarantee   none spent; stability 1 (`stability`). A row whose period was counted before it came is
            late, and enters nowhere: periods that are counted are not read again.

Symbols     periods are counted from 1; rows of days before the first belong to it, those of days
            after the last to none, 0.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from dpicl.contract.declared import Remote
from dpicl.contract.models import Contract
from dpicl.contract.periods import period_at
from dpicl.data.reading.connection import Check
from dpicl.data.reading.database import check_address, query_batches
from dpicl.data.reading.files import (
    BATCH_ROWS,
    canonical_order,
    delivered,
    folder_files,
    forms_of,
    no_rows,
    place_of,
    read_table,
    rows_digest,
    survey,
)
from dpicl.data.reading.parse import typed_table
from dpicl.data.reading.written import SUFFIXES
from dpicl.ground.cache import BaseUrls, FetchLimits, Progress, Visit, checked
from dpicl.ground.errors import DataError, SourceError
from dpicl.ground.installed import extra_of
from dpicl.ground.objects import SCHEME, Stored, store_settings
from dpicl.ground.records import below
from dpicl.ground.types import PrivateTable

_SHIPPED = {"e23f549587e40b6fb1a04c430b12563a7007e335ec6f32464e1ee34657e11004": "diabetes.csv"}
"""Public rows that come with dpicl, by the digest that a contract states of them
(`content_sha256`).
"""
_BUNDLED_COLUMNS = (
    "mean_radius",
    "mean_texture",
    "mean_perimeter",
    "mean_area",
    "mean_smoothness",
    "mean_compactness",
    "mean_concavity",
    "mean_concave_points",
    "mean_symmetry",
    "mean_fractal_dimension",
)
"""Scikit-learn's breast cancer set begins with these, which are what we use."""


def load_source(
    contract: Contract, *, data_folder: Path | None, cache_folder: Path, check: Check | None = None
) -> pa.Table:
    """The rows of a contract, typed; goes to the network only for what the contract itself says is
    elsewhere: a query, an address `s3://…`. `check` may refuse a query's database.
    Raises SourceError: no rows are at hand (the message says what to type), or they are not those
    of `content_sha256`; DataError: the rows break the contract.
    """
    path = find_rows(contract, data_folder=data_folder, cache_folder=cache_folder)
    source = contract.source
    if source.deliveries is not None:  # of which late ones, and those to come, must not be read
        raise SourceError(
            f"{contract.name}: its deliveries are read one by one, by the command that counts them"
        )
    if source.query is not None:  # in canonical order: a database gives rows in any
        batches = [no_rows(contract), *query_parts(contract, check)]
        place = "query"
        table = canonical_order(pa.concat_tables(batches).combine_chunks())
    elif source.folder is not None:
        files = survey(contract, data_folder)
        assert files is not None
        place = source.folder
        table = files.whole(contract)
    elif (address := _address(contract)) is not None:
        place = address
        table = read_table(Stored(address), contract)
    elif path is not None:
        place = path.name
        table = read_table(path, contract)
    else:
        place = "bundled rows"
        table = typed_table(_bundled(), contract, place)
    return _verified(table, contract, f"{contract.name}: {place}")


def _bundled() -> pa.Table:
    """The rows that come with scikit-learn; it is not imported for them, which would take a
    second.
    """
    package = find_spec("sklearn")
    assert package is not None and package.origin is not None, "a package that is required"
    head, *lines = (
        (Path(package.origin).parent / "datasets" / "data" / "breast_cancer.csv")
        .read_text("ascii")
        .splitlines()
    )
    values = np.array([line.split(",") for line in lines], dtype=np.float64)
    answers = np.array(head.split(",")[2:])
    columns = {name: values[:, position] for position, name in enumerate(_BUNDLED_COLUMNS)}
    return pa.table({**columns, "diagnosis": answers[values[:, -1].astype(int)]})


def query_parts(contract: Contract, check: Check | None = None) -> Iterator[pa.Table]:
    """The rows of a contract's query, so many at a time; raises what `query_batches` does."""
    assert contract.source.query is not None
    return query_batches(contract, contract.source.query, BATCH_ROWS, check)


def find_rows(contract: Contract, *, data_folder: Path | None, cache_folder: Path) -> Path | None:
    """The file that holds the rows, unread; None where they come otherwise, and look as if they
    could. Raises SourceError: no rows are at hand; the message says what to type; DataError: a
    folder holds something else than Parquet files.
    """
    source = contract.source
    if source.bundled is not None or source.frame:
        return None
    if source.query is not None:
        check_address(source.query, contract.name)
    elif _address(contract) is not None:
        store_settings()
    elif source.folder is not None:
        folder_files(contract, data_folder)
    elif source.deliveries is not None:
        delivered(contract, data_folder, SUFFIXES)
    else:
        path = locate(contract, data_folder=data_folder, cache_folder=cache_folder)
        if path is not None:
            return path
        ways = []
        if source.openml or source.uci:
            ways.append(f"type `dpicl data fetch {contract.name}`")
        if source.file:
            ways.append(f"set DPICL_DATA to the folder that holds {source.file}")
        obtain = f" (where to get it: {source.obtain})" if source.obtain else ""
        raise SourceError(f"{contract.name}: no rows at hand; {', or '.join(ways)}{obtain}")
    return None


def _address(contract: Contract) -> str | None:
    """Of what lies in a store; None for all that is looked up on this machine."""
    named = contract.source.file or contract.source.folder or contract.source.deliveries
    return named if named is not None and named.startswith(SCHEME) else None


def locate(contract: Contract, *, data_folder: Path | None, cache_folder: Path) -> Path | None:
    """The local file, of a public table whose rows are compared with any ending that can be read;
    else the cached download, or what comes with dpicl; else nothing.
    Raises SourceError: the file's path leads out of the data folder.
    """
    paths = [cached_file(contract, cache_folder)]
    if (
        (file := contract.source.file) is not None
        and data_folder is not None
        and _address(contract) is None
    ):
        is_compared = contract.source.content_sha256 and contract.is_benchmark
        forms = forms_of(file, SUFFIXES) if is_compared else [file]
        paths = [*(below(data_folder, form, contract.name) for form in forms), *paths]
    return next((path for path in paths if path.exists()), None) or _shipped(contract)


def _shipped(contract: Contract) -> Path | None:
    name = _SHIPPED.get(contract.source.content_sha256 or "")
    if name is None:
        return None
    return checked(f"data/reading/shipped/{name}", Path(__file__).with_name("shipped") / name)


def cached_file(contract: Contract, cache_folder: Path) -> Path:
    """Where a download is stored; the name changes with what the contract says of its
    repository.
    """
    described = contract.source.model_dump(mode="json", include={"openml", "uci", "missing"})
    version = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:12]
    return cache_folder / f"{contract.name}-{version}.csv"


def fetch(
    contract: Contract,
    cache_folder: Path,
    *,
    base_urls: BaseUrls = BaseUrls(),  # noqa: B008
    limits: FetchLimits = FetchLimits(),  # noqa: B008
    progress: Progress | None = None,
) -> Path:
    """Download the rows from OpenML, or else from UCI, into the cache, in our form.

    The file appears only when it is complete, fits the contract and has its digest.
    Raises SourceError: names every repository that was tried and what happened there.
    """
    try:  # late, because reading local files needs no HTTP client
        from dpicl.data.reading.repository import openml_table, uci_table
    except ModuleNotFoundError as error:
        raise SourceError(f"{contract.name}: fetching: {extra_of(error) or error}") from None
    ways = [
        (openml_table, contract.source.openml, base_urls.openml),
        (uci_table, contract.source.uci, base_urls.uci),
    ]
    named = [(get, remote, base.rstrip("/")) for get, remote, base in ways if remote is not None]
    if not named:
        way = contract.source.obtain or "expected `openml` or `uci` under `source`"
        raise SourceError(f"{contract.name}: no public repository is named; {way}")
    problems = []
    for get, remote, base in named:
        try:
            cache_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with TemporaryDirectory(prefix=".fetch-", dir=cache_folder) as scratch:
                visit = Visit(base, Path(scratch), limits, progress)
                return _publish(
                    get(remote.id, visit),
                    remote,
                    visit,
                    contract,
                    cached_file(contract, cache_folder),
                )
        except SourceError as error:
            problems.append(str(error))
        except OSError as error:
            raise SourceError(
                f"{contract.name}: the cache cannot be written ({error.strerror})"
            ) from None
    raise SourceError(f"{contract.name}: " + "; ".join(problems))


def _publish(
    theirs: pa.Table, remote: Remote, visit: Visit, contract: Contract, final: Path
) -> Path:
    """Write a downloaded table in our form, check it, and only then let it appear."""
    from dpicl.data.reading.repository import to_our_form

    draft = visit.scratch / final.name
    try:
        pa_csv.write_csv(to_our_form(theirs, remote, contract.source.missing, visit.host), draft)
        _verified(read_table(draft, contract), contract, visit.host)
    except DataError as error:
        raise SourceError(
            f"{visit.host}: the download does not fit the contract: {error}"
        ) from None
    # what a repository gives away may still be rows that somebody's contract protects
    draft.chmod(0o600)
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    draft.replace(final)
    return final


def _verified(table: pa.Table, contract: Contract, where: str) -> pa.Table:
    expected = contract.source.content_sha256
    if expected is None:
        return table
    actual = rows_digest(table)
    if actual != expected:
        raise SourceError(
            f"{where}: the rows have content_sha256 {actual[:12]}, expected {expected[:12]}"
        )
    return canonical_order(table)


PERIOD = ":period"
"""The column with the period of each row, counted from 1; no contract can name one so."""
_READ = b"dpicl deliveries"
"""Of a table's metadata: the periods whose deliveries were read, rows or none."""


def read_deliveries(
    contract: Contract, data_folder: Path | None, periods: Iterable[int]
) -> pa.Table:
    """The rows of these periods, typed by the contract as `parse.typed_table` types them, perhaps
    none; with a column PERIOD. Raises SourceError: one is not delivered yet, and nothing was read;
    DataError: a file breaks a rule; names file, column, rule and count.
    """
    names = contract.periods
    wanted = sorted(set(periods))
    files = delivered(contract, data_folder, SUFFIXES, [names[period - 1] for period in wanted])
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
    return [int(period) for period in json.loads((table.schema.metadata or {}).get(_READ, b"[]"))]


def _of_period(table: pa.Table, period: int) -> pa.Table:
    return table.append_column(PERIOD, [np.full(table.num_rows, period, dtype=np.int64)])


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY, _LAST_DAY = (
    (end.replace(tzinfo=UTC) - _EPOCH).days for end in (datetime.min, datetime.max)
)
"""Of the calendar; a column of dates may hold others."""


def arrival_periods(table: PrivateTable, contract: Contract) -> np.ndarray:
    """The period of each row: shape (rows,), int64; the column of a row's day has days since
    1970.
    """
    if contract.is_delivered:
        return table.numbers(PERIOD)
    releases = contract.releases
    days, places = np.unique(table.numbers(str(contract.source.arrived)), return_inverse=True)
    number = {name: index for index, name in enumerate(releases.calendar.periods, 1)}
    first = (releases.first_day - _EPOCH).days

    def period_of(day: int) -> int:
        if day > _LAST_DAY:
            return 0
        return number.get(
            period_at(releases.every, _EPOCH + timedelta(days=max(day, _FIRST_DAY))),
            1 if day < first else 0,
        )

    return np.array([period_of(int(day)) for day in days], dtype=np.int64)[places]


def has_arrivals(table: PrivateTable, contract: Contract, period: int) -> bool:
    """Whether a table holds the rows of a period, if there are any: of deliveries, only of those
    that were read.
    """
    return not contract.is_delivered or period in were_read(table.data)
