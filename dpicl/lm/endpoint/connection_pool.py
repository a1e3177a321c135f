"""Connections to one server, each for itself.

One pool of httpx would look at all of its connections at every request, which makes hundreds
of them slower than one.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from urllib.request import getproxies, proxy_bypass

import httpx

from dpicl.lm.endpoint.address import is_loopback


class ConnectionPool:
    """As many connections as are in use at once; the one that was used last is used first.

    Args:
        url: base address of every request.
        headers: sent with every request.
        timeout: of one request.
    """

    def __init__(self, url: str, headers: dict[str, str], timeout: httpx.Timeout) -> None:
        self._url, self._headers, self._timeout = httpx.URL(url), headers, timeout
        self._free: list[httpx.AsyncClient] = []

    @contextmanager
    def lane(self) -> Iterator[httpx.AsyncClient]:
        """A connection that nobody else uses meanwhile."""
        http = self._free.pop() if self._free else self._new()
        try:
            yield http
        finally:
            self._free.append(http)

    async def close(self) -> None:
        """Close what is open."""
        for http in self._free:
            await http.aclose()

    def _new(self) -> httpx.AsyncClient:
        # trust_env off: it would also take logins from ~/.netrc
        return httpx.AsyncClient(transport=_transport(self._url), timeout=self._timeout, headers=self._headers, trust_env=False)


def _transport(url: httpx.URL) -> httpx.AsyncHTTPTransport:
    """Through the user's proxy for https to other machines, directly for the rest."""
    limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=30.0)
    if url.scheme == "http":
        return httpx.AsyncHTTPTransport(verify=_no_roots(), limits=limits)
    proxied = "https" in getproxies() and not proxy_bypass(url.host) and not is_loopback(url.host)
    return httpx.AsyncHTTPTransport(verify=_roots(), limits=limits, proxy=getproxies()["https"] if proxied else None)


@cache
def _no_roots() -> ssl.SSLContext:
    """For http: nothing that needs TLS can succeed."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@cache
def _roots() -> ssl.SSLContext:
    """Loading the certificates takes a tenth of a second: once is enough."""
    return httpx.create_ssl_context()
