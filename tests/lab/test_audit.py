"""What an attacker sees of two neighbours bounds epsilon from below: at most the stated one.

Every audit is run again on mutants, noise times 0.8 for example, which must be caught: an
audit that catches nothing would prove nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest

from lab.audit import CASES, epsilon_at_least, run_audits
from tests.statistical.sizes import RUNS

SLOW = ("few-shot-fresh", "gaussian-choice", "gdp-release-subsampled")
"""Releases of several draws; what they are made of is audited by `make test` too, and
test_transcripts.py looks at all releases.
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    """All processors."""
    with ProcessPoolExecutor(mp_context=get_context("forkserver")) as pool:
        yield pool


@pytest.mark.quick(
    "noisy-count",
    "randomised-response-7",
    "held-out-evaluation",
    "client-sendings",
    "noisy-mode",
    "client-question",
    "client-agreement",
)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.exhaustive if name in SLOW else ()) for name in CASES],
)
def test_the_bound_is_near_but_not_above_what_is_stated_and_every_mutant_is_caught(
    pool: ProcessPoolExecutor, name: str
) -> None:
    (result,) = run_audits([CASES[name]], runs=RUNS, seed=0, spread=pool.map)
    stated = result.case.stated_epsilon
    assert result.case.near * stated < result.epsilon_at_least <= stated
    assert [mutant.name for mutant in result.mutants if not mutant.caught] == []
    assert result.mutants


def test_an_audit_follows_its_seed() -> None:
    first, again, other = (
        run_audits([CASES["noisy-count"]], runs=500, seed=seed)[0].epsilon_at_least
        for seed in (3, 3, 4)
    )
    assert first == again != other


def test_the_bound_is_clopper_and_pearson_s() -> None:
    """All of ten seen: P >= (sure / 2)^(1/10); none of ten: P <= 1 - (sure / 2)^(1/10)."""
    root = (0.05 / 2) ** (1 / 10)
    assert epsilon_at_least(10, 0, 10, sure=0.05) == pytest.approx(math.log(root / (1 - root)))
    assert epsilon_at_least(0, 0, 10) == -math.inf
    assert epsilon_at_least(10, 10, 10) < 0


def test_an_audit_on_several_processes_is_the_same_as_on_one() -> None:
    case = CASES["noisy-count"]
    with ThreadPoolExecutor(2) as pool:
        spread = run_audits([case], runs=50_000, seed=0, spread=pool.map)[0]
    alone = run_audits([case], runs=50_000, seed=0)[0]
    assert (spread.epsilon_at_least, spread.mutants) == (alone.epsilon_at_least, alone.mutants)
