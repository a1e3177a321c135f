r"""The state home: where a user's budgets are kept, whatever the working directory, readable by its
owner only.

Linux       $XDG_STATE_HOME/dpicl, or ~/.local/state/dpicl
macOS       ~/Library/Application Support/dpicl
Windows     %LOCALAPPDATA%\dpicl
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from dpicl.errors import LedgerRefusedError, ParameterError, RunError

_LONGEST = 400
"""Bytes of a state home's path; a ledger's may have 512."""
LEDGER, KEY = "ledger.db", Path("keys") / "ledger.key"
RESTORE_LOCK, RESTORING = ".restore.lock", "restoring"
"""Of a home. The latter is there while a backup is being restored: its time, its name and one of
the attempt.
"""


def default_home() -> Path:
    """The state folder that the platform gives its user, whatever the working directory.

    Raises:
        ParameterError: the user has no folder of his own, or it goes by the working directory.
    """
    if sys.platform == "win32":
        named, base = "LOCALAPPDATA", Path(os.environ.get("LOCALAPPDATA", ""))
    elif sys.platform == "darwin":
        named, base = "HOME", _of_user("Library", "Application Support")
    else:
        named, base = "HOME", Path(os.environ.get("XDG_STATE_HOME", ""))
        if not base.is_absolute():  # the standard: a relative one is not heeded
            base = _of_user(".local", "state")
    if not base.is_absolute():
        raise ParameterError(
            named,
            repr(os.environ.get(named, "")[:60]),
            "the absolute path of a folder, or DPICL_HOME set to one",
        )
    return (base / "dpicl").resolve()


def witness_folder() -> Path | None:
    r"""Where the platform lets this user keep what is known of all state homes; None where it says
    nothing.

    Linux       $XDG_CONFIG_HOME/dpicl/witness, or ~/.config/dpicl/witness
    macOS       ~/Library/Preferences/dpicl/witness
    Windows     %APPDATA%\dpicl\witness
    """
    if sys.platform == "win32":
        base = Path(os.environ.get("APPDATA", ""))
    elif sys.platform == "darwin":
        base = _of_user("Library", "Preferences")
    else:
        base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
        if not base.is_absolute():  # as of a state home
            base = _of_user(".config")
    return (base / "dpicl" / "witness").resolve() if base.is_absolute() else None


def stated_home(name: str, stated: str) -> Path:
    """The state home that a user names. Raises ParameterError: it goes by the working directory,
    each of which would have its own budgets; or is too long.
    """
    if not Path(stated).is_absolute():
        meant = Path(os.path.expandvars(os.path.expanduser(stated))).absolute()  # noqa: PTH111 - never fails
        raise ParameterError(
            name,
            repr(stated[:60]),
            f"an absolute path, or each working directory would have budgets of its own: perhaps "
            f"{meant}",
        )
    if len(os.fsencode(stated)) > _LONGEST:
        raise ParameterError(
            name, stated[:60], f"a path of at most {_LONGEST} bytes, as SQLite opens no longer ones"
        )
    return Path(stated).resolve()


def _of_user(*parts: str) -> Path:
    try:
        return Path.home().joinpath(*parts)
    except RuntimeError:  # no such variable, and no user of this number
        return Path()


def make_private(folder: Path, variable: str) -> None:
    """Make a folder that is for its owner only, or make one so that is there; `variable` names
    another one, for messages. Raises RunError: it cannot be made, is not the user's own, or is one
    that users share.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = stat.S_IMODE(folder.stat().st_mode)
        if mode & stat.S_ISVTX or folder == folder.parent:
            raise RunError(
                f"{_named(variable, folder)}: others use it too; expected a folder of its own, "
                f"set {variable} to one"
            )
        if mode & 0o777 != 0o700:
            folder.chmod(0o700)
    except OSError as error:
        raise RunError(
            f"{_named(variable, folder)}: {error.strerror}; expected a folder of yours that can "
            f"be written and be for you alone (mode 0700), "
            f"set {variable} to one"
        ) from None


def _named(variable: str, folder: Path) -> str:
    return f"{'state folder' if variable == 'DPICL_HOME' else 'folder of runs'} {folder}"


def check_restored(home: Path) -> None:
    """Refuse to spend while a restore is not finished. The LedgerRefusedError says what to do."""
    if (home / RESTORING).exists():
        taken = (home / RESTORING).read_text("utf-8").partition(" ")[0]
        raise LedgerRefusedError(
            f"{home}: a backup of {taken} is being restored here; expected `dpicl state restore` "
            f"with it, to finish"
        )
