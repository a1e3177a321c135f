"""Whether a method of another package was audited here: by exact transcripts (`dpicl audit
transcripts`), of the very program that is installed.

Guarantee   none is spent. An audit that passed is no proof: it has seen the worlds that it drew.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from dpicl import __version__
from dpicl.contract.declared import Declared
from dpicl.ground.errors import PrivacyError
from dpicl.ground.files import sha256_of
from dpicl.methods.base import Method

FOLDER = "audited"
"""Of the state home, where audits that passed are noted."""
FEWEST = 200
"""Transcripts of each kind of worlds, without which an audit is not noted."""


def is_ours(method: Method) -> bool:
    """Whether its program is a part of dpicl."""
    return _package(method) == "dpicl"


def note_of(method: Method, folder: Path) -> Path:
    """The file that says that an audit of this program passed, whether or not it is there.
    Raises PrivacyError: the program is in no file, so that nobody could say which one was audited.
    """
    spec = find_spec(_package(method)) if _package(method) != "__main__" else None
    if spec is None or spec.origin is None:
        raise PrivacyError(
            f"method {method.name!r}: its program is in no file; expected an installed module"
        )
    origin = Path(spec.origin)
    files = sorted(origin.parent.rglob("*.py")) if spec.submodule_search_locations else [origin]
    program = "\n".join(f"{path.name} {sha256_of(path.read_bytes())}" for path in files)
    digest = sha256_of(f"{__version__}\n{method.name} {method.draw_version}\n{program}")
    return folder / f"{method.name}-{digest[:32]}.json"


def check_audited(method: Method, contract: Declared, folder: Path) -> None:
    """Refuse a method of another package that was not audited as it is now, on rows that have a
    budget. Raises PrivacyError: it was not.
    """
    if is_ours(method) or contract.is_benchmark or note_of(method, folder).exists():
        return
    raise PrivacyError(
        f"method {method.name!r}: is of the package {_package(method)}, and no audit of this "
        f"program has passed here; expected one before it draws from {contract.name}: "
        f"`dpicl audit transcripts {method.name}`"
    )


def _package(method: Method) -> str:
    return sys.modules[type(method).__module__].__name__.partition(".")[0]
