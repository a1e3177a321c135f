"""Looking for planted values in everything that a run leaves behind, however they are written or
packed.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import sqlite3
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow.parquet as pq

from tests.harness import World

DEPTH = 3
"""So many wrappings are taken off: base64 of gzip of text is two."""
_PIECE = 1 << 22
_STREAM = re.compile(rb"\x1f\x8b\x08|\x78[\x01\x5e\x9c\xda]")
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{32,}={0,2}")


def forms(value: object) -> set[bytes]:
    """How a value may be written: as text, as a number of either order, pickled; all this in
    hexadecimal, or in base64 at any place.
    """
    raw = [value] if isinstance(value, bytes) else _plainly(value)
    return {
        form
        for one in raw
        for form in (one, one.hex().encode(), one.hex().upper().encode(), *_in_base64(one))
    }


def _plainly(value: object) -> list[bytes]:
    if isinstance(value, str):
        return [value.encode(), value.encode("utf-16-le")]
    found = [repr(value).encode(), struct.pack("<d", value), struct.pack(">d", value)]
    if isinstance(value, int):
        size = value.bit_length() // 8 + 1
        pickled = (
            b"J" + struct.pack("<i", value)
            if size <= 4
            else b"\x8a%c" % size + value.to_bytes(size, "little", signed=True)
        )
        found += [
            struct.pack("<q", value),
            struct.pack(">q", value),
            f"{value:,}".encode(),
            pickled,
        ]
    return found


def _in_base64(one: bytes) -> Iterator[bytes]:
    """The characters that stand for these bytes alone, wherever a group of three begins."""
    for before in range(3):
        text = base64.b64encode(bytes(before) + one)
        whole = text[-(-before * 8 // 6) : (before + len(one)) * 8 // 6]
        yield from (whole, whole.translate(bytes.maketrans(b"+/", b"-_")))


def unpacked(data: bytes, depth: int = DEPTH) -> Iterator[bytes]:
    """The data, and what is packed in it: gzip and zlib streams, long base64."""
    yield data
    if depth:
        for inner in (*_streams(data), *_decoded(data)):
            yield from unpacked(inner, depth - 1)


def _streams(data: bytes) -> Iterator[bytes]:
    for match in _STREAM.finditer(data):
        try:
            opened = zlib.decompressobj(47).decompress(memoryview(data)[match.start() :], 1 << 26)
        except zlib.error:
            continue
        if len(opened) > 8:
            yield opened


def _decoded(data: bytes) -> Iterator[bytes]:
    for match in _BASE64.finditer(data):
        text = match.group().rstrip(b"=").translate(bytes.maketrans(b"-_", b"+/"))
        try:
            yield base64.b64decode(
                text[: len(text) - (len(text) % 4 == 1)] + b"=" * (-len(text) % 4)
            )
        except binascii.Error:
            continue


class Search:
    """Many forms of many values at once: places are found by three bytes of each form that are rare
    in files.
    """

    def __init__(self, wanted: Iterable[object]) -> None:
        self._by_start: dict[int, list[tuple[int, bytes, object]]] = defaultdict(list)
        self._starts = np.zeros(1 << 24, dtype=bool)
        for value in wanted:
            for form in forms(value):
                place = max(
                    range(len(form) - 2),
                    key=lambda at, form=form: len(set(form[at : at + 3]) - {0}),
                )  # type: ignore[misc]
                start = int.from_bytes(form[place : place + 3], "big")
                self._starts[start] = True
                self._by_start[start].append((place, form, value))

    def found_in(self, data: bytes) -> set[object]:
        """The values that stand somewhere in the data."""
        return {value for packed in unpacked(data) for value in self._plainly_in(packed)}

    def _plainly_in(self, data: bytes) -> Iterator[object]:
        whole = np.frombuffer(data, dtype=np.uint8)
        for begin in range(0, max(len(data) - 2, 0), _PIECE):
            view = whole[begin : begin + _PIECE + 2].astype(np.uint32)
            starts = view[:-2] << 16 | view[1:-1] << 8 | view[2:]
            for at in np.flatnonzero(self._starts[starts]):
                for place, form, value in self._by_start[int(starts[at])]:
                    if data.startswith(form, max(begin + int(at) - place, 0)):
                        yield value


def hits(contents: Mapping[str, bytes], canaries: Iterable[object]) -> list[str]:
    """Where canaries were found; empty is good."""
    search = Search(canaries)
    return [
        f"{value!r} in {name}" for name, data in contents.items() for value in search.found_in(data)
    ]


def plain(path: Path) -> bytes:
    """Content of a file; unpacked where its format packs it, and rows besides pages where it is a
    database.
    """
    if path.suffix == ".parquet":
        return json.dumps(pq.read_table(path).to_pydict(), default=str).encode()
    if path.suffix == ".db":
        return path.read_bytes() + _every_row(path)
    return path.read_bytes()


def _every_row(path: Path) -> bytes:
    """All columns of all tables; long values lie in pages that need not follow each other."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        database.text_factory = bytes
        names = [
            name.decode()
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        rows = (row for name in names for row in database.execute(f'SELECT * FROM "{name}"'))
        return b"\n".join(
            value if isinstance(value, bytes) else str(value).encode()
            for row in rows
            for value in row
        )


def stored_rows(url: str) -> bytes:
    """Every row of every table of a PostgreSQL database."""
    with psycopg.connect(url) as connection:
        names = [
            name
            for (name,) in connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            )
        ]
        rows = [row for name in names for row in connection.execute(f'SELECT * FROM "{name}"')]  # type: ignore[arg-type]
    assert len(rows) > 10
    return "\n".join(map(str, rows)).encode()


def files(folders: Iterable[Path]) -> dict[str, bytes]:
    """All files below some folders, and their names."""
    found = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {
        **{str(path): plain(path) for path in found},
        "names": "\n".join(map(str, found)).encode(),
    }


def api(world: World) -> dict[str, bytes]:
    """What the orchestrator's API tells of all runs, page by page."""
    kinds = ("flow_runs", "task_runs", "logs", "artifacts", "flows", "deployments", "events")
    return {kind: json.dumps(everything(world, kind)).encode() for kind in kinds}


def database(world: World) -> dict[str, bytes]:
    """What the orchestrator keeps in PostgreSQL; nothing where it keeps a file, which is among its
    files.
    """
    return {"database": stored_rows(world.database)} if world.database else {}


def everything(world: World, kind: str) -> list[Any]:
    """All rows of one kind."""
    if kind == "events":
        return list(world.ask("events/filter", {"limit": 50})["events"])
    found: list[Any] = []
    while page := world.ask(f"{kind}/filter", {"limit": 200, "offset": len(found)}):
        found += page
    return found
