"""Downloading a published set of texts: from the hub at a commit, or from an address, each file
against its digest.

A file is gone on from where an earlier try broke off, and appears in the cache only once it has its
digest, its number of records and the contract's bounds. It stays as it was published, and is read
as it is. A digest that the contract does not state is the one that the hub states, or else that of
the first download.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from dpicl.contract.load import edition
from dpicl.contract.text import PUBLISHED, Published, PublishedFile, TextContract
from dpicl.data.reading.files import file_sha256
from dpicl.data.text_files import TEST, TRAIN, in_one, read_part
from dpicl.ground.cache import FetchLimits, Progress, Visit
from dpicl.ground.errors import DataError, SourceError
from dpicl.ground.files import locked
from dpicl.ground.installed import extra_of
from dpicl.ground.records import below

LIMITS = FetchLimits(deadline_seconds=3600.0, max_bytes=2 << 30)


@dataclass(frozen=True)
class FetchedTexts:
    """A published set that is in the cache now: its contract, its texts as `load_texts` gives them,
    and its files with their digests.
    """

    contract: TextContract
    table: pa.Table
    paths: dict[str, Path]
    digests: dict[str, str]
    """Path in the hub's repository, or below the address -> sha256."""


def fetch_texts(
    contract: TextContract,
    cache_folder: Path,
    *,
    pinned: Mapping[str, str],
    endpoint: str,
    limits: FetchLimits = LIMITS,
    progress: Progress | None = None,
) -> FetchedTexts:
    """Download the published set of a contract, unless it is in the cache.

    Args:
        pinned: digests of an earlier download, by file, for those that the contract does not state.
        endpoint: the hub's address, or a mirror's.

    Raises:
        SourceError: says which host, and what happened there; what has arrived of a file is kept.
    """
    stated = contract if contract.edition_of is None else contract.edition_of.stated
    published = stated.source.published
    if published is None:
        way = (
            stated.source.obtain or "expected `published` under `source`, or files below DPICL_DATA"
        )
        raise SourceError(f"{contract.name}: no published set is named; {way}")
    whole = edition(stated, PUBLISHED)
    tables = {}
    paths = {}
    digests = {}
    base = endpoint.rstrip("/") if published.hub else str(published.url)
    for split, file in ((TRAIN, published.train), (TEST, published.test)):
        local = getattr(whole.source, split).file
        final = below(cache_folder, local, contract.name)
        try:
            final.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(final.with_name(f".{final.name}.lock")):  # a twin would write the same file
                wanted = file.sha256 or pinned.get(file.file)
                # what nobody has stated anything of is not taken from here
                if final.exists() and wanted is not None:
                    digests[file.file] = _same(final, wanted, contract.name)
                    tables[split] = read_part(whole, split, final, final.name)
                else:
                    draft = final.with_name(f".{final.name}.part")
                    url = _address(published, file, base)
                    digests[file.file] = _download(
                        contract.name,
                        url,
                        draft,
                        wanted,
                        Visit(base, final.parent, limits, progress),
                    )
                    tables[split] = _checked(whole, split, draft, file)
                    draft.chmod(0o600)
                    draft.replace(final)
        except OSError as error:
            raise SourceError(
                f"{contract.name}: the cache cannot be written ({error.strerror})"
            ) from None
        paths[split] = final
    return FetchedTexts(whole, in_one(tables), paths, digests)


def _address(published: Published, file: PublishedFile, base: str) -> str:
    if published.hub is None:
        return f"{base}/{file.file}"
    return f"{base}/datasets/{published.hub}/resolve/{published.revision}/{file.file}"


def _download(name: str, url: str, draft: Path, wanted: str | None, visit: Visit) -> str:
    """The digest of what was downloaded; where none is known, the download begins anew."""
    try:  # late, because reading local files needs no HTTP client
        from dpicl.ground.downloads import download
    except ModuleNotFoundError as error:
        raise SourceError(f"{name}: fetching: {extra_of(error) or error}") from None
    if wanted is None:
        draft.unlink(missing_ok=True)
    try:
        download(url, draft, visit, sha256=wanted)
    except SourceError as error:
        raise SourceError(f"{name}: {error}") from None
    return wanted or file_sha256(draft)


def _same(path: Path, wanted: str, name: str) -> str:
    actual = file_sha256(path)
    if actual != wanted:
        raise SourceError(
            f"{name}: {path.name} in the cache has sha256 {actual[:12]}, expected {wanted[:12]}; "
            f"delete it to download it again"
        )
    return actual


def _checked(whole: TextContract, split: str, draft: Path, file: PublishedFile) -> pa.Table:
    """The texts of a download; it is deleted where they do not fit the contract."""
    try:
        table = read_part(whole, split, draft, Path(getattr(whole.source, split).file).name)
        if file.rows is not None and table.num_rows != file.rows:
            raise SourceError(
                f"{whole.name}: {file.file} has {table.num_rows} texts, expected {file.rows}"
            )
        if split == TRAIN:
            counts = Counter(table.column("label").to_pylist())
            short = [
                label
                for label, least in whole.row_bounds.items()
                if (counts[label] if label else table.num_rows) < least
            ]
            if short:
                rule = (
                    f"fewer texts than the contract's bounds for {len(short)} of "
                    f"{len(whole.row_bounds)} labels"
                )
                raise SourceError(
                    f"{whole.name}: {file.file} has {rule}; expected the published set"
                )
    except (DataError, SourceError) as error:
        draft.unlink()
        raise SourceError(f"the download does not fit the contract: {error}") from None
    return table
