"""The data holder's command in this process: `python -m dpicl.client` but for its start, which a
test of its own looks at.
"""

from __future__ import annotations

import io
import shlex
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import patch

from dpicl.client.__main__ import main
from tests.harness import shop_rows


def data_holder(line: str, records: str, folder: Path) -> CompletedProcess[str]:
    """What the command prints and its exit code, with these records as its input, in this
    folder.
    """
    words, out, err = shlex.split(line), io.StringIO(), io.StringIO()
    with (
        patch("sys.argv", ["dpicl.client", *words]),
        patch("sys.stdin", io.TextIOWrapper(io.BytesIO(records.encode()))),
        redirect_stdout(out),
        redirect_stderr(err),
        chdir(folder),
    ):
        return CompletedProcess(words, main(), out.getvalue(), err.getvalue())


def refusal(done: CompletedProcess[str]) -> str:
    """The one sentence of a command that is refused and sends nothing."""
    assert done.returncode == 2 and not done.stdout and done.stderr.count("\n") == 1, done
    return done.stderr


def held(count: int) -> str:
    """Made-up records, each of a client of its own."""
    head, *lines = shop_rows(count).splitlines()
    named = (f"{line},client {number}" for number, line in enumerate(lines))
    return "\n".join([f"{head},who", *named, ""])
