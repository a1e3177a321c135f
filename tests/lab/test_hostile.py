"""Hostile files are refused in one sentence that shows no planted value; the harness that says so
catches what it should.

`make bench TOPIC=privacy` runs ten thousand of these cases, in processes that can be killed.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from dpicl.ground.errors import DataError
from lab.benchmarks import hostile
from lab.benchmarks.hostile_input.cases import Case, attempt
from lab.benchmarks.hostile_input.mutations import mutated
from lab.benchmarks.hostile_input.nasties import nasties

NASTIES = nasties()
CHANGED = 300


@pytest.mark.parametrize("case", NASTIES, ids=[ascii(case.name[:80]) for case in NASTIES])
def test_a_nasty_input_is_refused_or_used_and_shows_nothing(case: Case, tmp_path: Path) -> None:
    outcome = attempt(case, tmp_path)
    assert outcome.verdict in ("accepted", "refused") and not outcome.leaks, outcome.told
    assert outcome.told.isprintable()


def test_there_are_a_hundred_nasties_with_a_name_each() -> None:
    assert len({case.name for case in NASTIES}) == len(NASTIES) >= 100


@pytest.mark.exhaustive
def test_files_changed_at_random_are_refused_or_used_and_show_nothing(tmp_path: Path) -> None:
    verdicts: Counter[tuple[str, str]] = Counter()
    for number in range(CHANGED):
        (tmp_path / str(number)).mkdir()
        case = mutated(number)
        outcome = attempt(case, tmp_path / str(number))
        assert outcome.verdict in ("accepted", "refused") and not outcome.leaks, (
            case.name,
            outcome.told,
        )
        verdicts[case.kind, outcome.verdict] += 1
    assert len(verdicts) == 10, "of each of five kinds, some are accepted and some refused"


def _raising(error: Callable[[], Exception]) -> Callable[[Path], Path]:
    def lay_out(folder: Path) -> Path:
        raise error()

    return lay_out


def _quoting() -> Exception:
    """A clean message whose traceback still quotes a value."""
    try:
        int("zq7secret")
    except ValueError:
        try:
            raise DataError("f", "r")
        except DataError as error:
            return error
    raise AssertionError


@pytest.mark.parametrize(
    "error, verdict, leaks",
    [
        (lambda: DataError("f", "holds zq7secret"), "refused", True),
        (lambda: DataError("f", "holds 7319042217.0"), "refused", True),
        (lambda: ValueError("f"), "traceback", False),
        (lambda: ValueError("zq7"), "traceback", True),
        (_quoting, "refused", True),
    ],
)
def test_a_shown_value_and_a_traceback_are_caught(
    tmp_path: Path, error: Callable[[], Exception], verdict: str, leaks: bool
) -> None:
    outcome = attempt(Case("mutant", "place", _raising(error)), tmp_path)
    assert (outcome.verdict, outcome.leaks > 0) == (verdict, leaks)


def test_a_case_that_does_not_answer_and_one_that_dies_are_caught() -> None:
    ours, theirs = multiprocessing.Pipe()
    start = time.monotonic()
    assert hostile._ask(ours, 0, 0.05).verdict == "hang" and time.monotonic() - start >= 0.05
    theirs.close()
    assert hostile._ask(ours, 0, 0.05).verdict == "died"
