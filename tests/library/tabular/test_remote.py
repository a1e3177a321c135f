"""A download survives passing failures, refuses lies, and leaves nothing behind when it fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dpicl.ground.cache import FetchLimits, Visit
from dpicl.ground.downloads import download
from dpicl.ground.errors import SourceError

from ..hostile_server import (
    HostileServer,
    Reply,
    drip,
    drip_headers,
    endless,
    good,
    hang_up,
    redirect,
    stall,
    status,
    truncated,
)
from ..repositories import (
    ARFF,
    DESCRIPTION,
    FILE,
    HASTY,
    LIMITS,
    UCI,
    fetch_from,
    md5,
    refused,
    serve,
    serve_uci,
)


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with HostileServer() as server:
        yield server


SILENT = stall()


def limits_for(failure: Reply) -> FetchLimits:
    return HASTY if failure is SILENT else LIMITS


@pytest.mark.parametrize(
    "failure",
    [status(500), status(503), status(429, Retry_After="0"), truncated(ARFF), hang_up(), SILENT],
)
def test_passing_failures_are_tried_again(
    server: HostileServer, tmp_path: Path, failure: Reply
) -> None:
    serve(server, failure, failure, good(ARFF))
    fetch_from(server, tmp_path, limits=limits_for(failure))
    assert server.count(FILE) == 3 and server.count(DESCRIPTION) == 1


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (status(500), "answers with status 500"),
        (status(429), "answers with status 429"),
        (SILENT, "did not answer in time"),
        (truncated(ARFF), "broke off or garbled its answer"),
        (truncated(b""), "broke off or garbled its answer"),
        (hang_up(), "broke off or garbled its answer"),
    ],
)
def test_lasting_failures_end_after_the_stated_attempts(
    server: HostileServer, tmp_path: Path, failure: Reply, message: str
) -> None:
    serve(server, failure)
    assert refused(server, tmp_path / "cache", limits=limits_for(failure)).endswith(
        f"{message}; gave up after 3 attempts"
    )
    assert server.count(FILE) == 3


def test_a_description_is_tried_again_too(server: HostileServer, tmp_path: Path) -> None:
    serve(server, good(ARFF))
    server.replies[DESCRIPTION] = [status(502), *server.replies[DESCRIPTION]]
    fetch_from(server, tmp_path)
    assert server.requests == [DESCRIPTION, DESCRIPTION, FILE]


@pytest.mark.parametrize("code", [400, 401, 403, 404, 410, 412, 206, 204, 304])
def test_final_answers_are_not_tried_again(
    server: HostileServer, tmp_path: Path, code: int
) -> None:
    serve(server, status(code))
    assert f"answers with status {code}, expected 200" in refused(server, tmp_path / "cache")
    assert server.count(FILE) == 1


def test_retry_after_is_obeyed_up_to_the_cap(server: HostileServer, tmp_path: Path) -> None:
    """What would be waited for otherwise is longer than a fetch takes on a busy machine."""
    limits = replace(LIMITS, deadline_seconds=120.0)
    for asked, cap, least in (
        ("60", 0.4, 0.4),
        ("0", 60.0, 0.0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", 0.3, 0.3),
    ):
        server.requests.clear()
        serve(server, status(429, Retry_After=asked), good(ARFF))
        start = time.monotonic()
        fetch_from(
            server, tmp_path, limits=replace(limits, backoff_cap_seconds=cap, backoff_seconds=60.0)
        )
        assert least <= time.monotonic() - start < 20


def test_a_wait_beyond_the_deadline_is_not_begun(server: HostileServer, tmp_path: Path) -> None:
    serve(server, status(503, Retry_After="60"), good(ARFF))
    limits = replace(LIMITS, backoff_cap_seconds=60.0, deadline_seconds=20.0)
    start = time.monotonic()
    assert "status 503; gave up after 1 attempt" in refused(
        server, tmp_path / "cache", limits=limits
    )
    assert time.monotonic() - start < 10 and server.count(FILE) == 1


@pytest.mark.parametrize("dripping", [drip, drip_headers])
def test_a_dripping_server_meets_the_deadline(
    server: HostileServer, tmp_path: Path, dripping: Callable[[float], Reply]
) -> None:
    serve(server, dripping(0.02))
    limits = replace(LIMITS, deadline_seconds=5.0)
    assert "needs more than 5 seconds" in refused(server, tmp_path / "cache", limits=limits)
    assert server.count(FILE) == 1


def test_an_endless_stream_is_cut_at_the_size_cap(server: HostileServer, tmp_path: Path) -> None:
    for reply in (endless(), good(b"x" * 100, Content_Length=str(1 << 40))):
        serve(server, reply)
        assert "sends more than 1048576 bytes" in refused(server, tmp_path / "cache")
    assert server.count(FILE) == 2 and server.sent < 100 << 20
    server.replies[DESCRIPTION] = [endless()]
    limits = replace(LIMITS, max_bytes=1 << 30)
    assert "sends more than 1048576 bytes" in refused(server, tmp_path / "cache", limits=limits)


def test_a_lie_with_status_200_is_refused_once(server: HostileServer, tmp_path: Path) -> None:
    page, no_arff = b"<html>please log in</html>", "data set 7 is not a dense ARFF file"
    serve(server, good(page))
    expected = f"the file has md5 {md5(page)[:12]}, expected {md5(ARFF)[:12]}"
    assert expected in refused(server, tmp_path / "cache")
    assert server.count(FILE) == 1
    serve(server, good(page), md5_checksum=None)
    assert no_arff in refused(server, tmp_path / "cache")
    serve(server, good(ARFF + b"31,175\n"), md5_checksum="")
    assert no_arff in refused(server, tmp_path / "cache")
    serve(server, good(ARFF, Content_Encoding="gzip"))
    assert "sends a compressed answer" in refused(server, tmp_path / "cache")
    serve_uci(server, good(b"<html>\nplease,log in\n</html>\n"))
    told = refused(server, tmp_path / "cache", UCI)
    assert "data set 7 is not a CSV file: some rows are ragged" in told


def test_redirects_stay_on_the_trusted_host(server: HostileServer, tmp_path: Path) -> None:
    serve(server, redirect("/elsewhere"))
    server.replies["/elsewhere"] = [good(ARFF)]
    fetch_from(server, tmp_path / "good")
    assert server.requests == [DESCRIPTION, FILE, "/elsewhere"]
    with HostileServer() as other:
        for target in (
            other.url + FILE,
            other.url.replace("127.0.0.1", "localhost") + FILE,
            "http://example.org/x",
            "ftp://127.0.0.1/x",
        ):
            serve(server, redirect(target))
            assert "; expected https" in refused(server, tmp_path / "cache")
        assert other.requests == []
    serve(server, redirect(server.url + FILE))
    assert "redirects more than 5 times" in refused(server, tmp_path / "cache")


HERE = "127.0.0.1 127.1 localhost [::1] 2130706433 0x7f.1 0 169.254.169.254 [::ffff:10.0.0.1]"


def test_an_https_redirect_to_this_machine_is_refused_unasked(
    server: HostileServer, tmp_path: Path
) -> None:
    with HostileServer() as other:
        port = other.url.rpartition(":")[2]
        for host in HERE.split():
            serve(server, redirect(f"https://{host}:{port}{FILE}"))
            told = refused(server, tmp_path / "cache", starts="people: ")
            assert "not public; expected a public repository" in told
        assert other.requests == []


def test_plain_http_to_another_machine_is_refused_before_any_request(tmp_path: Path) -> None:
    visit = Visit("http://example.org", tmp_path, LIMITS)
    expected = r"example\.org: leads to http on example\.org; expected https"
    with pytest.raises(SourceError, match=expected):
        download("http://example.org/x", tmp_path / "x", visit)


def test_nobody_listening_is_tried_again_and_named(tmp_path: Path) -> None:
    with HostileServer() as gone:
        pass
    told = refused(gone, tmp_path / "cache")
    assert "127.0.0.1: the connection failed; gave up after 3 attempts" in told
