"""Objects of an S3 store, read by ranges into memory as files are; nothing of them is copied to a
disk.

AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY   the account; AWS_SESSION_TOKEN beside them where there is
                                           one
AWS_REGION, or AWS_DEFAULT_REGION          us-east-1 if not set
AWS_ENDPOINT_URL_S3, or AWS_ENDPOINT_URL   another store than Amazon's: https, or http on this
                                           machine

Keys come from nowhere else: no profile, no metadata service. The environment names the
endpoint, a contract cannot: so it may be at a private address, unlike what is downloaded.

The client is Arrow's own, which is there wherever Parquet is read and gives files that the same
code reads. Going by way of fsspec, Arrow would need s3fs and all that comes with it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dpicl.ground.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

SCHEME = "s3://"
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_BUCKETLESS = {
    "amazonaws.com": r"s3(-[a-z0-9-]+)?(\.dualstack)?(\.[a-z]{2}(-[a-z]+)+-\d)?|bucket\.vpce-[a-z0-9-]+\.s3\.[a-z0-9-]+\.vpce",  # noqa: E501
    "amazonaws.com.cn": r"s3(\.dualstack)?\.cn-[a-z]+-\d",
    "googleapis.com": r"storage",
    "digitaloceanspaces.com": r"[a-z]{3}\d",
    "r2.cloudflarestorage.com": r"[0-9a-f]{32}(\.[a-z]+)?",
    "backblazeb2.com": r"s3\.[a-z0-9-]+",
    "wasabisys.com": r"s3(\.[a-z0-9-]+)?",
}
"""What comes before these in the names of hosts that name no bucket. One that does is another
spelling of that bucket's objects.
"""
_CODE = re.compile(r"AWS Error ([A-Z_0-9]{1,60})")
_CONNECT_SECONDS = 10
_ANSWER_SECONDS = 60


@dataclass(frozen=True)
class Stored:
    """An object by its address `s3://BUCKET/KEY`, in place of a path."""

    address: str

    @property
    def name(self) -> str:
        """The last part of its key."""
        return self.address.rsplit("/", 1)[-1]

    @property
    def suffix(self) -> str:
        """What the name ends in, from its last dot."""
        return "." + self.name.rsplit(".", 1)[-1] if "." in self.name else ""

    @contextmanager
    def open(self) -> Iterator[pa.NativeFile]:
        """Its bytes, to be read at any place.

        Raises:
            SourceError: the store is not set, or does not give it.
        """
        store = _store()
        with (
            _translated(self.address),
            store.open_input_file(self.address.removeprefix(SCHEME)) as file,
        ):
            yield file


def version_of(file: pa.NativeFile) -> str:
    """What tells one content of an object from the next: the store's entity tag."""
    metadata = {
        _text(name).lower(): _text(value) for name, value in (file.metadata() or {}).items()
    }
    return metadata.get("etag", "")


def _text(part: Any) -> str:
    return part.decode() if isinstance(part, bytes) else str(part)


def names_below(address: str) -> list[str]:
    """What is directly below `s3://BUCKET/PREFIX`, in no order: objects and further prefixes.

    Raises:
        SourceError: the store is not set, or does not say.
    """
    from pyarrow.fs import FileSelector

    store = _store()
    with _translated(address):
        return [
            str(info.base_name)
            for info in store.get_file_info(FileSelector(address.removeprefix(SCHEME).rstrip("/")))
        ]


def reason(error: BaseException) -> str:
    """The store's error in a word, or nothing if it is another's: its sentence may name what is in
    the bucket.
    """
    code = _CODE.search(str(error))
    return f"cannot be read (the store says {code[1]})" if code else ""


@contextmanager
def _translated(address: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise SourceError(f"{address}: there is no such object or folder") from None
    except OSError as error:
        raise SourceError(f"{address}: {reason(error) or 'cannot be read'}") from None


def _store() -> Any:
    from pyarrow.fs import S3FileSystem

    return S3FileSystem(**store_settings())


def store_settings() -> dict[str, Any]:
    """What opens the store: keys that are set, and a valid endpoint; sends nothing.

    Raises:
        SourceError: they are not.
    """
    missing = [name for name in _KEYS if not os.environ.get(name)]
    if missing:
        raise SourceError(f"an address {SCHEME}… needs {' and '.join(missing)} in the environment")
    access, secret = (os.environ[name] for name in _KEYS)
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    waiting = {"connect_timeout": _CONNECT_SECONDS, "request_timeout": _ANSWER_SECONDS}
    keys = {
        "access_key": access,
        "secret_key": secret,
        "session_token": os.environ.get("AWS_SESSION_TOKEN") or None,
    }
    settings = {**keys, **waiting, "region": region}
    name = next((name for name in _ENDPOINTS if os.environ.get(name)), None)
    if name is None:
        return settings
    wrong = SourceError(f"{name}: expected https://HOST[:PORT], or http:// on this machine only")
    try:
        parts = urlsplit(os.environ[name])
        host = parts.hostname or ""
        _ = parts.port
        plain = parts.scheme == "http" and (host == "localhost" or ip_address(host).is_loopback)
    except ValueError:
        raise wrong from None
    if _names_bucket(host.rstrip(".")):
        raise SourceError(
            f"{name}: its host names a bucket or an access point; expected the store's own host, "
            f"and the bucket in {SCHEME}BUCKET/KEY"
        )
    if (
        not host
        or "@" in parts.netloc
        or parts.path.strip("/")
        or parts.query
        or not (plain or parts.scheme == "https")
    ):
        raise wrong
    return {**settings, "endpoint_override": parts.netloc, "scheme": parts.scheme}


def _names_bucket(host: str) -> bool:
    """Whether a host of a known store is not the store's own."""
    known = [
        (host.removesuffix(f".{end}"), form)
        for end, form in _BUCKETLESS.items()
        if host.endswith(f".{end}")
    ]
    return any(re.fullmatch(form, before) is None for before, form in known)
