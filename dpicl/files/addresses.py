"""Connections that end where they should: at a public address that was looked up once, before a
deadline.

A name is resolved here, every address is checked, and the connection goes to a checked address, so
that a name which changes its mind meanwhile gets nowhere. TLS is still about the name. Behind a
proxy that the user has set, names are the proxy's to resolve.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import time
from collections.abc import Iterable
from typing import Any
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

from dpicl.errors import SourceError

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_CLOUD_HOSTS = {ipaddress.ip_address("168.63.129.16")}
"""Public by its number, but answered by the machine's own cloud."""


def is_public(text: str) -> bool:
    """Whether an address is anybody's to reach: not of this machine, its network or its cloud."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inside = address.ipv4_mapped or address.sixtofour or (address.teredo and address.teredo[1])
        inside = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else inside
        if inside:
            return is_public(str(inside))
    return address.is_global and not (
        address.is_multicast or address.is_reserved or address in _CLOUD_HOSTS
    )


def guarded_transport(
    url: httpx.URL, *, roots: ssl.SSLContext, own: tuple[str, int] | None, deadline: float
) -> httpx.BaseTransport:
    """A transport for `url` that refuses addresses that are not public, and ends at the deadline.

    Args:
        roots: certificates that are trusted.
        own: host and port on this machine that may be reached all the same.
        deadline: on the clock of `time.monotonic`.
    """
    proxied = url.scheme == "https" and not proxy_bypass(url.host)
    proxy = httpx.URL(getproxies()["https"]) if proxied and "https" in getproxies() else None
    trusted = (
        own
        if proxy is None
        else (proxy.host, proxy.port or (443 if proxy.scheme == "https" else 80))
    )
    transport = httpx.HTTPTransport(verify=roots, proxy=proxy)
    # httpx offers no argument for this; a test notices if the attribute moves.
    transport._pool._network_backend = _Guard(trusted, deadline)
    return transport


class _Guard(httpcore.NetworkBackend):
    """Opens connections; `trusted` is the one host and port whose address is not checked."""

    def __init__(self, trusted: tuple[str, int] | None, deadline: float) -> None:
        self.trusted, self.deadline, self.plain = trusted, deadline, httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first checked address that answers.
        Raises SourceError: an address is not public. httpcore.ConnectError: the name is unknown, or
        no address answers.
        """
        try:
            places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise httpcore.ConnectError("the name cannot be resolved") from None
        addresses = list(dict.fromkeys(str(place[0]) for *_, place in places))
        if (host, port) != self.trusted and not all(map(is_public, addresses)):
            raise SourceError(
                f"{host}: is at an address that is not public; expected a public repository"
            )
        problem: Exception = httpcore.ConnectError("no address")
        for address in addresses:
            try:
                stream = self.plain.connect_tcp(
                    address, port, _left(self.deadline, timeout), local_address, socket_options
                )
                return _Bounded(stream, self.deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                problem = error
        raise problem


class _Bounded(httpcore.NetworkStream):
    """A stream whose every wait ends at the deadline: a server that drips headers cannot outlast
    it.
    """

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self.stream, self.deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self.stream.read(max_bytes, _left(self.deadline, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.stream.write(buffer, _left(self.deadline, timeout))

    def close(self) -> None:
        self.stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        return _Bounded(
            self.stream.start_tls(ssl_context, server_hostname, _left(self.deadline, timeout)),
            self.deadline,
        )

    def get_extra_info(self, info: str) -> Any:
        return self.stream.get_extra_info(info)


def _left(deadline: float, timeout: float | None) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise httpcore.TimeoutException("the deadline has passed")
    return left if timeout is None else min(timeout, left)
