"""Workers are forked wherever temporary files lie."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

PROGRAM = """
import os, tempfile
from dpicl.ground.processes import fork_server
if __name__ == "__main__":
    with fork_server(["dpicl.ground.errors"]).Pool(1) as pool:
        print(pool.apply(os.getppid) != os.getpid(), tempfile.gettempdir())
"""


@pytest.mark.quick("74")
@pytest.mark.parametrize("length", [0, 74, 75, 200])
def test_a_temporary_folder_may_be_longer_than_a_socket_s_path(length: int, tmp_path: Path) -> None:
    """A run once ended with `AF_UNIX path too long` where a batch system's scratch folder was
    deep.
    """
    (tmp_path / "program.py").write_text(PROGRAM)
    with tempfile.TemporaryDirectory() as short:
        folder = Path(short) / ("x" * max(length - len(short) - 1, 1))
        folder.mkdir()
        made = subprocess.run(
            [sys.executable, str(tmp_path / "program.py")],
            env={**os.environ, "TMPDIR": str(folder)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert made.stdout.split() == ["True", str(folder)], made.stderr
