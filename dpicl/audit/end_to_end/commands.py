"""What a world does in this process, and what it shows: commands or the stages of a run; every byte that leaves, with public nonces made the same."""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from runpy import run_module
from unittest.mock import patch

import pyarrow.csv as pa_csv

from dpicl.audit.end_to_end.world import NAME, World
from dpicl.certificate.files import certificate_of
from dpicl.engine.execute import InProcess, run_units
from dpicl.engine.plan import make_plan
from dpicl.engine.stage import StageFailed
from dpicl.report.stages import report_steps
from dpicl.session import Session


@dataclass(frozen=True)
class Output:
    """Exit code, both outputs and log lines of a command."""

    code: int
    out: str
    err: str
    log: str


Command = Callable[[], Output]


def command_line(*arguments: str) -> Output:
    """`dpicl ARGUMENTS`, run as `python -m dpicl.cli` is."""
    with patch.object(sys, "argv", ["dpicl", *arguments]):
        return captured(partial(run_module, "dpicl.cli", run_name="__main__"))


def protect(method: str, *, contract: str = NAME, more: tuple[str, ...] = ()) -> Command:
    """`dpicl protect` of one demonstration into a file beside the data, which gets a certificate."""

    def work() -> Output:
        out = Path("demonstrations.jsonl")
        for path in (out, certificate_of(out)):
            path.unlink(missing_ok=True)
        return command_line("protect", contract, "--method", method, "--epsilon", "1.0", "--shots", "1", "--out", str(out), *more)

    return work


def given(method: str) -> Command:
    """`dpicl.protect` of the same rows in memory, shown as a notebook does, and a table of it in a file beside the data."""

    def work() -> None:
        out = Path("given.parquet")
        for path in (out, certificate_of(out)):
            path.unlink(missing_ok=True)
        rows = pa_csv.read_csv(Path("data") / f"{NAME}.csv")
        release = Session().protect(rows, Path("contracts") / f"{NAME}.yaml", epsilon=1, account="given", method=method)
        release.write(out, "parquet", 20)
        sys.stdout.write(release._repr_html_())

    return lambda: captured(work)


def ask(query: str, *, more: tuple[str, ...] = ()) -> Command:
    """`dpicl ask` for one answer of an ensemble."""
    arguments = ("ask", query, "--contract", NAME, "--model", "fake", "--shots", "1", "--count", "1", "--epsilon", "1.0", *more)
    return lambda: command_line(*arguments)


def run(method: str) -> Command:
    """What `dpicl run` does, in this process."""

    def work() -> None:
        folder = make_plan("audited", {"methods": [method], "epsilons": [1.0]}, "audited")
        run_units(folder, InProcess(), report_steps(folder))

    return lambda: captured(work)


def captured(work: Callable[[], object]) -> Output:
    """Do it, and record exit code, both outputs and every line that our loggers were given."""
    out, err, log, code = io.StringIO(), io.StringIO(), io.StringIO(), 0
    handler, ours = logging.StreamHandler(log), logging.getLogger("dpicl")
    level = ours.level
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            work()
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else int(stopped.code is not None)
    except Exception as error:  # as Prefect stores it: kind and text are what leaves
        code = 1 if isinstance(error, StageFailed) else 2
        err.write(f"{type(error).__name__}: {error}\n")
    finally:
        ours.removeHandler(handler)
        ours.setLevel(level)
    return Output(code, out.getvalue(), err.getvalue(), log.getvalue())


_OWN = ("data", "contracts", "pipelines.yaml")
"""What the world was given."""
_SECRET = (("home", "private"), ("home", "series"), ("home", "keys"), ("home", "cache"), ("home", "models"))
_PROGRESS = re.compile(r"home/runs/[^/]+/progress/")
"""The longest text's length while a model writes it: the release holds it too, and its draw is replaced."""
_CLOSED = re.compile(r"(ledger\.db.*|.*anchor.*)$")
"""Files of the ledger, for their owner only: `dpicl budget` is what it shows."""
_NONCES = (
    (re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00| UTC)?"), b"TIME"),
    (re.compile(rb"\d{8}-\d{6}-[0-9a-f]{8}"), b"RUN"),
)


@dataclass(frozen=True)
class Observation:
    """Public bytes by what they are called."""

    seen: Mapping[str, bytes]

    @property
    def code(self) -> int:
        """What the command ended with."""
        return int(self.seen["exit code"])

    @property
    def error(self) -> str:
        """Standard error."""
        return self.seen["stderr"].decode().strip()

    def differing(self, other: Observation) -> list[str]:
        """Names of what the other world shows differently, with the first place where it does."""
        differences = []
        for name in sorted({*self.seen, *other.seen}):
            mine, theirs = self.seen.get(name), other.seen.get(name)
            if mine is None or theirs is None:
                differences.append(f"{name}: in one world only")
            elif mine != theirs:
                first = next((at for at, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs)))
                around = [content[max(0, first - 30) : first + 30].decode(errors="replace") for content in (mine, theirs)]
                differences.append(f"{name}: {around[0]!r} against {around[1]!r}")
        return differences


def observed(world: World, command: Command) -> Observation:
    """Run a command in a world that the caller has entered, and collect its output and all files that it leaves."""
    output = command()
    texts = {"exit code": str(output.code), "stdout": output.out, "stderr": output.err, "log": output.log}
    texts |= {" ".join(arguments): command_line(*arguments).out for arguments in (("budget",), ("budget", NAME))}
    shown = {name: _same(text.encode()) for name, text in texts.items()}
    for path in world.root.rglob("*"):
        parts = path.relative_to(world.root).parts
        if parts[0] in _OWN or (parts[:2] in _SECRET and len(parts) > 2):
            continue
        name = _same("/".join(parts).encode()).decode()
        shown[f"mode of {name}"] = oct(path.stat().st_mode).encode()
        if path.is_file() and not _CLOSED.match(parts[-1]) and not _PROGRESS.match(name):
            shown[name] = _same(path.read_bytes())
    return Observation(shown)


def _same(content: bytes) -> bytes:
    for nonce, word in _NONCES:
        content = nonce.sub(word, content)
    return content
