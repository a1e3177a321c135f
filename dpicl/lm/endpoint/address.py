"""Which addresses a model may have, and which of them may get a key or private rows.

An address is the user's own choice, so this machine and private networks are fine. What is
refused is what would show a key or a private row to an eavesdropper on the way.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit


def check_address(url: str, *, key: bool, private: bool) -> None:
    """Refuse an address that is malformed, or that would get a secret in the clear.

    Args:
        url: the part that `/completions` is appended to.
        key: a key goes with every request.
        private: prompts may hold private rows.

    Raises:
        ValueError: one clause with the rule and the expected shape; never the address.
    """
    try:
        parts = urlsplit(url)
        well_formed = re.fullmatch(r"[\x21-\x7e]*", url) and parts.port != 0
    except ValueError:
        well_formed = None
    if not well_formed:
        raise ValueError("url is no address; expected one such as http://127.0.0.1:8000/v1")
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError(
            "url has no scheme http or https or no host; expected one such as "
            "http://127.0.0.1:8000/v1"
        )
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError(
            "url holds a user, a query or a fragment; expected scheme, host, port and path only, "
            "and the key by key_env"
        )
    address = _literal(host)
    if address is not None and (
        address.is_link_local or address.is_multicast or address.is_unspecified
    ):
        raise ValueError(
            "url is at a link-local, multicast or empty address; expected the address of a server"
        )
    if parts.scheme == "https" or is_loopback(host):
        return
    if key:
        raise ValueError(
            "key_env with http to another machine would send the key in the clear; expected https"
        )
    if private and not (address is not None and address.is_private):
        raise ValueError(
            "trust local with http to another machine would send private rows in the clear; "
            "expected https or a private address"
        )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by number or as `localhost`."""
    address = _literal(host)
    return host == "localhost" if address is None else address.is_loopback


def _literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a host is written as; None for a name."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    inside = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return inside or address
