"""What goes over the wire: a proxy that keeps every byte, and a list of all addresses that are
called.
"""

from __future__ import annotations

import socket
import threading
from ast import literal_eval
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

PACKED = {b"gzip, deflate": b"identity     ", b"permessage-deflate": b"permessage-nothing"}
"""Offers to pack what is sent; nobody knows their stand-ins, so everything is sent as it is."""

_SITE = """
import os, sys

def seen(event, arguments):
    if event == "socket.connect":
        with open({path!r}, "a") as file:
            file.write(repr(arguments[1]) + "\\n")

sys.addaudithook(seen)
"""


@dataclass
class Wire:
    """A recorded port: its own address, and what went through it by connection and direction."""

    port: int
    streams: list[bytearray] = field(default_factory=list)

    @property
    def content(self) -> dict[str, bytes]:
        """Every direction of every connection."""
        return {
            f"wire {self.port} {number}": bytes(stream)
            for number, stream in enumerate(self.streams)
        }


@contextmanager
def recorded(port: int) -> Iterator[Wire]:
    """A port of this machine whose callers are put through to another one."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        wire, calls = Wire(door.getsockname()[1]), list[socket.socket]()
        threading.Thread(target=_answer, args=(door, port, wire, calls), daemon=True).start()
        try:
            yield wire
        finally:
            door.shutdown(socket.SHUT_RDWR)
            for call in list(calls):
                call.close()


def _answer(door: socket.socket, port: int, wire: Wire, calls: list[socket.socket]) -> None:
    while True:
        try:
            caller, _ = door.accept()
        except OSError:
            return
        called = socket.create_connection(("127.0.0.1", port))
        calls += (caller, called)
        for source, target in ((caller, called), (called, caller)):
            wire.streams.append(bytearray())
            threading.Thread(
                target=_carry, args=(source, target, wire.streams[-1]), daemon=True
            ).start()


def _carry(source: socket.socket, target: socket.socket, stream: bytearray) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            for offer, refusal in PACKED.items():
                data = data.replace(offer, refusal)
            stream += data
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def calls_are_listed(folder: Path) -> Path:
    """Make a folder for PYTHONPATH whose processes list every address that they call; gives the
    list.
    """
    folder.mkdir(parents=True)
    (folder / "called").touch()
    (folder / "sitecustomize.py").write_text(_SITE.format(path=str(folder / "called")))
    return folder / "called"


def listed(calls: Path) -> list[object]:
    """Every address that was called."""
    return [literal_eval(line) for line in calls.read_text().splitlines()]
