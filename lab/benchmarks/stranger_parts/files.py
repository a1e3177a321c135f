"""Files as people have them: how many are released as they are, by what `source` says of them, and
how many of the others are refused, uncharged, with what to write.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import dpicl
from dpicl.ground.errors import DpiclError
from lab.benchmarks.figures import Figures
from tests.harness import new_place
from tests.library.tabular.odd_files import COLUMNS, READ, REFUSED, OddFile

LEAST = 24


def outcome(odd: OddFile, folder: Path) -> str:
    """What `dpicl.protect` says of a file: what was charged, or the sentence that refuses it."""
    folder.mkdir()
    (folder / odd.name).write_bytes(odd.content())
    schema = {"columns": COLUMNS, "source": odd.source, "label": "bought"}
    try:
        return dpicl.protect(folder / odd.name, schema, epsilon=20, account=folder.name).spent[0]
    except DpiclError as error:
        return str(error)


def measure(figures: Figures) -> None:
    """Each file in turn, in one installation."""
    with tempfile.TemporaryDirectory() as scratch:
        place = new_place(Path(scratch) / "place")
        with place.entered():
            said = {
                odd: outcome(odd, place.root / f"file{number}")
                for number, odd in enumerate((*READ, *REFUSED))
            }
    released = sum("1 release, charged now" in said[odd] for odd in READ)
    refused = sum(odd.refused in said[odd] for odd in REFUSED)
    figures.at_least("odd files", len(said), LEAST)
    figures.exactly("odd files released", released, len(READ))
    figures.exactly("other odd files refused with what to write", refused, len(REFUSED))


if __name__ == "__main__":
    figures = Figures()
    measure(figures)
    figures.finish()
