"""Claims on assets: an asset is a thing and no spelling, so that after its cap is spent no other
way to say it gets anything.

files      by links of both kinds, roundabout paths, the folder that it lies in, a contract that
           says where it was before
databases  a file of SQLite by URLs, drivers, links and relative paths; of PostgreSQL as a caller
           gives its addresses
stores     objects and prefixes of a bucket; nothing of it is read
frames     rows in memory by the name of their account
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.csv as pa_csv
import yaml

from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.methods.mst_tabicl import MstTabicl
from dpicl.methods.tab_pe import TabPe
from dpicl.session import Session
from lab.audit.end_to_end.claims import Broken, apart
from lab.audit.end_to_end.commands import captured, protect, read_frame
from lab.audit.end_to_end.world import NAME, URL, Declaration, World, base_rows

Source = Mapping[str, Any]
"""Keys of a contract's `source`, and `account`."""
Spelling = Callable[[World], Source]
"""Makes what it needs beside the rows, and says where these are."""
_SPENT = "of cap"
"""In the refusal of a charge."""
_METHOD, _ROWS = GdpTabicl.name, MstTabicl.name
"""Of a contract, and of rows in memory."""


def one_cap(
    declaration: Declaration, spellings: Mapping[str, Spelling], *, first: Spelling | None = None
) -> Broken:
    """The whole cap is spent by `first`, or as the contract says; then every spelling is refused
    for that.
    """
    with apart(replace(declaration, cap=1.0)) as world:
        world.put(base_rows(declaration), declaration.kind)
        spending = (
            protect(_METHOD, contract=_contract(world, declaration, "first", first(world)))()
            if first
            else protect(_METHOD)()
        )
        if spending.code:
            return [f"the first release is refused: {spending.err}"]
        broken = []
        for number, (name, spelt) in enumerate(spellings.items()):
            output = protect(
                _METHOD, contract=_contract(world, declaration, f"spelt{number}", spelt(world))
            )()
            if output.code == 0:
                broken.append(f"{name}: gets what the asset's cap has no room for")
            elif _SPENT not in output.err:
                broken.append(f"{name}: is refused for something else: {output.err.strip()}")
    return broken


def _contract(world: World, declaration: Declaration, name: str, source: Source) -> str:
    """The world's contract under another name, on rows that are said otherwise."""
    content = replace(declaration, cap=1.0).contract() | {"name": name}
    kept = {
        key: value
        for key, value in content["source"].items()
        if key not in ("file", "folder", "query")
    }
    content["source"] = kept | {key: value for key, value in source.items() if key != "account"}
    content |= {key: value for key, value in source.items() if key == "account"}
    (world.root / "contracts" / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return name


def _linked(made: Callable[[Path, Path], object], old: str, new: str, **source: str) -> Spelling:
    """A link from a new name below the data folder to an old one."""

    def spelt(world: World) -> Source:
        made(world.data / old, world.data / new)
        return source

    return spelt


def _said(**source: Any) -> Spelling:
    return lambda _: source


def _soft(old: Path, new: Path) -> None:
    new.symlink_to(old)


_FILE = f"{NAME}.csv"
FILES: Mapping[str, Spelling] = {
    "another contract": _said(file=_FILE),
    "the account's name": _said(file=_FILE, account=NAME),
    "a symbolic link": _linked(_soft, _FILE, "soft.csv", file="soft.csv"),
    "a link to a link": _linked(_soft, "soft.csv", "softer.csv", file="softer.csv"),
    "a hard link": _linked(os.link, _FILE, "hard.csv", file="hard.csv"),
    "a link to a hard link": _linked(_soft, "hard.csv", "either.csv", file="either.csv"),
    "a folder that is a link": _linked(_soft, ".", "around", file=f"around/{_FILE}"),
    "a place of before": _said(file="public.csv", moved_from=_FILE),
    "an absolute path through a link": _linked(
        _soft, f"../data/{_FILE}", "whole.csv", file="whole.csv"
    ),
}
FOLDERS: Mapping[str, Spelling] = {
    "another contract": _said(folder=NAME),
    "a stroke at the end": _said(folder=f"{NAME}/"),
    "a file in it": _said(file=f"{NAME}/rows.parquet"),
    "a symbolic link": _linked(_soft, NAME, "soft", folder="soft"),
    "a file behind a link": _said(file="soft/rows.parquet"),
    "a hard link to a file in it": _linked(
        os.link, f"{NAME}/rows.parquet", "hard.parquet", file="hard.parquet"
    ),
}


def _at(
    address: Callable[[World], str], prepare: Callable[[World], object] = lambda _: None
) -> Spelling:
    def spelt(world: World) -> Source:
        prepare(world)
        return {"query": {"url_env": world.address(address(world)), "sql": f"SELECT * FROM {NAME}"}}

    return spelt


_DATABASE = f"{NAME}.db"
DATABASES: Mapping[str, Spelling] = {
    "another variable": _at(lambda world: f"sqlite:///{world.data}/{_DATABASE}"),
    "a driver": _at(lambda world: f"sqlite+pysqlite:///{world.data}/{_DATABASE}"),
    "a relative path": _at(lambda _: f"sqlite:///data/{_DATABASE}"),
    "a roundabout path": _at(lambda world: f"sqlite:///{world.data}/../data/./{_DATABASE}"),
    "a symbolic link": _at(
        lambda world: f"sqlite:///{world.data}/soft.db",
        lambda world: _soft(world.data / _DATABASE, world.data / "soft.db"),
    ),
    "a hard link": _at(
        lambda world: f"sqlite:///{world.data}/hard.db",
        lambda world: os.link(world.data / _DATABASE, world.data / "hard.db"),
    ),
    "another statement": lambda _: {
        "query": {"url_env": URL, "sql": f"SELECT spent, city, member FROM {NAME} WHERE 1 = 1"}
    },
}
_PREFIX = "s3://audited-rows/2031/sales/"
STORES: Mapping[str, Spelling] = {
    "the prefix": _said(folder=_PREFIX),
    "no stroke at the end": _said(folder=_PREFIX.rstrip("/")),
    "a prefix above": _said(folder="s3://audited-rows/2031"),
    "a prefix below": _said(folder=f"{_PREFIX}may"),
    "an object": _said(file=f"{_PREFIX}part-0.parquet"),
    "a place of before": _said(file="public.csv", moved_from=f"{_PREFIX}part-0.parquet"),
}


def files() -> Broken:
    """One cap for one file, and for one folder."""
    return one_cap(Declaration(), FILES) + one_cap(Declaration("folder"), FOLDERS)


def databases() -> Broken:
    """One cap for one database in a file."""
    return one_cap(Declaration("query"), DATABASES)


def servers(addresses: Mapping[str, str]) -> Broken:
    """One cap for a database of a server that holds the world's rows, by any of these addresses;
    the first one spends it.
    """
    spelt = {name: _at(lambda _, url=url: url) for name, url in addresses.items()}  # type: ignore[misc]
    return one_cap(Declaration("query"), spelt, first=next(iter(spelt.values())))


def stores() -> Broken:
    """One cap for rows that were moved here from a bucket, and what is left there."""
    return one_cap(Declaration(), STORES, first=_said(file=_FILE, moved_from=_PREFIX))


def frames() -> Broken:
    """One cap for rows in memory of one account, in whatever form, by whatever contract and
    method.
    """
    ways: dict[str, tuple[Callable[[Path], Any], str, str]] = {
        "the same": (pa_csv.read_csv, NAME, _ROWS),
        "a data frame": (read_frame, NAME, _ROWS),
        "in another order": (lambda path: pa_csv.read_csv(path).sort_by("spent"), NAME, _ROWS),
        "a row less": (lambda path: pa_csv.read_csv(path).slice(1), NAME, _ROWS),
        "another contract": (pa_csv.read_csv, "another", _ROWS),
        "another method": (pa_csv.read_csv, NAME, TabPe.name),
    }
    with apart(Declaration(cap=1.0)) as world:
        world.put(base_rows(Declaration()), "csv")
        _contract(world, Declaration(), "another", {"file": "elsewhere.csv"})

        def release(
            read: Callable[[Path], Any], contract: str, method: str, epsilon: float
        ) -> None:
            rows = read(world.data / _FILE)
            Session().protect(
                rows,
                world.root / "contracts" / f"{contract}.yaml",
                epsilon=epsilon,
                account="given",
                method=method,
            )

        first = captured(lambda: release(pa_csv.read_csv, NAME, _ROWS, 1))
        again = {name: captured(lambda way=way: release(*way, 0.5)) for name, way in ways.items()}  # type: ignore[misc, call-arg]
    if first.code:
        return [f"the first release is refused: {first.err}"]
    granted = [
        f"{name}: gets what the account's cap has no room for"
        for name, output in again.items()
        if output.code == 0
    ]
    return granted + [
        f"{name}: {output.err}"
        for name, output in again.items()
        if output.code and _SPENT not in output.err
    ]


SPELLINGS: Mapping[str, Callable[[], Broken]] = {
    "spellings of an asset: files": files,
    "spellings of an asset: databases": databases,
    "spellings of an asset: stores": stores,
    "spellings of an asset: frames": frames,
}
"""Of everything that needs no server."""
