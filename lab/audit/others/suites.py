"""Public suites of tests of differential privacy, run on dpicl's mechanisms from a folder that
DPICL_SUITES names; nothing of them is in this repository.

    differential-privacy   https://github.com/google/differential-privacy: DP-Auditorium's testers
                           on outputs of mechanisms and of their mutants
    opendp                 https://github.com/opendp/opendp: its Python tests, with dpicl's noise in
                           place of OpenDP's for whole numbers
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpicl.cli.terminal import console, counted, new_table, say
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream, stream
from lab.audit.case import AuditCase, Trial
from lab.audit.others.targets import PEERS
from lab.audit.others.worker import THERE, Library
from lab.audit.results import write_json
from lab.audit.run import CASES

VARIABLE = "DPICL_SUITES"
NAME = "suites"
_SAMPLES = 100_000
_WRONG = 1e-4
"""How often one right mechanism would be rejected."""
_FILES = (
    "test/test_meas.py",
    "test/test_comb.py",
    "test/integration/test_count.py",
    "test/integration/test_histogram.py",
    "test/integration/test_sum_int.py",
)
_SECONDS = 300
_OURS_IS_LESS = {"test_randomized_response"}
"""Asserts that epsilon is within 0.0001 of what was asked for; ours is 16 random bits, and states
the smaller epsilon that they have.
"""


@dataclass(frozen=True)
class Tested:
    """A mechanism, or a mutant of it, under a tester: whether what is stated was rejected."""

    tester: str
    mechanism: str
    mutant: str
    epsilon: float
    delta: float
    bound: float
    rejected: bool


@dataclass(frozen=True)
class Passed:
    """What OpenDP's tests said, and how often dpicl drew in them."""

    passed: int
    failed: tuple[str, ...]
    drawn: int

    @property
    def good(self) -> bool:
        """Whether dpicl was tested, and only what is known failed."""
        return self.passed > 0 and self.drawn > 0 and set(self.failed) <= _OURS_IS_LESS


def audit_suites(*, runs: int | None, seed: int, folder: Path) -> bool:
    """Run both suites, print and write the results; whether no mechanism was rejected, mutants
    were, and OpenDP's tests passed.

    Raises:
        ParameterError: the folder that is named lacks a suite, or no peers are installed.
    """
    if not os.environ.get(VARIABLE):
        say(
            f"{VARIABLE} names no folder with differential-privacy and opendp: "
            "public suites are not run"
        )
        return True
    tested = list(_auditorium(_suite("differential-privacy"), runs or _SAMPLES, seed))
    _show(tested)
    opendp = run_opendp(_suite("opendp"))
    say(
        f"OpenDP's tests: {opendp.passed} passed, {len(opendp.failed)} failed "
        f"({', '.join(opendp.failed) or 'none'}); dpicl drew {opendp.drawn} times in them"
    )
    write_json(
        folder / "suites.json",
        {"dp_auditorium": [asdict(one) for one in tested], "opendp": asdict(opendp)},
    )
    right = [one for one in tested if not one.mutant]
    return (
        opendp.good
        and not any(one.rejected for one in right)
        and any(one.rejected for one in tested)
    )


def _suite(name: str) -> Path:
    """Its `python` folder, in the folder that is named."""
    folder = Path(os.environ[VARIABLE], name, "python")
    if not folder.is_dir():
        raise ParameterError(VARIABLE, os.environ[VARIABLE], f"a folder with {name}/python in it")
    return folder.absolute()


def _auditorium(root: Path, runs: int, seed: int) -> Iterator[Tested]:
    """Every quick mechanism and its mutants, under all testers that run here."""
    cases = [case for case in CASES.values() if case.share == 1]
    given: dict[str, Any] = {"root": str(root / "dp_auditorium")}
    with (
        closing(Library("dp_auditorium", PEERS.interpreter, PEERS.fix)) as library,
        tempfile.TemporaryDirectory() as folder,
        counted("testing", "mechanisms") as count,
    ):
        testers = library.ask("found", attack="testers", given=given)
        path = Path(folder) / "samples.npz"
        for done, case in enumerate(cases, 1):
            trials = {"": case.trial} | {mutant.name: mutant.trial for mutant in case.mutants}
            for mutant, trial in trials.items():
                chance = stream(seed, NAME, case.name, mutant)
                _write_samples(path, trial, runs, chance)
                for tester in testers:
                    yield _tested(library, tester, case, mutant, given | {"path": str(path)})
            count.update(done, len(cases))


def _write_samples(path: Path, trial: Trial, runs: int, chance: Stream) -> None:
    one, other = (codes_of(trial, trial.draw(which, runs, chance)) for which in (True, False))
    np.savez(path, one=one, other=other)


def codes_of(trial: Trial, outputs: np.ndarray) -> np.ndarray:
    """Of every output, which events it is in: a whole number with a bit for each."""
    bits = [
        event(outputs).astype(np.int64) << place
        for place, event in enumerate(trial.events.values())
    ]
    return np.sum(bits, axis=0)


def _tested(
    library: Library, tester: str, case: AuditCase, mutant: str, given: dict[str, Any]
) -> Tested:
    how = {
        "tester": tester,
        "epsilon": case.stated_epsilon,
        "delta": case.trial.delta,
        "outputs": 1 << len(case.trial.events),
        "wrong": _WRONG,
    }
    found = library.ask("found", attack="tested", given=given | how)
    bound, rejected = float(found["bound"]), bool(found["rejected"])
    return Tested(tester, case.name, mutant, case.stated_epsilon, case.trial.delta, bound, rejected)


def _show(tested: list[Tested]) -> None:
    table = new_table("tester", "mechanism", "epsilon", "delta", "delta at least", "", "mutants")
    for one in tested:
        if one.mutant:
            continue
        mutants = [
            other.rejected
            for other in tested
            if other.mutant and (other.tester, other.mechanism) == (one.tester, one.mechanism)
        ]
        table.add_row(
            one.tester,
            one.mechanism,
            f"{one.epsilon:.3f}",
            f"{one.delta:.3g}",
            f"{one.bound:.3f}",
            "REJECTED" if one.rejected else "not rejected",
            f"{sum(mutants)} of {len(mutants)} rejected",
        )
    console.print(table)


def run_opendp(root: Path) -> Passed:
    """OpenDP's tests in the peers' environment, where measurements of whole numbers are ours.

    Raises:
        ParameterError: no peers are installed, or the tests did not end.
    """
    repository = str(Path(__file__).parents[3])
    environment = {
        **os.environ,
        "PYTHONPATH": str(THERE),
        "DPICL_OURS": json.dumps(
            ["env", f"PYTHONPATH={repository}", sys.executable, "-m", "lab.audit.others.ours"]
        ),
    }
    command = [PEERS.interpreter, "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider"]
    how = ["-c", os.devnull, "--rootdir", ".", "-p", "opendp_ours", *_FILES]
    try:
        done = subprocess.run(
            [str(Path(command[0]).absolute()), *command[1:], *how],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except FileNotFoundError:
        raise ParameterError(VARIABLE, PEERS.interpreter, PEERS.fix) from None
    return read_opendp(done.stdout)


def read_opendp(printed: str) -> Passed:
    """What the tests printed."""
    passed = re.search(r"(\d+) passed", printed)
    drawn = re.search(r"^drawn by dpicl: (\{.*\})$", printed, re.MULTILINE)
    failed = re.findall(r"^(?:FAILED|ERROR) \S+?::(\w+)", printed, re.MULTILINE)
    return Passed(
        int(passed[1]) if passed else 0,
        tuple(failed),
        sum(json.loads(drawn[1]).values()) if drawn else 0,
    )
