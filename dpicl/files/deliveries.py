"""Folders in which each period of a calendar has a file, named by it; which are there is public,
and opens none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from dpicl.errors import DataError, SourceError
from dpicl.files.bounded import below
from dpicl.files.objects import SCHEME, names_below


def names_in(named: str, dataset: str, data_folder: Path | None) -> list[str]:
    """Names in a folder, below the data folder or in a store, in order, but those that begin with a
    dot or an underscore. Raises SourceError: it is not at hand, or cannot be read.
    """
    if named.startswith(SCHEME):
        every = names_below(named)
    elif data_folder is None or not (folder := below(data_folder, named, dataset)).is_dir():
        raise SourceError(
            f"{dataset}: no rows at hand; set DPICL_DATA to the folder that holds {named}/"
        )
    else:
        try:
            paths = [path for path in folder.iterdir() if not path.name.startswith((".", "_"))]
            # by a link, rows would be another account's too, or of two periods
            linked = any(not path.resolve().is_relative_to(folder) for path in paths)
            linked = linked or len(
                {(one.st_dev, one.st_ino) for one in (path.stat() for path in paths)}
            ) < len(paths)
        except OSError as error:
            raise SourceError(
                f"{dataset}: folder {named} cannot be read ({error.strerror})"
            ) from None
        if linked:
            raise SourceError(
                f"{dataset}: folder {named} holds links; expected files of its own, each once"
            )
        every = [path.name for path in paths]
    return sorted(name for name in every if not name.startswith((".", "_")))


def by_period(
    named: str,
    dataset: str,
    data_folder: Path | None,
    *,
    suffixes: Sequence[str],
    is_period: Callable[[str], bool],
    example: str,
) -> dict[str, str]:
    """{period: path of its file below the data folder, or its address}.
    Raises SourceError: as `names_in`; DataError: something in the folder is not named as deliveries
    are, or a period has two files.

    Args:
        is_period: whether the beginning of a name is a period; `example` is one.
    """
    folder, files, others = named.rstrip("/"), dict[str, str](), 0
    for name in names_in(folder, dataset, data_folder):
        suffix = next((suffix for suffix in suffixes if name.endswith(suffix)), "")
        period = name.removesuffix(suffix)
        if not suffix or not is_period(period):
            others += 1
        elif period in files:
            raise DataError(f"{folder}/", f"has two files for {period}; expected one")
        else:
            files[period] = f"{folder}/{name}"
    if others:
        endings = ", ".join(suffixes)
        raise DataError(
            f"{folder}/",
            f"holds files that are named by no period; expected names such as {example} with "
            f"{endings}",
            count=others,
        )
    return files


def check_delivered(
    files: Iterable[str], wanted: Iterable[str], dataset: str, named: str, suffixes: Sequence[str]
) -> None:
    """Refuse, with a SourceError, a period that has no file: its rows are yet to come."""
    there = set(files)
    for period in wanted:
        if period not in there:
            raise SourceError(
                f"{dataset}: {period} is not delivered yet; expected {named.rstrip('/')}/{period} "
                f"with {' or '.join(suffixes)}, "
                f"without rows if nothing arrived"
            )
