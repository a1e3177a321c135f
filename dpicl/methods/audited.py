"""Whether a method of another package was audited here: by exact transcripts (`dpicl audit
transcripts`), of the very package that is installed.

Guarantee   none is spent. An audit that passed is no proof: it has seen the worlds that it drew.
Not covered options beside the default ones, and what the package imports from further ones.
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
AUDIT = 1
"""Raised when an audit sees more: what passed before has to pass again."""
FEWEST = 200
"""Transcripts of each kind of worlds, without which an audit is not noted."""


def is_ours(method: Method) -> bool:
    """Whether its program is a part of dpicl."""
    return _package(method) == "dpicl"


def note_of(method: Method, folder: Path) -> Path:
    """The file that says that an audit of this program passed, whether or not it is there.
    Raises PrivacyError: the program is in no file, so that nobody could say which one was audited.
    """
    digests = list[str]()
    for package in _packages(method):
        spec = find_spec(package) if package != "__main__" else None
        if spec is None or spec.origin is None:
            raise PrivacyError(
                f"method {method.name!r}: its program is in no file; expected an installed module"
            )
        origin = Path(spec.origin)
        top = origin.parent if spec.submodule_search_locations else None
        digests += [
            f"{path.relative_to(top) if top else path.name} {sha256_of(path.read_bytes())}"
            for path in (sorted(top.rglob("*")) if top else [origin])
            if path.is_file() and path.suffix != ".pyc"
        ]
    known = f"{__version__} {AUDIT}\n{method.name} {method.draw_version}"
    digest = sha256_of("\n".join([known, *digests]))
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
    return type(method).__module__.partition(".")[0]


def _packages(method: Method) -> list[str]:
    """Of its class, and of what that is made from, but for dpicl and Python's own."""
    packages = dict.fromkeys(kind.__module__.partition(".")[0] for kind in type(method).__mro__)
    return [name for name in packages if name != "dpicl" and name not in sys.stdlib_module_names]
