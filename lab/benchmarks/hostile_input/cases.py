"""What a hostile case is: a file, a path or an address, what the product makes of it, and whether a
planted value shows.
"""

from __future__ import annotations

import io
import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpicl.contract import Contract, load_contract, parse_contract
from dpicl.contract.load import contract_digest
from dpicl.data.central.aggregate import AggregateOptions, assign, partition
from dpicl.data.prompts import central_demonstrations, central_queries, local_queries
from dpicl.data.reading.checks import violations
from dpicl.data.reading.encode import encode_queries
from dpicl.data.reading.source import load_source
from dpicl.data.reading.split import split_table
from dpicl.ground.cache import FetchLimits, Visit
from dpicl.ground.downloads import download
from dpicl.ground.errors import DpiclError
from dpicl.ground.randomness import stream
from dpicl.ground.types import PrivateTable, QueryTable
from dpicl.home.settings import Settings
from dpicl.release.pipelines import load_pipelines, override, registry, units_of
from dpicl.runs.run_folder import run_folder
from lab.in_memory import averages
from tests.library.examples import random_table

CANARIES = ("zq7", "7319042")
"""What every planted value begins with, as text and as a number."""
COLUMNS = {
    "age": {"type": "integer", "bounds": [0, 120]},
    "height": {"type": "real", "bounds": [0.5, 2.5]},
    "colour": {"type": "category", "categories": ["red", "green", "blue"]},
    "y": {"type": "category", "categories": ["no", "yes"]},
}
_PEOPLE = {
    "version": 1,
    "name": "people",
    "description": "Four columns, and one that is not read.",
    "source": {
        "title": "t",
        "licence": "l",
        "citation": "c",
        "file": "people.csv",
        "ignore": ["note"],
    },
    "privacy": {"budget": {"epsilon": 1}},
    "split": {"test_fraction": 0.5},
    "columns": COLUMNS,
    "label": {"column": "y", "parts": [["no"], ["yes"]], "question": "Yes?"},
    "groups": {2: ["label"]},
    "local": [{"name": "band", "column": "age", "cuts": [40], "texts": ["young", "old"]}],
    "prompts": {"local": {"text": "{band}"}, "central": {"text": "{age} {height} {colour}"}},
}
LIMITS = FetchLimits(connect_seconds=1, read_seconds=1, deadline_seconds=2, attempts=1)


@dataclass(frozen=True)
class Case:
    """`kind` is a declaration (`contract`, `pipelines`), a table (by its suffix), or `source`,
    `url`, `name`, `place`.

    `content` is the file's bytes, the path, address or name, or what lays the file out in a folder.
    """

    name: str
    kind: str
    content: bytes | str | Callable[[Path], Path]


@dataclass(frozen=True)
class Outcome:
    """`verdict` is accepted, refused or traceback; `leaks` counts texts that show a planted
    value.
    """

    name: str
    verdict: str
    leaks: int
    told: str


def attempt(case: Case, folder: Path) -> Outcome:
    """What the product makes of a case, working in an empty folder."""
    with _logged() as log:
        try:
            _USES[case.kind](case.content, folder)
            verdict, texts = "accepted", [""]
        except DpiclError as error:
            verdict, texts = "refused", _texts(error)
        except Exception as error:  # noqa: BLE001 - these are what is counted
            verdict, texts = "traceback", _texts(error)
    texts.append(log.getvalue())
    return Outcome(
        case.name,
        verdict,
        sum(any(canary in text for canary in CANARIES) for text in texts),
        texts[0][-1500:],
    )


def _texts(error: Exception) -> list[str]:
    return [
        "".join(traceback.format_exception(error))
        if not isinstance(error, DpiclError)
        else str(error),
        repr(error),
        repr(vars(error)),
        "".join(traceback.format_exception(error)),
    ]


@contextmanager
def _logged() -> Iterator[io.StringIO]:
    """All that is logged meanwhile, at any level."""
    log, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(log), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield log
    finally:
        root.setLevel(level)
        root.removeHandler(handler)


def people(file: str = "people.csv") -> Contract:
    """The contract of the table that data files hold, with something at stake."""
    contract = parse_contract(
        {**_PEOPLE, "source": {**_PEOPLE["source"], "file": file}},  # type: ignore[dict-item]
        "people.yaml",
    )
    assert isinstance(contract, Contract)
    return contract


def _contract(content: Any, folder: Path) -> None:
    """A contract that loads can be grouped by, averaged and put into words."""
    path = folder / "shop.yaml"
    path.write_bytes(content)
    contract = load_contract(path)
    contract_digest(contract)
    assert isinstance(contract, Contract)
    table = random_table(contract, 4, 0)
    for shots in (shots for shots in contract.shots if shots <= 64):
        groups, members = partition(contract, shots), assign(PrivateTable(table), contract, shots)
        released = averages(
            PrivateTable(table),
            members,
            groups,
            contract,
            epsilon=1.0,
            options=AggregateOptions(),
            stream=stream(0, "", "", ""),
        )
        central_demonstrations(released, contract)
    central_queries(QueryTable(table), contract)
    local_queries(encode_queries(QueryTable(table), contract), contract)
    violations(table, contract)


def _pipelines(content: Any, folder: Path) -> None:
    """Pipelines that load have models and units, and take options of the command line."""
    path = folder / "pipelines.yaml"
    path.write_bytes(content)
    pipelines = load_pipelines(path)
    registry(pipelines, path.name)
    for pipeline in pipelines.pipelines.values():
        [list(unit.cells("icl")) for unit in units_of(pipeline)]
        override(pipeline, {"epsilons": ["1", "inf"]})


def _table(suffix: str) -> Callable[[Any, Path], None]:
    def use(content: Any, folder: Path) -> None:
        (folder / f"people{suffix}").write_bytes(content)
        _rows(f"people{suffix}", folder)

    return use


def _rows(file: Any, folder: Path) -> None:
    """Rows that load are checked and split."""
    contract = people(file)
    table = load_source(contract, data_folder=folder, cache_folder=folder / "cache")
    violations(table, contract)
    split_table(table, contract, key=bytes(32))


def _address(url: Any, folder: Path) -> None:
    download(url, folder / "x", Visit("https://www.openml.org", folder, LIMITS))


def _name(name: Any, folder: Path) -> None:
    settings = Settings(folder, folder, folder, folder / "pipelines.yaml", folder / "runs")
    run_folder(settings, name)
    settings.contract(name)


def _place(lay_out: Any, folder: Path) -> None:
    path = lay_out(folder)
    if path.suffix == ".yaml":
        load_contract(path)
    else:
        _rows(path.name, folder)


_USES: dict[str, Callable[[Any, Path], None]] = {
    "contract": _contract,
    "pipelines": _pipelines,
    ".csv": _table(".csv"),
    ".csv.gz": _table(".csv.gz"),
    ".parquet": _table(".parquet"),
    "source": _rows,
    "url": _address,
    "name": _name,
    "place": _place,
}
