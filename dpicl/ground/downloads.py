"""Downloading one file from a server that may be slow, broken or lying.

A download either ends as a complete, synced file or raises one sentence. It is bounded in
time, size, attempts and redirects, and goes to public addresses only. What may pass by itself is
tried again: no connection, no answer, a cut answer, 429 and 5xx. Everything else is final. Of a
file whose digest is known, what has arrived before is not sent again, where the server knows
ranges.

Needs the extra `endpoint`, as the endpoint back end does.

Connections that end where they should: at a public address that was looked up once, before a
deadline.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import os
import re
import socket
import ssl
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx
import tenacity

from dpicl import __version__
from dpicl.ground.cache import Visit, host_of
from dpicl.ground.errors import SourceError

logger = logging.getLogger(__name__)


class _Transient(Exception):
    """A failure that may pass by itself; `retry_after` is the wait that the server requests."""

    def __init__(self, problem: str, retry_after: float | None = None) -> None:
        super().__init__(problem)
        self.retry_after = retry_after


def download(
    url: str, target: Path, visit: Visit, *, md5: str | None = None, sha256: str | None = None
) -> str | None:
    """Write what `url` holds to `target`; returns the sha256 that the hub states of it, None where
    it states none.

    Every request, redirected ones too, goes to https at a public address, or, when
    `visit.base` is http on this machine, to the host and port of `visit.base`. `md5` and `sha256`
    are digests that the content must have; with `sha256`, a part of it that `target` holds is gone
    on from. Raises SourceError: names the host and what happened; `target` may then hold a part,
    but none of another content.
    """
    limits = visit.limits
    exponential = tenacity.wait_random_exponential(
        multiplier=limits.backoff_seconds, max=limits.backoff_cap_seconds
    )

    def wait(state: tenacity.RetryCallState) -> float:
        problem = state.outcome.exception() if state.outcome else None
        requested = problem.retry_after if isinstance(problem, _Transient) else None
        seconds = (
            exponential(state) if requested is None else min(requested, limits.backoff_cap_seconds)
        )
        logger.info("attempt %d failed, next one in %.1f s", state.attempt_number, seconds)
        return float(seconds)

    stop = tenacity.stop_any(
        tenacity.stop_after_attempt(limits.attempts),
        tenacity.stop_before_delay(limits.deadline_seconds),
    )
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(_Transient), stop=stop, wait=wait, reraise=True
    )
    try:
        stated = retrying(
            _attempt,
            url,
            target,
            visit,
            time.monotonic() + limits.deadline_seconds,
            goes_on=sha256 is not None,
        )
    except _Transient as problem:
        attempts = retrying.statistics["attempt_number"]
        raise SourceError(
            f"{host_of(url)}: {problem}; gave up after {attempts} "
            f"{'attempt' if attempts == 1 else 'attempts'}"
        ) from None
    for name, wanted, whose in (
        ("md5", md5, "as the host states"),
        ("sha256", sha256 or stated, "as stated"),
    ):
        if wanted is not None and (digest := _digest(target, name)) != wanted.lower():
            target.unlink()  # nothing is to be gone on from
            raise SourceError(
                f"{host_of(url)}: the file has {name} {digest[:12]}, expected "
                f"{wanted.lower()[:12]} {whose}"
            )
    return stated


def _digest(path: Path, name: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(
            file, partial(hashlib.new, name, usedforsecurity=False)
        ).hexdigest()


_trusted_roots = cache(httpx.create_ssl_context)
"""Loading the certificates takes a tenth of a second: once is enough."""


def _attempt(
    first_url: str, target: Path, visit: Visit, deadline: float, *, goes_on: bool
) -> str | None:
    """Follow redirects to a file and save it, after what is there of it if `goes_on`; returns the
    sha256 that a hop states. Every hop is connected to, and checked, anew.
    """
    url = first_url
    limits = visit.limits
    base = httpx.URL(visit.base)
    own = (
        (base.host, base.port or 80) if base.scheme == "http" and _is_loopback(base.host) else None
    )
    timeout = httpx.Timeout(limits.read_seconds, connect=limits.connect_seconds)
    start = target.stat().st_size if goes_on and target.exists() else 0
    stated = None
    headers = {
        "User-Agent": f"dpicl/{__version__}",
        "Accept-Encoding": "identity",
        **({"Range": f"bytes={start}-"} if start else {}),
    }
    try:
        for _ in range(limits.redirects + 1):
            _refuse_address(url, visit.base)
            transport = guarded_transport(
                httpx.URL(url), roots=_trusted_roots(), own=own, deadline=deadline
            )
            with (
                httpx.Client(transport=transport, timeout=timeout, headers=headers) as client,
                client.stream("GET", url) as response,
            ):
                stated = _linked_sha256(response) or stated
                if not response.has_redirect_location:
                    _save(response, target, visit, start)
                    return stated
                url = str(response.url.join(response.headers["location"]))
    except httpx.TimeoutException:
        if time.monotonic() >= deadline:
            raise SourceError(
                f"{host_of(url)}: needs more than {limits.deadline_seconds:g} seconds"
            ) from None
        raise _Transient("did not answer in time") from None
    except httpx.RemoteProtocolError:
        raise _Transient("broke off or garbled its answer") from None
    except httpx.TransportError:
        raise _Transient("the connection failed") from None
    except httpx.InvalidURL:
        raise SourceError(f"{host_of(first_url)}: redirects to an invalid address") from None
    raise SourceError(f"{host_of(first_url)}: redirects more than {limits.redirects} times")


def _refuse_address(url: str, origin: str) -> None:
    try:
        target = httpx.URL(url)
        trusted = httpx.URL(origin)
    except httpx.InvalidURL:
        raise SourceError(f"{host_of(origin)}: leads to an invalid address") from None
    if target.scheme == "https" and target.host:
        if _is_literal(target.host) and not is_public(target.host):
            raise SourceError(
                f"{host_of(origin)}: leads to {target.host}, which is not public; expected a "
                f"public repository"
            )
        return
    if target.scheme == "http" and _is_loopback(target.host) and target.netloc == trusted.netloc:
        return
    raise SourceError(
        f"{host_of(origin)}: leads to {target.scheme or 'no scheme'} on "
        f"{target.host or 'no host'}; expected https"
    )


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host).is_loopback if _is_literal(host) else host == "localhost"


def _linked_sha256(response: httpx.Response) -> str | None:
    """Of a large file the hub states the digest where it redirects to the store."""
    mark = response.headers.get("X-Linked-ETag", "").removeprefix("W/").strip('"')
    return mark if re.fullmatch("[0-9a-f]{64}", mark) else None


def _save(response: httpx.Response, target: Path, visit: Visit, start: int) -> None:
    """Write a final answer, if it is the file as it is, or the rest of it from byte `start` on."""
    host = response.url.host
    begins = _begins_at(response, target, start)
    if begins is None:
        return
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise SourceError(f"{host}: sends a compressed answer, expected the file as it is")
    stated = response.headers.get("Content-Length", "")
    total = begins + int(stated) if stated.isascii() and stated.isdigit() else None
    received = begins
    with target.open("ab" if begins else "wb") as file:
        for chunk in response.iter_raw():
            received += len(chunk)
            if max(received, total or 0) > visit.limits.max_bytes:
                raise SourceError(f"{host}: sends more than {visit.limits.max_bytes} bytes")
            file.write(chunk)
            if visit.progress is not None:
                visit.progress(received, total)
        file.flush()
        os.fsync(file.fileno())
    if total is not None and received != total:
        raise _Transient(f"sent {received} of {total} bytes")


def _begins_at(response: httpx.Response, target: Path, start: int) -> int | None:
    """Which byte of the file an answer begins with; None where all of it is there. Raises
    SourceError: it is no file.
    """
    code = response.status_code
    span = response.headers.get("Content-Range", "")
    if code == 429 or code >= 500:
        # a number of seconds, or a date
        header = response.headers.get("Retry-After", "")
        seconds = None
        with suppress(ValueError, TypeError):
            is_number = header.isascii() and header.isdigit()
            seconds = (
                float(header[:9])
                if is_number
                else max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
            )
        raise _Transient(f"answers with status {code}", seconds)
    if start and code == 206 and span.startswith(f"bytes {start}-"):
        return start
    if start and code == 416 and span == f"bytes */{start}":
        return None
    if start and code in (206, 416):
        target.unlink()  # of another file, or of another server's idea of a range
        raise _Transient(f"answers with status {code} to a range")
    if code != 200:
        raise SourceError(f"{response.url.host}: answers with status {code}, expected 200")
    return 0


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
        self.trusted = trusted
        self.deadline = deadline
        self.plain = httpcore.SyncBackend()

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
        self.stream = stream
        self.deadline = deadline

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
