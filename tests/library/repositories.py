"""What a repository on this machine serves, and the contracts that ask it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from dpicl.contract import Contract
from dpicl.data.reading.source import fetch
from dpicl.ground.cache import BaseUrls, FetchLimits
from dpicl.ground.errors import SourceError

from .hostile_server import HostileServer, Reply, good
from .table_contracts import small_contract

LIMITS = FetchLimits(
    connect_seconds=10.0,
    read_seconds=10.0,  # a busy machine answers late
    deadline_seconds=60.0,
    max_bytes=1 << 20,
    attempts=3,
    backoff_seconds=0.005,
    backoff_cap_seconds=0.02,
)
HASTY = replace(LIMITS, read_seconds=3.0)
"""For a server that says nothing."""
ARFF = b"""% people, in the repository's form
@RELATION people
@ATTRIBUTE V1 INTEGER
@ATTRIBUTE 'Body height' REAL
@ATTRIBUTE colour {rot, blau, gruen}
@ATTRIBUTE Class {1, 2}
@DATA
31,175,rot,1
48,160,blau,2
67,182,rot,2
22,170,gruen,1
?,170,gruen,1
31,?,gruen,1
"""
REMOTE = {
    "id": 7,
    "rename": {"V1": "age", "Body height": "height", "Class": "y"},
    "values": {
        "colour": {"rot": "red", "blau": "blue", "gruen": "green"},
        "y": {"1": "no", "2": "yes"},
    },
    "scale": {"height": 0.01},
}
OPENML = small_contract(source={"openml": REMOTE, "missing": "?"})
UCI = small_contract(source={"uci": {"id": 7}})
DESCRIPTION, FILE, UCI_DESCRIPTION = "/api/v1/json/data/7", "/file", "/api/dataset?id=7"


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def serve(server: HostileServer, *replies: Reply, stated: bytes = ARFF, **changes: object) -> None:
    """OpenML with a good description, and these replies for its file."""
    described = {
        "id": "7",
        "format": "ARFF",
        "url": server.url + FILE,
        "md5_checksum": md5(stated),
        **changes,
    }
    server.replies[DESCRIPTION] = [good(json.dumps({"data_set_description": described}).encode())]
    server.replies[FILE] = list(replies)


def serve_uci(server: HostileServer, *replies: Reply) -> None:
    server.replies[UCI_DESCRIPTION] = [
        good(json.dumps({"status": 200, "data": {"data_url": server.url + FILE}}).encode())
    ]
    server.replies[FILE] = list(replies)


def fetch_from(
    server: HostileServer, cache: Path, contract: Contract = OPENML, limits: FetchLimits = LIMITS
) -> Path:
    return fetch(
        contract, cache, base_urls=BaseUrls(openml=server.url, uci=server.url), limits=limits
    )


def refused(
    server: HostileServer,
    cache: Path,
    contract: Contract = OPENML,
    limits: FetchLimits = LIMITS,
    starts: str = "people: 127.0.0.1: ",
) -> str:
    """The message of a failing fetch, after checking that it left nothing and is one sentence."""
    with pytest.raises(SourceError) as caught:
        fetch_from(server, cache, contract, limits)
    assert not list(cache.rglob("*"))
    assert "\n" not in str(caught.value) and str(caught.value).startswith(starts)
    return str(caught.value)
