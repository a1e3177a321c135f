"""Somebody who has installed dpicl, and follows a page in an empty folder."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import File, steps
from tests.harness import DPICL, Place, running_cluster

WIDTH = 100
"""Of the reader's terminal: the pages show tables as they look there."""


@dataclass(frozen=True)
class Reader(Place):
    """A user with a state home of his own in which nothing is, and a folder in which nothing is."""

    exported: dict[str, str] = field(default_factory=dict)
    """Variables that the page exports."""

    @property
    def folder(self) -> Path:
        """Where the page is followed."""
        return self.root / "empty"

    @property
    def environment(self) -> dict[str, str]:
        """No variable of dpicl but what the page exports."""
        named = super().environment.items()
        return {
            **{name: value for name, value in named if not name.startswith("DPICL_")},
            "XDG_STATE_HOME": str(self.root / "state"),
            "COLUMNS": str(WIDTH),
            "PWD": str(self.folder),
            **self.exported,
        }

    def write(self, file: File) -> None:
        """A file that the page shows."""
        path = self.folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text)

    def write_files(self, page: str) -> None:
        """All files that a page shows."""
        for step in steps(page):
            if isinstance(step, File):
                self.write(step)

    def type(self, line: str) -> tuple[int, str]:
        """Exit code and all that is printed; commands of dpicl run in this process, unless the
        shell has a part in them.
        """
        words = shlex.split(line)
        if words[0] == "export":  # a shell that stays keeps it
            name, _, value = words[1].partition("=")
            os.environ[name] = self.exported[name] = os.path.expandvars(value)
            return 0, ""
        if words[0] != "dpicl" or re.search(r"[|<>;&$]", line):
            return self._in_shell(line)
        from dpicl.cli import main

        out, before = io.StringIO(), sys.argv
        sys.argv = words
        try:
            with redirect_stdout(out), redirect_stderr(out):
                main()
        except SystemExit as stopped:
            return int(stopped.code or 0), out.getvalue()
        finally:
            sys.argv = before
        raise AssertionError("the command line always exits")

    @staticmethod
    def _in_shell(line: str) -> tuple[int, str]:
        paths = f"{DPICL.parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", line],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "PATH": paths},
        )
        return done.returncode, done.stdout + done.stderr

    @contextmanager
    def workers(self, api: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Inside, runs have a Prefect server, which is there before since it takes long to start,
        and a worker that knows what the page has exported until now.
        """
        from distributed import Client
        from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings
        from prefect_dask import DaskTaskRunner

        from flows.tabicl import sweep

        folder, environment = str(self.folder), self.environment

        def moved() -> None:
            """In the folder, with no variable of the place that workers are forked in."""
            os.chdir(folder)
            for name in [name for name in os.environ if name.startswith("DPICL_")]:
                del os.environ[name]
            os.environ.update(environment)

        settings: dict[Any, Any] = {PREFECT_API_URL: api, PREFECT_HOME: self.root / "prefect"}
        os.environ["PREFECT_API_URL"] = self.exported["PREFECT_API_URL"] = api
        with (
            running_cluster(self, workers=1) as cluster,
            monkeypatch.context() as changed,
            temporary_settings(settings),
        ):
            with Client(cluster) as client:
                client.run(moved)
            runner: Any = DaskTaskRunner(address=cluster.scheduler_address)
            # it was told a cluster when it was imported
            changed.setattr("flows.tabicl.sweep", sweep.with_options(task_runner=runner))
            changed.setenv("DASK_SCHEDULER_ADDRESS", cluster.scheduler_address)
            yield


def made_reader(root: Path) -> Reader:
    """Somebody new, in an empty folder below `root`."""
    for name in ("empty", "prefect", "dask", "tmp"):
        (root / name).mkdir(parents=True)
    return Reader(root)


@contextmanager
def new_reader(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """The same, in this process."""
    from dpicl.cli.terminal import console

    reader = made_reader(root)
    for name in [
        name for name in os.environ if name.startswith(("DPICL_", "DASK_SCHEDULER", "PREFECT_API"))
    ]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(reader.folder)
    monkeypatch.setattr(console, "width", WIDTH)  # it was told a width when it was imported
    with reader.entered():
        yield reader
