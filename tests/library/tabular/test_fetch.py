"""Fetched rows arrive in our form and fit the contract, or not at all."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pytest

from dpicl.data.reading.files import read_table, rows_digest
from dpicl.data.reading.source import cached_file, fetch, load_source
from dpicl.ground.cache import BaseUrls
from dpicl.ground.errors import SourceError

from ..hostile_server import HostileServer, good, status
from ..repositories import (
    ARFF,
    DESCRIPTION,
    FILE,
    LIMITS,
    OPENML,
    REMOTE,
    UCI,
    UCI_DESCRIPTION,
    fetch_from,
    refused,
    serve,
    serve_uci,
)
from ..table_contracts import GOOD_CSV, small_contract


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with HostileServer() as server:
        yield server


def test_openml_rows_arrive_in_our_form(server: HostileServer, tmp_path: Path) -> None:
    serve(server, good(ARFF))
    path = fetch_from(server, tmp_path / "cache")
    assert (
        list((tmp_path / "cache").iterdir()) == [path] == [cached_file(OPENML, tmp_path / "cache")]
    )
    (tmp_path / "people.csv").write_text(GOOD_CSV)
    assert read_table(path, OPENML).equals(read_table(tmp_path / "people.csv", OPENML))
    assert server.requests == [DESCRIPTION, FILE]


def test_uci_rows_arrive_and_empty_fields_become_the_missing_marker(
    server: HostileServer, tmp_path: Path
) -> None:
    contract = small_contract(source={"uci": {"id": 7}, "missing": "?"})
    serve_uci(server, good(GOOD_CSV.encode() + b",1.7,green,no\n"))
    assert "?" in fetch_from(server, tmp_path, contract).read_text()
    assert load_source(contract, data_folder=None, cache_folder=tmp_path).column(
        "age"
    ).to_pylist() == [31, 48, 67, 22]


def test_the_published_split_is_added_by_row_number(server: HostileServer, tmp_path: Path) -> None:
    serve_uci(server, good(b"age,height,colour\n31,1.75,red\n48,1.6,blue\n67,1.82,red\n"))
    contract = small_contract(source={"uci": {"id": 7, "published_split": ["y", 1, "yes", "no"]}})
    assert read_table(fetch_from(server, tmp_path, contract), contract).column("y").to_pylist() == [
        "yes",
        "no",
        "no",
    ]
    contract = small_contract(source={"uci": {"id": 7, "published_split": ["y", 4, "yes", "no"]}})
    assert "has 3 rows; expected 4 in the first part" in refused(
        server, tmp_path / "other", contract
    )


def test_rows_that_break_the_contract_or_its_digest_are_refused(
    server: HostileServer, tmp_path: Path
) -> None:
    def served(*changes: tuple[bytes, bytes]) -> None:
        other = reduce(lambda content, change: content.replace(*change), changes, ARFF)
        serve(server, good(other), stated=other)

    served((b"rot,1", b"blau,1"))
    digest = rows_digest(read_table(fetch_from(server, tmp_path), OPENML))
    strict = small_contract(source={"openml": REMOTE, "missing": "?", "content_sha256": digest})
    served()
    assert f"expected {digest[:12]}" in refused(server, tmp_path / "cache", strict)
    for changes, expected in (
        ([(b"gruen", b"mauve")], "column 'colour': is not one of the 3 categories"),
        (
            [(b"REAL", b"STRING"), (b"175", b"tall")],
            "column 'height': is scaled but holds something other than numbers",
        ),
        ([(b"V1", b"V9")], "column 'V1': is not in the download, though `rename` names it"),
    ):
        served(*changes)
        message = refused(server, tmp_path / "cache")
        assert expected in message and "mauve" not in message


def described(**content: object) -> bytes:
    return json.dumps({"data_set_description": {"format": "ARFF", **content}}).encode()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        *(
            (body, "the description is not JSON with 'data_set_description'")
            for body in (
                b"{not json",
                b"\xff\xfe\x00",
                b"[" * 100_000,
                b"[1, 2]",
                b'{"data_set_description": 3}',
            )
        ),
        (described(), "the description has no 'url'"),
        (described(url=5), "the description has no 'url'"),
        (described(url="x", format="Sparse_ARFF"), "is not stated to be dense ARFF"),
        (described(url="file:///etc/passwd"), "leads to file on no host; expected https"),
        (described(url="http://example.org/x"), "leads to http on example.org; expected https"),
        (described(url="https://\0/"), "leads to an invalid address"),
    ],
)
def test_broken_descriptions_are_refused(
    server: HostileServer, tmp_path: Path, body: bytes, message: str
) -> None:
    server.replies[DESCRIPTION] = [good(body)]
    assert message in refused(server, tmp_path / "cache")
    assert server.requests == [DESCRIPTION]


def test_a_uci_set_without_one_file_is_refused(server: HostileServer, tmp_path: Path) -> None:
    server.replies[UCI_DESCRIPTION] = [good(b'{"status": 200, "data": {"data_url": null}}')]
    assert "the description has no 'data_url'" in refused(server, tmp_path / "cache", UCI)


def test_the_second_repository_is_asked_when_the_first_fails(
    server: HostileServer, tmp_path: Path
) -> None:
    contract = small_contract(source={"openml": {"id": 7}, "uci": {"id": 7}})
    serve_uci(server, good(GOOD_CSV.encode()))
    assert read_table(fetch_from(server, tmp_path, contract), contract).num_rows == 4
    assert server.requests == [DESCRIPTION, UCI_DESCRIPTION, FILE]
    server.replies.clear()
    assert refused(server, tmp_path / "cache", contract).count("answers with status 404") == 2


def test_a_failing_fetch_leaves_an_older_download_alone(
    server: HostileServer, tmp_path: Path
) -> None:
    serve(server, good(ARFF), status(404))
    path = fetch_from(server, tmp_path)
    before = path.read_bytes()
    with pytest.raises(SourceError):
        fetch_from(server, tmp_path)
    assert list(tmp_path.rglob("*")) == [path] and path.read_bytes() == before


def test_progress_counts_up_to_the_stated_size(server: HostileServer, tmp_path: Path) -> None:
    serve(server, good(ARFF))
    seen: list[tuple[int, int | None]] = []
    urls = BaseUrls(openml=server.url + "/", uci=server.url)
    fetch(
        OPENML,
        tmp_path,
        base_urls=urls,
        limits=LIMITS,
        progress=lambda received, total: seen.append((received, total)),
    )
    assert seen[-1] == (len(ARFF), len(ARFF))


def test_a_cache_that_cannot_be_written_is_named(server: HostileServer, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(SourceError, match="people: the cache cannot be written"):
        fetch_from(server, tmp_path / "cache")


def test_a_download_is_for_its_owner_only_whatever_the_umask(
    server: HostileServer, tmp_path: Path
) -> None:
    serve(server, good(ARFF))
    before = os.umask(0)
    try:
        path = fetch_from(server, tmp_path / "cache")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(place.stat().st_mode) for place in (path, path.parent)] == [0o600, 0o700]
