"""A real HTTP server on this machine that answers as it is told: late, cut, wrong, without end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


class HostileServer:
    """Answers each path with the next of its replies; the last one repeats.

    `requests` lists the paths that were asked for, `starts` the bytes that `ranges` began with;
    `sent` counts the bytes of bodies.
    """

    def __init__(self) -> None:
        self.replies: dict[str, list[Reply]] = {}
        self.requests: list[str] = []
        self.starts: list[int] = []
        self.sent = 0
        self.stopping = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}
        )

    @property
    def url(self) -> str:
        """Base address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def count(self, path: str) -> int:
        """How often a path was asked for."""
        return self.requests.count(path)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


Reply = Callable[[HostileServer, BaseHTTPRequestHandler], None]


def _handler(server: HostileServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            replies = server.replies.get(self.path, [status(404)])
            reply = replies[min(server.count(self.path), len(replies) - 1)]
            server.requests.append(self.path)
            try:
                reply(server, self)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """Keep quiet."""

    return Handler


def _start(request: BaseHTTPRequestHandler, code: int, headers: dict[str, str]) -> None:
    request.send_response(code)
    for name, value in headers.items():
        request.send_header(name, value)
    request.end_headers()


def _write(server: HostileServer, request: BaseHTTPRequestHandler, data: bytes) -> None:
    server.sent += len(data)  # before a client can have read it and looks
    request.wfile.write(data)


def good(data: bytes, **headers: str) -> Reply:
    """The whole of `data` with status 200."""

    def reply(server: HostileServer, request: BaseHTTPRequestHandler) -> None:
        _start(
            request,
            200,
            {"Content-Length": str(len(data))}
            | {name.replace("_", "-"): value for name, value in headers.items()},
        )
        _write(server, request, data)

    return reply


def ranges(data: bytes, *, most: int | None = None, **headers: str) -> Reply:
    """`data`, or the range of it that is asked for; after `most` bytes of an answer the connection
    breaks.
    """

    def reply(server: HostileServer, request: BaseHTTPRequestHandler) -> None:
        asked = request.headers.get("Range", "")
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        server.starts.append(start)
        extra = {name.replace("_", "-"): value for name, value in headers.items()}
        if start >= len(data):
            _start(
                request,
                416,
                {"Content-Length": "0", "Content-Range": f"bytes */{len(data)}", **extra},
            )
            return
        span = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if asked else {}
        _start(
            request,
            206 if asked else 200,
            {"Content-Length": str(len(data) - start), **span, **extra},
        )
        _write(server, request, data[start : len(data) if most is None else start + most])
        request.wfile.flush()

    return reply


def status(code: int, **headers: str) -> Reply:
    """Nothing but a status."""
    return lambda server, request: _start(
        request,
        code,
        {"Content-Length": "0"}
        | {name.replace("_", "-"): value for name, value in headers.items()},
    )


def redirect(url: str) -> Reply:
    """Go elsewhere."""
    return status(302, Location=url)


def stall() -> Reply:
    """Take the request and say nothing."""
    return lambda server, request: server.stopping.wait(30) and None


def hang_up() -> Reply:
    """Close the connection instead of answering."""
    return lambda server, request: request.connection.close()


def truncated(data: bytes) -> Reply:
    """Promise 100 bytes more than are sent, and close."""

    def reply(server: HostileServer, request: BaseHTTPRequestHandler) -> None:
        _start(request, 200, {"Content-Length": str(len(data) + 100)})
        _write(server, request, data)

    return reply


def drip(seconds: float) -> Reply:
    """One byte at a time, each soon enough to keep the connection."""

    def reply(server: HostileServer, request: BaseHTTPRequestHandler) -> None:
        _start(request, 200, {})
        while not server.stopping.is_set():
            _write(server, request, b"x")
            time.sleep(seconds)

    return reply


def drip_headers(seconds: float) -> Reply:
    """One byte of a header at a time, and never the body."""

    def reply(server: HostileServer, request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.0 200 OK\r\nX-Long: ")
        while not server.stopping.is_set():
            _write(server, request, b"x")
            time.sleep(seconds)

    return reply


def endless(stop_bytes: int = 1 << 30) -> Reply:
    """A stream of up to 1 GiB without a stated length."""

    def reply(server: HostileServer, request: BaseHTTPRequestHandler) -> None:
        _start(request, 200, {})
        block = bytes(1 << 16)
        for _ in range(stop_bytes // len(block)):
            _write(server, request, block)

    return reply
