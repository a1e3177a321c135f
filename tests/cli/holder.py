"""The data holder's command in this process: `python -m dpicl.client` but for its start, which a
test of its own looks at.
"""

from __future__ import annotations

import io
import subprocess
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from dpicl.client.__main__ import main


def data_holder(*typed: object, records: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What the command prints and its exit code, with these records as its input, in this
    folder.
    """
    words, out, err = [*map(str, typed)], io.StringIO(), io.StringIO()
    with (
        patch("sys.argv", ["dpicl.client", *words]),
        patch("sys.stdin", io.TextIOWrapper(io.BytesIO(records.encode()))),
        redirect_stdout(out),
        redirect_stderr(err),
        chdir(folder),
    ):
        code = main()
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())
