"""Locks between processes, as POSIX has them and as Windows does; and a core that imports nothing
only POSIX has.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_ONLY_POSIX = ("fcntl", "pwd", "grp", "resource")
_HIDING = f"""
import errno, fcntl, os, subprocess, sys, types
def locking(handle, mode, count):
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, count, os.lseek(handle, 0, os.SEEK_CUR))
    except OSError:
        raise PermissionError(errno.EACCES, "locked") from None
sys.modules["msvcrt"] = types.ModuleType("msvcrt")
sys.modules["msvcrt"].LK_NBLCK, sys.modules["msvcrt"].locking = 2, locking
for name in {_ONLY_POSIX!r}:
    sys.modules[name] = None
"""
"""Windows' call on what POSIX has for it: byte ranges that belong to a process."""
_HOLDS = (
    "import pathlib\nfrom dpicl.ground.files import locked\nwith locked(pathlib.Path('lock')):\n   "
    " print('held', flush=True)\n    input()\n"
)
_LOOKS = (
    "import pathlib\nfrom dpicl.ground.files import is_free\nprint(is_free(pathlib.Path('lock')))\n"
)
_CORE = (
    "import dpicl, dpicl.cli.app, dpicl.session, dpicl.client.__main__, dpicl.release\nfrom "
    "dpicl.methods import METHODS\nprint(len(METHODS))\n"
)


@pytest.fixture(params=["posix", "windows"])
def system(request: pytest.FixtureRequest) -> str:
    """What a program begins with to see such a system."""
    return _HIDING if request.param == "windows" else ""


def _started(folder: Path, program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _said(folder: Path, program: str) -> str:
    return _started(folder, program).communicate(timeout=60)[0]


@pytest.mark.quick("posix")
def test_a_lock_is_held_until_its_process_dies(system: str, tmp_path: Path) -> None:
    assert _said(tmp_path, system + _LOOKS) == "True\n", "no file, no holder"
    with _started(tmp_path, system + _HOLDS) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        assert _said(tmp_path, system + _LOOKS) == "False\n"
        with _started(tmp_path, system + _HOLDS) as waiting:
            holder.kill()
            assert waiting.communicate("\n", timeout=60)[0] == "held\n"
    assert _said(tmp_path, system + _LOOKS) == "True\n"


def test_the_place_in_a_locked_file_stays(system: str, tmp_path: Path) -> None:
    """A wallet is written through the handle that is locked, and its content can be read
    meanwhile.
    """
    program = (
        "import os, pathlib\nfrom dpicl.ground.files import hold\nfile = os.open('wallet', "
        "os.O_RDWR | os.O_CREAT)\n"
        "os.write(file, b'one ')\nhold(file)\nos.write(file, "
        "b'two')\nprint(pathlib.Path('wallet').read_text())"
    )
    assert _said(tmp_path, system + program) == "one two\n"


@pytest.mark.exhaustive
def test_library_and_command_line_import_nothing_that_only_posix_has(tmp_path: Path) -> None:
    assert int(_said(tmp_path, _HIDING + _CORE)) > 3
