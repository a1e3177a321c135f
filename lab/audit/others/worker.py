"""A process in an environment of other packages, which answers jobs: JSON lines in and out."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpicl.ground.errors import DpiclError, ParameterError

THERE = Path(__file__).with_name("there")
_WALL_SECONDS = 3600


class LibraryFailedError(DpiclError):
    """A library died of a job, or its process did."""


class Worker:
    """A process of a command; started with the first job, and anew when it died."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = command
        self.process: subprocess.Popen[str] | None = None

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        """What it answers; nothing where it died.

        Raises:
            FileNotFoundError: there is no such program.
        """
        if self.process is None or self.process.poll() is not None:
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        watch = threading.Timer(_WALL_SECONDS, self.process.kill)
        watch.start()
        try:
            print(json.dumps(job), file=self.process.stdin, flush=True)
            return dict(json.loads(self.process.stdout.readline() or "{}"))
        except BrokenPipeError:
            return {}
        finally:
            watch.cancel()

    def close(self) -> None:
        """No process stays."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class Library:
    """Another library, asked through a worker of its environment.

    Attributes:
        name: of its module in `there`.
    """

    def __init__(self, name: str, python: str, fix: str) -> None:
        self.name, self.python, self.fix = name, python, fix
        self.worker = Worker((python, "-W", "ignore", str(THERE)))

    def ask(self, wanted: str, **more: Any) -> Any:
        """The result of a job.

        Raises:
            ParameterError: the environment or a package is not there.
            LibraryFailedError: the library failed.
        """
        try:
            answer = self.worker.ask({"library": self.name, "wanted": wanted, **more})
        except (FileNotFoundError, PermissionError):
            answer = {"absent": f"no {self.python}"}
        if "result" in answer:
            return answer["result"]
        if "absent" in answer:
            raise ParameterError("target", f"{self.name}: {answer['absent']}", self.fix)
        raise LibraryFailedError(f"{self.name}: {answer.get('failed', 'its process died')}")

    def drawn(self, mechanism: str, which: bool, count: int, seed: int) -> np.ndarray:
        """So many outputs on one neighbour, every bit as they were."""
        drawn = self.ask("drawn", mechanism=mechanism, which=which, count=count, seed=seed)
        content = base64.b64decode(drawn["content"])
        return np.frombuffer(content, dtype=np.dtype(drawn["type"])).reshape(drawn["shape"])

    def close(self) -> None:
        """No process stays."""
        self.worker.close()
