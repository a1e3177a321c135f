"""The entry point of `dpicl`: a missing package of an extra gets one sentence, and nothing is
imported before that check.
"""

from __future__ import annotations

import atexit
import sys

from dpicl.cli.terminal import handlers_kept, leave_when_told, stop_listening
from dpicl.ground.installed import extra_of, importing


def main() -> None:
    """Run the command line; exit code 2 where a package of an extra is missing."""
    # called last of all: what is left takes moments, and Python would end by the signal, without a
    # word
    atexit.register(stop_listening)
    try:
        with handlers_kept():
            leave_when_told()
            with importing():
                from dpicl.cli.app import main as run
            run()
    except ModuleNotFoundError as error:
        needed = extra_of(error)
        if needed is None:
            raise
        sys.stderr.write(f"dpicl: {needed}\n")
        sys.exit(2)
    finally:
        atexit.register(leave_when_told)  # called first of all, before what libraries do at the end
