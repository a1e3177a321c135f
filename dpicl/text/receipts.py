"""SROIE's training receipts as it publishes them, a folder of two files a receipt, as records: the
words of each in the order of its annotation.

    box/000.csv    a line of the receipt in each: eight coordinates and its text, separated by
                   commas
    key/000.json   company, date, address and total

Every fifth receipt is held out; one that repeats an earlier one, but for blanks, is left out. What
a receipt does not state is null.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dpicl.errors import SourceError
from dpicl.files.bounded import read_bytes
from dpicl.files.csv_text import utf8
from dpicl.text.read import TEST, TRAIN

_KEYS = ("company", "date", "address", "total")
_COORDINATES, _HELD_OUT = 8, 5


def receipts(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Records by part. Raises SourceError: a folder or file is missing or is of another form;
    DataError: a file is none of UTF-8.
    """
    boxes = sorted((folder / "box").glob("*.csv"))
    if not boxes:
        raise SourceError(
            f"{folder.name}: has no receipts; expected a folder with box/*.csv and key/*.json"
        )
    records: dict[str, list[dict[str, Any]]] = {TRAIN: [], TEST: []}
    seen: set[str] = set()
    for box in boxes:
        key = folder / "key" / f"{box.stem}.json"
        try:
            lines = [line for line in utf8(read_bytes(box), box.name).splitlines() if line.strip()]
            document = "\n".join(line.split(",", _COORDINATES)[_COORDINATES] for line in lines)
            stated = json.loads(utf8(read_bytes(key), key.name))
            answers = {name: stated.get(name) or None for name in _KEYS}
            part = TEST if int(box.stem) % _HELD_OUT == _HELD_OUT - 1 else TRAIN
        except (OSError, ValueError, IndexError, AttributeError):
            raise SourceError(
                f"{folder.name}: {box.stem}: is of another form; expected box/NUMBER.csv and "
                f"key/NUMBER.json"
            ) from None
        if (words := "".join(document.split())) not in seen:
            seen.add(words)
            records[part].append({"id": box.stem, "document": document, **answers})
    return records
