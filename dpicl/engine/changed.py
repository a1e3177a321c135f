"""Telling a person at a terminal that the rows have changed since a release was drawn from them.

It decides nothing, and is reported nowhere else: whether rows have changed is no public fact. What was drawn from which
state of the rows is kept in the private part of the installation.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection

from dpicl.engine.files import PRIVATE_MODE, read_json, write_json
from dpicl.engine.settings import Settings


def warn_if_changed(settings: Settings, dataset: str, releases: Collection[str], drawn: Collection[str], version: str) -> None:
    """Note what releases were drawn from now, and compare the others with what was noted.

    Args:
        drawn: those that were drawn now.
        version: keyed name of the rows' present state.
    """
    folder = settings.private("drawn-from")
    for name in drawn:
        write_json(folder / f"{name}.json", version, mode=PRIVATE_MODE, replace=True)
    files = [folder / f"{name}.json" for name in releases if name not in drawn]
    if not any(file.exists() and read_json(file) != version for file in files):
        return
    sentence = (
        f"{dataset}: its rows have changed since they were released from, and the release stands for its period; "
        f"a new period draws anew (`releases: {{every: month}}` in the contract, or --period)"
    )
    if sys.stderr.isatty():
        print(f"note: {sentence}", file=sys.stderr)  # noqa: T201 - to a person and to no log
    elif hasattr(sys, "ps1") or "ipykernel" in sys.modules:
        warnings.warn(sentence, stacklevel=1)
