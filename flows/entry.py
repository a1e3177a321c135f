"""Where `dpicl` begins: a package that is not installed is told in one sentence, and nothing is imported before."""

from __future__ import annotations

import sys

_OURS = ("dpicl", "flows", "tasks", "infra")


def main() -> None:
    """Run the command line; exit code 2 where a package of an extra is missing."""
    try:
        from flows.cli import main as run

        run()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in _OURS:
            raise
        sys.stderr.write(f'dpicl: {missing} is not installed; expected the extras, by `pip install "dpicl[pipeline,local]"`\n')
        sys.exit(2)
