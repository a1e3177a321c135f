"""A small HTTP server that speaks the part of the model hub's protocol that a download uses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

COMMIT = "c0ffee" * 6 + "0000"
ERRORS = {
    "/gated/": (403, "GatedRepo"),
    "/no-revision/": (404, "RevisionNotFound"),
    "/model/": (404, "RevisionNotFound"),
}


class _Hub(BaseHTTPRequestHandler):
    """`org/model` is the folder; `org/gated` and the rest answer as the real hub does."""

    folder: Path
    served: list[str]

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        path = self.path.split("?")[0]
        if path in (
            "/api/models/org/model/revision/main",
            f"/api/models/org/model/revision/{COMMIT}",
        ):
            self._send(json.dumps({"id": "org/model", "sha": COMMIT, "siblings": []}).encode())
        elif path == f"/api/models/org/model/tree/{COMMIT}":
            self._send(
                json.dumps([self._entry(file) for file in sorted(self.folder.iterdir())]).encode()
            )
        elif path.startswith(f"/org/model/resolve/{COMMIT}/"):
            file = self.folder / path.rpartition("/")[2]
            self.served.append(file.name)
            self._send(file.read_bytes(), with_body=with_body, etag=f'"{file.name}"')
        else:
            status, code = next(
                (error for part, error in ERRORS.items() if part in path), (404, "RepoNotFound")
            )
            self._send(b"", status=status, error=code)

    @staticmethod
    def _entry(file: Path) -> dict[str, object]:
        return {"type": "file", "oid": file.name, "size": file.stat().st_size, "path": file.name}

    def _send(
        self,
        body: bytes,
        *,
        status: int = 200,
        with_body: bool = True,
        etag: str = "",
        error: str = "",
    ) -> None:
        self.send_response(status)
        headers = {
            "X-Repo-Commit": COMMIT,
            "ETag": etag,
            "X-Error-Code": error,
            "Content-Length": str(len(body)),
        }
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""


@contextmanager
def hub_serving(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The address of a running hub, and the list of file names that it hands out."""
    served: list[str] = []
    handler = type("Hub", (_Hub,), {"folder": folder, "served": served})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", served
    finally:
        server.shutdown()
        server.server_close()
