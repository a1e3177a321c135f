"""What an attacker sees of two neighbours bounds epsilon from below: at most the stated one.

Every audit is run again on mutants, noise times 0.8 for example, which must be caught: an
audit that catches nothing would prove nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from fractions import Fraction
from multiprocessing import get_context

import numpy as np
import pytest

from dpicl.data.central.aggregate import AggregateOptions, assign, partition
from dpicl.mechanisms.noisy_mean import noisy_means
from lab.audit import CASES, epsilon_at_least, run_audits
from lab.audit.means import ROWS, VALUE
from lab.audit.neighbours import LABELS, SHOTS, joined, numbers, rows
from lab.audit.releases import GRIDS, LARGEST
from lab.in_memory import averages
from tests.library.examples import seeded
from tests.statistical.sizes import RUNS

SLOW = (
    "aim-release",
    "chosen-bins",
    "continual-counts-corrected",
    "continual-counts-replaced",
    "every-row-release",
    "evolved-release",
    "few-shot-fixed",
    "few-shot-fresh",
    "gaussian-choice",
    "gaussian-release",
    "gdp-release-1-column",
    "gdp-release-2-columns",
    "gdp-release-person",
    "gdp-release-shared-count",
    "gdp-release-subsampled",
    "invisible-ink",
    "keyword-joint",
    "mst-release",
    "noisy-mean-centre",
    "noisy-mean-lower",
    "record-filter",
    "tab-pate-votes",
)
"""Releases of several draws, each of which `make test` audits by itself, and variants;
test_membership.py attacks releases.
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


def test_the_release_s_mutants_differ_from_it_in_their_mistake_only() -> None:
    """What they are made of, without a mistake, gives the release to the last bit."""
    contract = numbers(LARGEST)
    place = {"place": 0, "bought": LABELS[-1]}
    table = joined(
        rows(contract, dict.fromkeys(LARGEST, VALUE) | place, ROWS),
        rows(contract, LARGEST | place, 1),
    )
    groups, members = partition(contract, SHOTS), assign(table, contract, SHOTS)
    released = averages(
        table,
        members,
        groups,
        contract,
        epsilon=2.0,
        options=AggregateOptions(),
        stream=seeded(0, "same"),
    )
    draws = seeded(0, "same")
    for name, largest in LARGEST.items():
        values = [
            np.append(np.full(ROWS, float(VALUE)), float(largest)),
            *[np.zeros(0)] * (SHOTS - 1),
        ]
        means = noisy_means(values, GRIDS[name], epsilon=Fraction(1), stream=draws)
        assert means == [group.values[name] for group in released.groups]


def test_an_audit_on_several_processes_is_the_same_as_on_one() -> None:
    case = CASES["noisy-count"]
    with ThreadPoolExecutor(2) as pool:
        spread = run_audits([case], runs=50_000, seed=0, spread=pool.map)[0]
    alone = run_audits([case], runs=50_000, seed=0)[0]
    assert (spread.epsilon_at_least, spread.mutants) == (alone.epsilon_at_least, alone.mutants)
