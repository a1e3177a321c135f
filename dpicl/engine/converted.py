"""Published sets that are no files of records, as the files that their contracts name: compared
with the published rows before anything is written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dpicl.contract import TextContract
from dpicl.engine.files import write_text
from dpicl.engine.settings import Settings
from dpicl.errors import SourceError
from dpicl.files.bounded import below
from dpicl.files.shipped import row_digests
from dpicl.text.parse import parse_texts
from dpicl.text.read import in_one, texts_digest
from dpicl.text.receipts import receipts

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
        part: _json_lines(records) for part, records in CONVERTERS[contract.name](folder).items()
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


def _json_lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
