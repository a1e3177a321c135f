"""Several hosts on this machine: network namespaces on a switch of their own, from which nothing
leads outside.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

NETWORK = "198.51.100"
"""Reserved for examples: it is nobody's."""
SWITCH = "switch"
_REMOVE = """
import subprocess, sys
sys.stdin.read()
for namespace in sys.argv[1:]:
    subprocess.run(["ip", "netns", "delete", namespace], capture_output=True, timeout=30)
"""
"""A program that removes namespaces once nobody holds its standard input, however that came."""
_NETWORK_NAMESPACE = 0x40000000


@dataclass(frozen=True)
class Host:
    """A namespace with one address."""

    namespace: str
    address: str
    port: str
    """Its place on the switch."""
    switch: str

    def command(self, *words: str) -> list[str]:
        """A command that runs there."""
        return ["ip", "netns", "exec", self.namespace, *words]

    def cut_off(self) -> None:
        """Take the link down: nothing is said to anybody, packets are lost."""
        _ip("-n", self.switch, "link", "set", self.port, "down")

    def link_up(self) -> None:
        """Take the link up again."""
        _ip("-n", self.switch, "link", "set", self.port, "up")

    def carried(self) -> int:
        """Bytes that its link has carried, both ways together."""
        told = _ip("-n", self.switch, "-json", "-statistics", "link", "show", self.port)
        (link,) = json.loads(told)
        return sum(int(link["stats64"][way]["bytes"]) for way in ("rx", "tx"))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let this thread, and what it starts, be on that host."""
        with open("/proc/thread-self/ns/net") as before:
            _enter(Path("/run/netns") / self.namespace)
            try:
                yield
            finally:
                _enter(Path(f"/proc/self/fd/{before.fileno()}"))


def _enter(namespace: Path) -> None:
    with namespace.open() as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _NETWORK_NAMESPACE) != 0:
            raise OSError(ctypes.get_errno(), "the network namespace cannot be entered")


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=30)
    return done.stdout


@contextmanager
def linked(names: Sequence[str]) -> Iterator[dict[str, Host]]:
    """Hosts on one switch, gone at the end, also where this process is killed; skips where
    namespaces cannot be made.
    """
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and Debian's package iproute2")
    prefix = f"dpicl{os.getpid()}"
    switch = f"{prefix}-{SWITCH}"
    hosts = {
        name: Host(f"{prefix}-{name}", f"{NETWORK}.{number}", f"port{number}", switch)
        for number, name in enumerate(names, 1)
    }
    namespaces = (switch, *(host.namespace for host in hosts.values()))
    remover = subprocess.Popen(
        [sys.executable, "-c", _REMOVE, *namespaces], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        try:
            _ip("netns", "add", switch)
            _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespace or bridge can be made here: {error.stderr.strip()}")
        _ip("-n", switch, "link", "set", "bridge", "up")
        for host in hosts.values():
            _plug_in(host)
        yield hosts
    finally:
        remover.communicate(timeout=60)


def _plug_in(host: Host) -> None:
    _ip("netns", "add", host.namespace)
    _ip(
        "-n",
        host.switch,
        "link",
        "add",
        host.port,
        "type",
        "veth",
        "peer",
        "name",
        "eth0",
        "netns",
        host.namespace,
    )
    _ip("-n", host.switch, "link", "set", host.port, "master", "bridge", "up")
    for words in (
        ("addr", "add", f"{host.address}/24", "dev", "eth0"),
        ("link", "set", "eth0", "up"),
        ("link", "set", "lo", "up"),
    ):
        _ip("-n", host.namespace, *words)
