"""Looking for planted values in everything that a run leaves behind."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.harness import World


def forms(value: object) -> list[bytes]:
    """How a value may be written: as text, or as an eight-byte number of either order."""
    if isinstance(value, str):
        return [value.encode()]
    found = [repr(value).encode(), struct.pack("<d", value), struct.pack(">d", value)]
    return found + [struct.pack("<q", value), struct.pack(">q", value), f"{value:,}".encode()] if isinstance(value, int) else found


def plain(path: Path) -> bytes:
    """Content of a file, unpacked where its format packs it."""
    if path.suffix == ".parquet":
        return json.dumps(pq.read_table(path).to_pydict(), default=str).encode()
    return path.read_bytes()


def hits(contents: Mapping[str, bytes], canaries: Iterable[object]) -> list[str]:
    """Where canaries were found; empty is good."""
    return [
        f"{canary!r} in {name}" for canary in canaries for name, data in contents.items() if any(form in data for form in forms(canary))
    ]


def files(folders: Iterable[Path]) -> dict[str, bytes]:
    """All files below some folders."""
    return {str(path): plain(path) for folder in folders for path in folder.rglob("*") if path.is_file()}


def api(world: World) -> dict[str, bytes]:
    """What the orchestrator's API tells of all runs, page by page."""
    kinds = ("flow_runs", "task_runs", "logs", "artifacts", "flows", "deployments", "events")
    return {kind: json.dumps(everything(world, kind)).encode() for kind in kinds}


def everything(world: World, kind: str) -> list[Any]:
    """All rows of one kind."""
    if kind == "events":
        return list(world.ask("events/filter", {"limit": 50})["events"])
    found: list[Any] = []
    while page := world.ask(f"{kind}/filter", {"limit": 200, "offset": len(found)}):
        found += page
    return found
