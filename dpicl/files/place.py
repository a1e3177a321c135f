"""Where a file that a contract names lies: below the data folder, never outside it."""

from __future__ import annotations

from pathlib import Path

from dpicl.errors import SourceError


def below(folder: Path, file: str, dataset: str) -> Path:
    """The whole path of `file`, whether it exists or not.

    Raises:
        SourceError: it leads out of the folder, by itself or by a link.
    """
    try:
        path = (folder / file).resolve()
        inside = path.is_relative_to(folder.resolve())
    except (OSError, RuntimeError):
        inside = False
    if not inside:
        raise SourceError(f"{dataset}: file {file} leads out of the data folder; expected a path below it")
    return path
