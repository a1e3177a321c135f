"""What a world does in this process: commands, or the stages of a run; with all that these say."""

from __future__ import annotations

import io
import logging
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from runpy import run_module
from unittest.mock import patch

import pyarrow.csv as pa_csv

from dpicl.ground.errors import StageFailed
from dpicl.release.card import card_files
from dpicl.release.certificate_files import certificate_of
from dpicl.report import report_steps
from dpicl.runs.execute import InProcess, run_units
from dpicl.runs.plan import make_plan
from dpicl.session import Session
from lab.audit.end_to_end.leaves import OUT_FILES
from lab.audit.end_to_end.world import NAME, OUT


@dataclass(frozen=True)
class Output:
    """Exit code, both outputs, log lines and what libraries warn of."""

    code: int
    out: str
    err: str
    log: str
    warnings: str


Command = Callable[[], Output]
DEMONSTRATIONS, GIVEN, ROWS = OUT_FILES


def command_line(*arguments: str) -> Output:
    """`dpicl ARGUMENTS`, run as `python -m dpicl` is."""
    with patch.object(sys, "argv", ["dpicl", *arguments]):
        return captured(partial(run_module, "dpicl", run_name="__main__"))


def _new_out(name: str) -> Path:
    """A file that a release may be written to: what stood there, its certificate and its cards are
    gone.
    """
    out = Path(OUT) / name
    out.parent.mkdir(exist_ok=True)
    for path in (out, certificate_of(out), *card_files(out)):
        path.unlink(missing_ok=True)
    return out


def protect(method: str, *, contract: str = NAME, more: tuple[str, ...] = ()) -> Command:
    """`dpicl protect` of one demonstration into a file, which gets a certificate."""
    typed = ("protect", contract, "--method", method, "--epsilon", "1.0", "--shots", "1", *more)
    return lambda: command_line(*typed, "--out", str(_new_out(DEMONSTRATIONS)))


def synth(method: str, *, more: tuple[str, ...] = ()) -> Command:
    """`dpicl synth` of a few rows."""
    typed = ("synth", NAME, "--method", method, "--epsilon", "1.0", "--rows", "20", *more)
    return lambda: command_line(*typed, "--out", str(_new_out(ROWS)))


def given(method: str, read: Callable[[Path], object] = pa_csv.read_csv) -> Command:
    """`dpicl.protect` of the same rows in memory, read somehow, shown as a notebook does, and a
    table of it in a file.
    """

    def work() -> None:
        out, rows = _new_out(GIVEN), read(Path("data") / f"{NAME}.csv")
        release = Session().protect(
            rows, Path("contracts") / f"{NAME}.yaml", epsilon=1, account="given", method=method
        )
        release.write(out, "parquet", 20)
        sys.stdout.write(release._repr_html_())

    return lambda: captured(work)


def read_frame(path: Path) -> object:
    """A data frame, whose columns have the types that its values suggest."""
    import pandas as pd

    return pd.read_csv(path)


def ask(query: str, *, more: tuple[str, ...] = ()) -> Command:
    """`dpicl ask` for one answer of an ensemble."""
    arguments = (
        "ask",
        query,
        "--contract",
        NAME,
        "--model",
        "fake",
        "--shots",
        "1",
        "--count",
        "1",
        "--epsilon",
        "1.0",
        *more,
    )
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
    warned: list[warnings.WarningMessage] = []
    handler, ours = logging.StreamHandler(log), logging.getLogger("dpicl")
    level = ours.level
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    try:
        with (
            redirect_stdout(out),
            redirect_stderr(err),
            warnings.catch_warnings(record=True) as warned,
        ):
            warnings.simplefilter("always")
            # told of whatever garbage is collected meanwhile; Python shows none by default
            warnings.simplefilter("ignore", ResourceWarning)
            work()
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else int(stopped.code is not None)
    except Exception as error:  # as Prefect stores it: kind and text are what leaves
        code = 1 if isinstance(error, StageFailed) else 2
        err.write(f"{type(error).__name__}: {error}\n")
    finally:
        ours.removeHandler(handler)
        ours.setLevel(level)
    return Output(
        code,
        out.getvalue(),
        err.getvalue(),
        log.getvalue(),
        "".join(f"{one.category.__name__}: {one.message}\n" for one in warned),
    )
