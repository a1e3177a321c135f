"""The entry point of `dpicl`: a missing package of an extra gets one sentence, and nothing is imported before that check."""

from __future__ import annotations

import gc
import sys

from dpicl.installed import extra_of


def main() -> None:
    """Run the command line; exit code 2 where a package of an extra is missing."""
    gc.disable()  # while all is imported nothing becomes garbage; looking for it would take a tenth of the time
    try:
        from dpicl.cli.app import main as run

        gc.enable()
        run()
    except ModuleNotFoundError as error:
        needed = extra_of(error)
        if needed is None:
            raise
        sys.stderr.write(f"dpicl: {needed}\n")
        sys.exit(2)
