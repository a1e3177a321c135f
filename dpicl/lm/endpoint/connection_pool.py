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
    def connection(self) -> Iterator[httpx.AsyncClient]:
        """A connection that no other call uses meanwhile; through the user's proxy for https to other machines, directly for the rest."""
        if self._free:
            http = self._free.pop()
        else:
            host, is_https = self._url.host, self._url.scheme != "http"
            proxy = getproxies().get("https") if is_https and not proxy_bypass(host) and not is_loopback(host) else None
            limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=30.0)
            transport = httpx.AsyncHTTPTransport(verify=_certificates(is_https), limits=limits, proxy=proxy)
            # trust_env off: it would also take logins from ~/.netrc
            http = httpx.AsyncClient(transport=transport, timeout=self._timeout, headers=self._headers, trust_env=False)
        try:
            yield http
        finally:
            self._free.append(http)

    async def aclose(self) -> None:
        """Close what is open."""
        for http in self._free:
            await http.aclose()


@cache
def _certificates(is_https: bool) -> ssl.SSLContext:
    """Loading them takes a tenth of a second: once is enough. For http none: nothing that needs TLS can succeed."""
    return httpx.create_ssl_context() if is_https else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
