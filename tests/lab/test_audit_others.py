"""The referee on other libraries: known faults are found, what holds is left alone, and what is
missing is said in one sentence.
"""

from __future__ import annotations

import json
import math
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpicl.ground.errors import ParameterError
from lab.audit.case import Trial
from lab.audit.others import (
    TARGETS,
    Fault,
    Finding,
    Target,
    attackers,
    audit_target,
    events,
    suites,
)
from lab.audit.others.report import faults_found
from lab.audit.others.targets import NUMPY_1, PEERS, Environment
from lab.audit.others.worker import Library, LibraryFailedError
from tests.lab.test_audit_command import run

RUNS = 5000
TEXTBOOK = TARGETS["textbook"]
with_peers = pytest.mark.skipif(
    not (Path(PEERS.interpreter).exists() and Path(NUMPY_1.interpreter).exists()),
    reason="no peers are installed: make peers",
)


@pytest.fixture(scope="module")
def textbook() -> dict[str, Finding]:
    return {finding.mechanism: finding for finding in audit_target(TEXTBOOK, runs=RUNS, seed=0)}


def test_known_faults_of_textbook_mechanisms_are_found_and_right_noise_holds(
    textbook: dict[str, Finding],
) -> None:
    assert {name: one.verdict for name, one in textbook.items()} == {
        "geometric": "holds",
        "laplace": "known, found",
        "sparse_without_query_noise": "known, found",
        "sparse_without_stop": "known, found",
    }
    bounds = {name: one.result.epsilon_at_least for name, one in textbook.items() if one.result}
    assert 0.8 < bounds["geometric"] <= 1 and bounds["laplace"] > 3


def test_what_exceeds_without_a_known_fault_and_a_fault_that_is_not_found_fail(
    textbook: dict[str, Finding],
) -> None:
    new = replace(textbook["laplace"], fault=None)
    assert new.verdict == "EXCEEDED" and not new.passed
    missed = replace(textbook["geometric"], fault=Fault("less noise", "made up"))
    assert missed.verdict == "known, NOT FOUND" and not missed.passed
    assert faults_found([textbook["laplace"], missed]) == {
        f"textbook: {TEXTBOOK.mechanisms[1].fault.what_is_wrong} "  # type: ignore[union-attr]
        f"({TEXTBOOK.mechanisms[1].fault.source})": True,  # type: ignore[union-attr]
        "textbook: less noise (made up)": False,
    }


def test_every_known_fault_has_a_public_source() -> None:
    faults = {one.fault for target in TARGETS.values() for one in target.mechanisms if one.fault}
    assert len(faults) >= 6 and all(fault.source.startswith("https://") for fault in faults)


def test_the_command_shows_and_writes_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(
        capsys, "--target", "textbook", "--runs", "2000", "--out", str(tmp_path / "out")
    )
    assert code == 0 and "known, found" in out and "https://doi.org/" in out
    records = json.loads((tmp_path / "out" / "targets.json").read_text())
    assert [one["passed"] for one in records] == [True] * 4
    assert records[1]["stated_epsilon"] == 1 < records[1]["epsilon_at_least"]


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (("--target", "opendb"), "did you mean 'opendp'?"),
        (("noisy-count", "--target", "opendp"), "no AUDIT, --all or --table beside it"),
        (("--target", "opendp"), "make peers"),
        (("attackers",), "make peers"),
    ],
)
def test_a_mistake_gets_one_sentence_with_the_fix(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    expected: str,
) -> None:
    monkeypatch.setenv(PEERS.variable, str(tmp_path / "nothing"))
    monkeypatch.setenv(NUMPY_1.variable, str(tmp_path / "nothing"))
    monkeypatch.setenv("DPICL_HOME", str(tmp_path))
    code, _, err = run(capsys, *arguments, "--out", str(tmp_path / "out"))
    *_, last = err.splitlines()
    assert code == 2 and expected in last and last.startswith("dpicl: ")


def test_a_package_that_is_not_installed_is_said() -> None:
    here = Environment(sys.executable)
    target = Target("textbook", ("a-package-that-nobody-has",), here, TEXTBOOK.mechanisms)
    with pytest.raises(ParameterError, match="a-package-that-nobody-has"):
        list(audit_target(target, runs=1, seed=0))


def test_a_library_that_fails_is_a_finding_and_the_process_answers_on() -> None:
    with closing(TEXTBOOK.library()) as library:
        with pytest.raises(LibraryFailedError, match="KeyError"):
            library.ask("stated", mechanism="unheard of")
        assert library.ask("stated", mechanism="laplace") == [1, 0]
        assert library.drawn("laplace", True, 3, 7).tolist() == pytest.approx(
            library.drawn("laplace", True, 3, 7).tolist(), abs=0
        )
    with (
        closing(Library("textbook", "true", "")) as gone,
        pytest.raises(LibraryFailedError, match="died"),
    ):
        gone.ask("versions", packages=[])


def test_a_grain_finer_than_the_other_neighbours_is_an_event() -> None:
    outputs = np.array([0.5, 2.0**-53, 2.0**-54 + 2.0**-60])
    finer = {name: event(outputs).tolist() for name, event in events.GRAIN.items()}
    assert finer["finer than 2^-52"] == [False, True, True]
    assert finer["finer than 2^-53"] == [False, False, True]


def test_events_become_one_code_for_a_tester() -> None:
    trial = Trial(lambda which, count, stream: np.zeros(count), events.at_least(0, 1, 2))
    assert suites.codes_of(trial, np.array([-1, 0, 1, 5])).tolist() == [0, 1, 3, 7]


def test_without_suites_it_is_said_and_a_folder_without_them_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(suites.VARIABLE, raising=False)
    code, out, _ = run(capsys, "suites", "--out", str(tmp_path))
    assert code == 0 and out.count("\n") == 1 and "suites are not run" in out
    monkeypatch.setenv(suites.VARIABLE, str(tmp_path))
    code, _, err = run(capsys, "suites", "--out", str(tmp_path))
    assert code == 2 and "differential-privacy/python" in err


@pytest.mark.parametrize(
    "printed, good",
    [
        ('drawn by dpicl: {"noisy_count": 3}\n5 passed in 1s', True),
        ("drawn by dpicl: {}\n5 passed in 1s", False),
        (
            'drawn by dpicl: {"noisy_count": 3}\nFAILED test/a.py::test_randomized_response - E\n'
            + "1 failed, 5 passed",
            True,
        ),
        (
            'drawn by dpicl: {"noisy_count": 3}\nFAILED test/a.py::test_laplace[x] - E\n'
            + "1 failed, 5 passed",
            False,
        ),
        ("", False),
    ],
)
def test_opendp_tests_count_only_where_dpicl_drew(printed: str, good: bool) -> None:
    assert suites.read_opendp(printed).good is good


def attacked(package: str, epsilon: float, at_least: float) -> attackers.Attacked:
    return attackers.Attacked(package, "membership", epsilon, 0.9, 0.1, at_least)


def test_attacks_pass_within_epsilon_and_only_if_rows_as_they_are_are_found_out() -> None:
    within, found = attacked("art", 1.0, 0.1), attacked("art", math.inf, 0.9)
    assert attackers.passed([within, found])
    assert not attackers.passed([within, attacked("art", math.inf, 0.0)])
    assert not attackers.passed([attacked("art", 1.0, 0.97), found])


@pytest.mark.exhaustive
@with_peers
@pytest.mark.parametrize("name", [name for name in TARGETS if name != "textbook"])
def test_libraries_hold_but_for_their_known_faults(name: str) -> None:
    assert {
        one.mechanism: one.verdict
        for one in audit_target(TARGETS[name], runs=4 * RUNS, seed=0)
        if not one.passed
    } == {}


@pytest.mark.exhaustive
@with_peers
def test_attacks_of_others_stay_within_what_epsilon_allows(tmp_path: Path) -> None:
    assert attackers.audit_attackers(runs=200, seed=0, folder=tmp_path)
