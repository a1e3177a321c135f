"""How a model may be read is found once: kept by the digest of its files, of the program and of the
packages that read it.

Weights are known by their whole content. What is kept is believed only where it has the form that
it was written in, and a change of anything that could change the finding gives it another name:
then all is found anew.
"""

from __future__ import annotations

import hashlib
import json
import platform
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, get_args

import torch

from dpicl.errors import RunError
from dpicl.files.cache import cache_folder, kept_sha256
from dpicl.files.durable import write_whole
from dpicl.lm.local.generation import Writing
from dpicl.lm.local.model_files import FETCHED
from dpicl.lm.local.padded_reader import LAYOUTS, ReadingMode
from dpicl.lm.local.reading_mode import Finding

_PACKAGES = ("accelerate", "numpy", "tokenizers", "torch", "transformers")


class KeptCheck:
    """What was found of one model; where a cache cannot be written nothing is kept.

    Args:
        folder: the model's files.
        asked: what else the finding goes by: number format, device and the like.
    """

    def __init__(self, folder: Path, *asked: str) -> None:
        files = sorted(
            {path for pattern in FETCHED for path in folder.glob(pattern) if path.is_file()}
        )
        parts = [*asked, *_program(), *(f"{path.name} {kept_sha256(path)}" for path in files)]
        self._place: Path | None = None
        self._content: dict[str, Any] = {}
        with suppress(RunError, OSError, ValueError):
            self._place = (
                cache_folder("checks")
                / f"{hashlib.sha256(json.dumps(parts).encode()).hexdigest()}.json"
            )
            content = json.loads(self._place.read_text("utf-8"))
            self._content = content if isinstance(content, dict) else {}

    @property
    def finding(self) -> Finding | None:
        """See `reading_mode.find`."""
        try:
            layout, options, apart, shares, own_pass = (
                self._content[name] for name in ("layout", "options", "apart", "shares", "own_pass")
            )
            has_form = (
                layout in LAYOUTS
                and isinstance(apart, int | None)
                and isinstance(shares, bool)
                and isinstance(own_pass, bool)
            )
            return (
                Finding(ReadingMode(layout, frozenset(map(str, options)), apart), shares, own_pass)
                if has_form
                else None
            )
        except (KeyError, TypeError):
            return None

    @property
    def writing(self) -> Writing | None:
        """See `generation.find_writing`."""
        kept = self._content.get("writing")
        return kept if kept in get_args(Writing) else None

    def keep(self, found: Finding | Writing) -> None:
        """Keep it, beside what is kept already."""
        if isinstance(found, Finding):
            mode = {
                "layout": found.mode.layout,
                "options": sorted(found.mode.options),
                "apart": found.mode.apart,
            }
            self._content |= {**mode, "shares": found.shares, "own_pass": found.own_pass}
        else:
            self._content["writing"] = found
        content, place = json.dumps(self._content).encode(), self._place
        if place is not None:
            with suppress(OSError):
                write_whole(place, lambda file: file.write(content), replace=True, named_later=True)


@cache
def _program() -> tuple[str, ...]:
    """The files of this program that read models, the packages that they call, and what this
    machine computes with.
    """
    ours = [
        path
        for folder in (Path(__file__).parent, Path(__file__).parent.parent)
        for path in sorted(folder.glob("*.py"))
    ]
    return (
        *(hashlib.sha256(path.read_bytes()).hexdigest() for path in ours),
        *(f"{name} {_version(name)}" for name in _PACKAGES),
        (
            f"{platform.python_version()} {platform.machine()} "
            f"{torch.backends.cpu.get_cpu_capability()} {torch.version.cuda}"
        ),
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
