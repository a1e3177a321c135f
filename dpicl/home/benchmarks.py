"""Which data sets are public: those whose content has a published digest, ours or one that a person
entered here.

`benchmark: true` takes cap, secret noise and noisy metrics away, so a contract's word is not
enough: what was read is compared before anything is released of it. Content decides, and no name: a
copy of public rows is public, and a public file that changes is not, until it is published here
again.

    python -m dpicl.home.benchmarks    writes the digests that are shipped, from the files below
                                         DPICL_DATA; `python -m tools.digests` is next

State   benchmarks.json in DPICL_HOME    {name: {digest, added_utc}}, entered by
        `dpicl data publish`; `dpicl data fetch` of texts enters
                                         {name:published: {digest, added_utc, files: {file:
                                         sha256}}}

Published sets that are no files of records, as the files that their contracts name: compared with
the published rows before anything is written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpicl.contract import Contract, Declared, TextContract
from dpicl.contract.load import edition
from dpicl.contract.text import PUBLISHED
from dpicl.data.reading.files import in_batches, rows_digest, survey
from dpicl.data.reading.source import load_source, query_parts
from dpicl.data.reading.split import table_digest
from dpicl.data.text_files import in_one, receipts, texts_digest
from dpicl.data.text_records import parse_texts
from dpicl.ground.cache import PUBLISHED_ROWS, row_digests
from dpicl.ground.errors import DeclarationError, PrivacyError, SourceError
from dpicl.ground.files import (
    PRIVATE_MODE,
    locked,
    make_private_folder,
    read_json,
    write_json,
    write_text,
)
from dpicl.ground.records import below
from dpicl.home.settings import HUB, Settings

if TYPE_CHECKING:
    from dpicl.data.text_fetch import FetchedTexts

REGISTRY = "benchmarks.json"


@dataclass(frozen=True)
class Content:
    """The digest of everything that a contract reads, and how many rows or texts that is."""

    digest: str
    rows: int


def check_published(contract: Declared, digest: Callable[[], str], settings: Settings) -> None:
    """Refuse a benchmark that is none, with a PrivacyError; to be called once the rows are read,
    and before anything is released of them.

    Args:
        digest: of what was read; not taken where the contract has a budget.
    """
    if not contract.is_benchmark or _comes_with_a_package(contract):
        return
    published = {
        *row_digests().values(),
        *(entry["digest"] for entry in _entered(settings).values()),
    }
    if digest() not in published:
        raise PrivacyError(
            f"{contract.name}: says `benchmark: true` of rows that are not published; expected "
            "`budget: {epsilon: CAP}`, or, if anyone may learn them, `dpicl data publish "
            f"{contract.name}`{_how_fetched(contract)}"
        )


def check_unlisted(contracts: Iterable[Declared], settings: Settings) -> None:
    """Compare at once what says `benchmark: true` under a name that nobody has published, and is
    most likely refused: a run would find out only once its workers have started. Raises
    PrivacyError: it is not published under another name either; else as `read_content`.
    """
    listed = {name.partition(":")[0] for name in (*row_digests(), *_entered(settings))}
    for contract in contracts:
        if contract.is_benchmark and contract.name not in listed:
            digest = partial(_digest_of_all, contract, settings)
            check_published(contract, digest, settings)


def _digest_of_all(contract: Declared, settings: Settings) -> str:
    return read_content(contract, settings).digest


def _how_fetched(contract: Declared) -> str:
    """Of a downloaded set, whose content this installation has not seen downloaded."""
    edition_of = contract.edition_of if isinstance(contract, TextContract) else None
    if edition_of:
        fetch = f"`dpicl data fetch {contract.name}`"
        return f"; a published set is known once {fetch} has compared its files"
    return ""


def content_digest(contract: Declared, table: pa.Table) -> str:
    """Of a whole table, or of all texts, as they were read: 64 hexadecimal digits, whatever the
    order.
    """
    if not isinstance(contract, Contract):
        from dpicl.data.text_files import texts_digest  # of a table it is not needed

        return texts_digest(table)
    if contract.privacy.person:
        return rows_digest(table)  # whose rows they are counts too
    return table_digest([table], contract)[0]


def read_content(contract: Declared, settings: Settings) -> Content:
    """Read all rows of a benchmark as a run does. Raises DeclarationError: the contract has a
    budget, and nothing is read; SourceError: they are not available; DataError: they break the
    contract.
    """
    if not contract.is_benchmark:
        rule = "is of rows with something at stake"
        raise DeclarationError(
            f"{contract.name}.yaml", "privacy.budget", rule, "`benchmark: true` of public rows"
        )
    parts: Iterable[pa.Table]
    if isinstance(contract, TextContract):
        from dpicl.data.text_files import load_texts

        texts = load_texts(contract, **settings.folders)
        return Content(content_digest(contract, texts), texts.num_rows)
    assert isinstance(contract, Contract)
    if in_batches(contract) and contract.source.query is not None:
        parts = query_parts(contract)
    elif in_batches(contract) and (surveyed := survey(contract, settings.data)) is not None:
        parts = (surveyed.batch(number, contract) for number in range(surveyed.batches))
    else:
        parts = [load_source(contract, **settings.folders)]
    if not contract.privacy.person:
        return Content(*table_digest(parts, contract))
    (table,) = parts
    return Content(content_digest(contract, table), table.num_rows)


def fetch_published(contract: TextContract, settings: Settings) -> FetchedTexts:
    """Download the published set of a contract, and enter what it says into the registry: anyone
    can download it without a name. Raises
    SourceError: it cannot be had, or is not the one that the contract states.
    """
    from dpicl.data.text_fetch import fetch_texts
    from dpicl.data.text_files import texts_digest

    name = f"{contract.name}:{PUBLISHED}"
    before = _entered(settings).get(name, {})
    published = None if contract.edition_of is None else contract.edition_of.stated.source.published
    version = (published and published.revision) or ""
    # of another commit nothing is known
    pinned = before.get("files", {}) if before.get("revision") == version else {}
    if published is not None and published.hub and settings.hub.rstrip("/") != HUB:
        for file in (published.train, published.test):
            # else whatever a server says would count as published, and be spent without a budget
            if not (file.sha256 or pinned.get(file.file)):
                raise SourceError(
                    f"{contract.name}: {file.file}: no digest of it is stated, and HF_ENDPOINT "
                    f"names another server than the hub; expected "
                    f"`sha256` in the contract, or a first download from {HUB}"
                )
    fetched = fetch_texts(contract, settings.own("cache"), pinned=pinned, endpoint=settings.hub)
    declare(
        name,
        Content(texts_digest(fetched.table), fetched.table.num_rows),
        settings,
        fetched.digests,
        version,
    )
    return fetched


def declare(
    name: str,
    content: Content,
    settings: Settings,
    files: Mapping[str, str] | None = None,
    revision: str = "",
) -> None:
    """Enter content into this installation's registry, in the place of what the name stood for;
    `files` are the digests of a download at a revision.
    """
    make_private_folder(settings.home)
    with locked(settings.home / f"{REGISTRY}.lock"):
        entry: dict[str, Any] = {
            "digest": content.digest,
            "added_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        entry |= {"files": dict(files), "revision": revision} if files else {}
        write_json(
            settings.home / REGISTRY,
            {**_entered(settings), name: entry},
            mode=PRIVATE_MODE,
            replace=True,
        )


def known_when_read(contracts: Iterable[Declared]) -> list[str]:
    """Names of those that say `benchmark: true`, which is confirmed only when their rows are
    read.
    """
    return [
        contract.name
        for contract in contracts
        if contract.is_benchmark and not _comes_with_a_package(contract)
    ]


def _comes_with_a_package(contract: Declared) -> bool:
    """Whether the rows are read from an installed package, which is public; its version decides
    what they are.
    """
    source = contract.source
    return getattr(source, "bundled", None) is not None and getattr(source, "file", None) is None


def _entered(settings: Settings) -> dict[str, dict[str, Any]]:
    """Raises a PrivacyError if the registry is damaged."""
    path = settings.home / REGISTRY
    if not path.exists():
        return {}
    try:
        return {
            str(name): {
                "digest": str(entry["digest"]),
                "added_utc": str(entry["added_utc"]),
                **(
                    {"files": dict(entry["files"]), "revision": str(entry["revision"])}
                    if "files" in entry
                    else {}
                ),
            }
            for name, entry in read_json(path).items()
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        raise PrivacyError(
            f"{REGISTRY}: is damaged; expected it without that file, and `dpicl data publish "
            f"NAME` for each public set"
        ) from None


def published_digests(settings: Settings) -> dict[str, str]:
    """The digest of every own contract's content that does not come with a package, of a published
    set of each slice, and of none that says no digest of its rows, as whoever holds its licence
    publishes these; the shipped ones are the repository's own.
    """
    contracts: dict[str, Declared] = {}
    for name in settings.own_names():
        contract = settings.declared(name)
        if isinstance(contract, TextContract) and contract.edition_of is not None:
            stated = contract.edition_of.stated
            contracts |= {f"{name}:{part}": edition(stated, part) for part in stated.source.slices}
        elif not _comes_with_a_package(contract) and not _is_without_rows(contract, settings):
            contracts[name] = contract
    return {name: read_content(contract, settings).digest for name, contract in contracts.items()}


def _is_without_rows(contract: Declared, settings: Settings) -> bool:
    """Whether a contract is of texts that nobody may hand on: it pins none, and none are here."""
    if (
        not isinstance(contract, TextContract)
        or contract.source.train is None
        or contract.source.train.sha256 is not None
    ):
        return False
    try:
        from dpicl.data.text_files import find_texts

        find_texts(contract, **settings.folders)
    except SourceError:
        return True
    return False


CONVERTERS: Mapping[str, Callable[[Path], Mapping[str, list[dict[str, Any]]]]] = {"sroie": receipts}
"""By contract: from a folder to records by part."""


def convert(contract: TextContract, folder: Path, settings: Settings) -> list[Path]:
    """Write the files of a contract from a folder as it is published; gives their paths. Raises
    SourceError: there is no converter, no DPICL_DATA, a file is there already, or the rows are not
    the published ones; DataError: a record breaks the contract.
    """
    if contract.name not in CONVERTERS:
        raise SourceError(
            f"{contract.name}: is read as it was published; expected one of "
            f"{', '.join(CONVERTERS)}, or its files where the contract says"
        )
    if settings.data is None:
        raise SourceError(
            f"{contract.name}: nowhere to write; set DPICL_DATA to the folder for "
            f"{getattr(contract.source.train, 'file', '')}"
        )
    texts = {
        part: "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        for part, records in CONVERTERS[contract.name](folder).items()
    }
    table = in_one(
        {
            part: parse_texts(text.encode(), contract, f"{part}.jsonl")
            for part, text in texts.items()
        }
    )
    if texts_digest(table) not in row_digests().values():
        raise SourceError(
            f"{contract.name}: {folder.name}: its {table.num_rows} records are not the published "
            f"ones; expected these whole and unchanged"
        )
    paths = {
        part: below(settings.data, getattr(contract.source, part).file, contract.name)
        for part in texts
    }
    if existing := [path.name for path in paths.values() if path.exists()]:
        raise SourceError(
            f"{contract.name}: {existing[0]} is there already; expected a DPICL_DATA without it"
        )
    return [write_text(paths[part], text) for part, text in texts.items()]


if __name__ == "__main__":
    PUBLISHED_ROWS.write_text(
        json.dumps(published_digests(Settings.from_environment()), indent=1) + "\n"
    )
