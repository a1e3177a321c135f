"""One process that fits: a job per line in, its scores per line out. In the environment of dpicl or
of the peers' packages.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from lab.benchmarks.peers.list_of_systems import LIMIT_SECONDS, SYSTEMS


class OutOfTimeError(Exception):
    """A fit has taken its processor time."""


def fitted(job: dict[str, Any]) -> dict[str, Any]:
    """Scores by classifier, or why there are none: `missing`, `late` or `failed`."""
    system = next(one for one in SYSTEMS if one.name == job["system"])
    try:
        run = getattr(
            importlib.import_module(f"lab.benchmarks.peers.{system.module}"), f"run_{system.name}"
        )
        with np.load(job["path"]) as arrays:
            table = dict(arrays)
        signal.setitimer(signal.ITIMER_PROF, LIMIT_SECONDS)
        return run(table, job) or {"missing": "does not take this table"}
    except ImportError as error:
        return {"absent": str(error)}
    except OutOfTimeError:
        return {"missing": f"more than {LIMIT_SECONDS} seconds"}
    except Exception as error:  # noqa: BLE001 - what a peer dies of is shown
        return {"missing": f"{type(error).__name__}: {str(error)[:200]}"}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _out_of_time(*_: object) -> None:
    raise OutOfTimeError


def main() -> None:
    """Until there are no more lines. Fits may print: not into the answers."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    signal.signal(signal.SIGPROF, _out_of_time)
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        for line in sys.stdin:
            started = time.process_time()
            found = fitted(json.loads(line))
            print(
                json.dumps({**found, "seconds": round(time.process_time() - started, 2)}),
                file=answers,
                flush=True,
            )


if __name__ == "__main__":
    main()
