"""Weights and data files that come with the program: each is used only after its digest was
compared.

The digests stand in shipped.json, which `python -m tools.digests` writes: of files below this
package. Public tables but that of the demo are not shipped: the digests of their rows stand in the
contracts.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

from dpicl.errors import SourceError

DIGESTS = Path(__file__).with_name("shipped.json")
PUBLISHED_ROWS = Path(__file__).parent.parent / "methods" / "published" / "digests.json"


@cache
def checked(name: str, path: Path) -> Path:
    """This file or folder, whose files are those that come with the program under a name; looked at
    once in a process. Raises SourceError: a file has other bytes, is missing, or is one too many.
    """
    stated: dict[str, str] = json.loads(DIGESTS.read_text("utf-8"))
    expected = {
        file: digest
        for file, digest in stated.items()
        if file == name or file.startswith(f"{name}/")
    }
    actual = digests(name, path)
    wrong = sorted(
        file for file in expected.keys() | actual.keys() if expected.get(file) != actual.get(file)
    )
    if wrong or not expected:
        raise SourceError(
            f"{(wrong or [name])[0]}: is not the file that comes with dpicl; expected its digest, "
            f"so install the package again"
        )
    return path


def row_digests() -> dict[str, str]:
    """Digests of the rows of public sets that dpicl has contracts of, in any order and form: by
    contract, of a slice `NAME:SLICE`.
    """
    stated: dict[str, str] = json.loads(
        (checked("methods/published", PUBLISHED_ROWS.parent) / PUBLISHED_ROWS.name).read_text(
            "utf-8"
        )
    )
    return stated


def digests(name: str, path: Path) -> dict[str, str]:
    """sha256 of a file, or of all files of a folder but Python's, by their names, which begin with
    this one.
    """
    files = (
        [path]
        if path.is_file()
        else sorted(
            one for one in path.rglob("*") if one.is_file() and one.suffix not in (".py", ".pyc")
        )
    )
    return {
        "/".join((name, *file.relative_to(path).parts)): hashlib.sha256(
            file.read_bytes()
        ).hexdigest()
        for file in files
    }
