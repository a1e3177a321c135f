"""Several hosts on this machine: network namespaces on a switch of their own, from which nothing
leads outside.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

NETWORK = "198.51.100"
"""Reserved for examples: it is nobody's."""
SWITCH = "switch"


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


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)


@contextmanager
def linked(names: Sequence[str]) -> Iterator[dict[str, Host]]:
    """Hosts on one switch, gone at the end; skips where namespaces cannot be made."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and Debian's package iproute2")
    prefix = f"dpicl{os.getpid()}"
    switch = f"{prefix}-{SWITCH}"
    hosts = {
        name: Host(f"{prefix}-{name}", f"{NETWORK}.{number}", f"port{number}", switch)
        for number, name in enumerate(names, 1)
    }
    try:
        try:
            _ip("netns", "add", switch)
            _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        except subprocess.CalledProcessError as error:
            pytest.skip(
                f"no network namespace or bridge can be made here: {error.stderr.decode().strip()}"
            )
        _ip("-n", switch, "link", "set", "bridge", "up")
        for host in hosts.values():
            _plug_in(host)
        yield hosts
    finally:
        for namespace in (switch, *(host.namespace for host in hosts.values())):
            subprocess.run(
                ["ip", "netns", "delete", namespace], check=False, capture_output=True, timeout=30
            )


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
