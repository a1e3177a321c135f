"""The open ports of a family of processes, and what an uninvited caller gets from them."""

from __future__ import annotations

import base64
import http.client
import re
import socket
import ssl
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

LISTENING = "0A"
PAGES = ("/health", "/info/main/workers.html", "/json/counts.json")


@dataclass(frozen=True)
class Door:
    """A port on which a process waits for callers."""

    host: str
    port: int
    pid: int


def read(pid: int, name: str) -> str:
    """A file of a process; empty if it has gone."""
    try:
        return Path("/proc", str(pid), name).read_text(errors="replace")
    except OSError:
        return ""


def family(pid: int) -> set[int]:
    """A process and all that it has started."""
    parents = {
        int(path.name): re.search(r"PPid:\t(\d+)", read(int(path.name), "status"))
        for path in Path("/proc").glob("[0-9]*")
    }
    found, before = {pid}, set[int]()
    while found != before:
        before = set(found)
        found |= {child for child, parent in parents.items() if parent and int(parent[1]) in found}
    return found


def open_doors(pids: set[int]) -> tuple[Door, ...]:
    """Every port, of either version of the protocol, on which these processes listen."""
    waiting: dict[str, tuple[str, int]] = {}
    for version in ("tcp", "tcp6"):
        for line in Path("/proc/net", version).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING:
                host, port = fields[1].split(":")
                waiting[fields[9]] = (_host(host), int(port, 16))
    held = {(pid, socket_) for pid in pids for socket_ in _sockets(pid) if socket_ in waiting}
    return tuple(Door(*waiting[number], pid) for pid, number in sorted(held))


def _host(hexadecimal: str) -> str:
    packed = b"".join(
        bytes.fromhex(hexadecimal[at : at + 8])[::-1] for at in range(0, len(hexadecimal), 8)
    )
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


def _sockets(pid: int) -> set[str]:
    found = set()
    for path in Path("/proc", str(pid), "fd").glob("*"):
        try:
            found |= set(re.findall(r"socket:\[(\d+)\]", str(path.readlink())))
        except OSError:
            continue
    return found


def status(port: int, path: str, body: bytes | None = None, secret: str = "") -> int:
    """What a server answers to a request; 0 where no HTTP is spoken."""
    shown = (
        {"Authorization": f"Basic {base64.b64encode(secret.encode()).decode()}"} if secret else {}
    )
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", body, {"Content-Type": "application/json", **shown}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, http.client.HTTPException):
        return 0


def pages(port: int) -> dict[str, int]:
    """The status of some pages; empty where no HTTP is spoken."""
    found = {path: status(port, path) for path in PAGES}
    return found if any(found.values()) else {}


def refusal(port: int, *, foreign: bool = False) -> str:
    """What a port says to a TLS caller without a certificate, or with a foreign one; fails if it
    lets him in.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if foreign:
        _show_a_certificate(context)
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
            context.wrap_socket(plain) as call,
        ):
            return f"let in, and told {len(call.recv(100))} bytes"
    except ssl.SSLError as error:
        return str(error.reason or error)


def _show_a_certificate(context: ssl.SSLContext) -> None:
    from distributed.security import Security

    made = Security.temporary()
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(made.tls_client_key + made.tls_client_cert)
        file.flush()
        context.load_cert_chain(file.name)
