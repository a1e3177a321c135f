"""Generated neighbours: what gets noise never differs by more than the guarantee was computed from.

Exact throughout: whole numbers that noise is added to, and fractions for scales and epsilon. A
case gives what moved as a share of what may; more than 1 is a broken guarantee, and 1 is reached,
so that no case is checked against too much. A replaced row may move twice what an added one may.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from dpicl.accounting.guarantee import Neighbours
from dpicl.contract import Contract, load_contract
from dpicl.data.central.aggregate import AggregateOptions, assign, partition
from dpicl.data.reading.split import contributing_rows
from dpicl.ground.randomness import Draws, Stream
from dpicl.ground.types import PrivateTable
from dpicl.mechanisms import noisy_count, noisy_mean
from dpicl.mechanisms.continual_counts import ContinualCounts, Contribution
from dpicl.mechanisms.difference_token import SPREAD
from dpicl.mechanisms.noisy_mean import Grid, Origin
from dpicl.mechanisms.poisson_subsample import poisson_subsample
from dpicl.mechanisms.private_token import UNITS
from dpicl.mechanisms.randomised_response import Response
from dpicl.methods import collection
from dpicl.methods.options import LdpVariant
from dpicl.models.votes import VoteRule, whole_votes
from lab.audit.releases import owned
from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.guarantees.neighbour_inputs import (
    MOST_ROWS,
    Fixed,
    chosen,
    neighbours,
    noised,
    numbers,
    table,
)
from lab.in_memory import averages

PAIRS = sized(10_000, 50)
EPSILONS = (Fraction(1), Fraction(1, 10), Fraction(7, 3), Fraction(0.15))
STEPS = (1.0, 0.1, 0.01, 0.3, 7.0)
_CONTRACTS = Path(__file__).parents[3] / "data_contracts"
Case = Callable[[np.random.Generator], Fraction]
"""What one generated pair moved, as a share of what the guarantee allows."""


def count(rng: np.random.Generator) -> Fraction:
    """A noisy count of the rows."""
    pair, epsilon = neighbours(rng), EPSILONS[rng.integers(len(EPSILONS))]
    seen = []
    for positions in (pair.one, pair.other):
        with noised() as sums:
            noisy_count.noisy_counts([len(positions)], epsilon=epsilon, stream=Fixed())
        seen.append(sums)
    return seen[0].loss(seen[1]) / (epsilon * pair.rows_changed)


def mode(rng: np.random.Generator) -> Fraction:
    """A noisy histogram over public categories, most of them empty."""
    pair, epsilon, categories = (
        neighbours(rng),
        EPSILONS[rng.integers(len(EPSILONS))],
        int(rng.integers(1, 9)),
    )
    codes = rng.integers(categories, size=pair.pool)
    seen = []
    for positions in (pair.one, pair.other):
        histogram = np.bincount(codes[positions], minlength=categories).tolist()
        with noised() as sums:
            noisy_count.noisy_modes([histogram], epsilon=epsilon, stream=Fixed())
        seen.append(sums)
    return seen[0].loss(seen[1]) / (epsilon * pair.rows_changed)


def grid(rng: np.random.Generator, origin: Origin) -> Grid:
    """Bounds and a step of a column, whole or not."""
    step, low = (
        float(rng.choice(STEPS)),
        float(rng.choice((0.0, rng.integers(-1000, 1000), rng.uniform(-1e9, 1e9)))),
    )
    return Grid(
        low,
        low + max(step * 1.5, float(rng.choice((rng.integers(1, 10**6), rng.uniform(1, 1e6))))),
        step,
        origin,
    )


def mean(
    rng: np.random.Generator, origin: Origin, mutate: Callable[[Grid], Grid] = lambda right: right
) -> Fraction:
    """A noisy mean: sum and count against their own sensitivities, and both together against
    epsilon.
    """
    pair, epsilon, right = neighbours(rng), EPSILONS[rng.integers(len(EPSILONS))], grid(rng, origin)
    values = numbers(rng, right.low, right.high, pair.pool)
    seen = []
    for positions in (pair.one, pair.other):
        with noised() as sums:
            noisy_mean.noisy_mean(values[positions], mutate(right), epsilon=epsilon, stream=Fixed())
        seen.append(sums)
    stated = dict(noisy_mean.guarantee(right, epsilon).event.parameters)
    moved = [
        abs(one - other) for (_, one), (_, other) in zip(seen[0].sums, seen[1].sums, strict=True)
    ]
    shares = [
        Fraction(by, int(stated[name]))
        for by, name in zip(moved, ("sum_sensitivity", "count_sensitivity"), strict=True)
    ]
    return max(*shares, seen[0].loss(seen[1]) / epsilon) / pair.rows_changed


@cache
def contracts() -> tuple[Contract, ...]:
    """All shipped ones."""
    return tuple(load_contract(path) for path in sorted(_CONTRACTS.glob("*.yaml")))


def group_by(rng: np.random.Generator, which: tuple[Contract, ...] = ()) -> Fraction:
    """Every group of a whole release: all that gets noise, against epsilon."""
    among = which or contracts()
    contract = among[rng.integers(len(among))]
    pair, epsilon, shots = (
        neighbours(rng),
        float(rng.choice((0.1, 1.0, 7.5))),
        int(rng.choice(contract.shots)),
    )
    options = AggregateOptions(
        ("paid-columns", "all-columns")[rng.integers(2)], ("lower", "centre")[rng.integers(2)]
    )
    pool, groups = table(rng, contract, pair.pool), partition(contract, shots)
    seen = []
    for positions in (pair.one, pair.other):
        rows = chosen(pool, positions)
        with noised() as sums:
            averages(
                rows,
                assign(rows, contract, shots),
                groups,
                contract,
                epsilon=epsilon,
                options=options,
                stream=Fixed(),
            )
        seen.append(sums)
    return seen[0].loss(seen[1]) / (Fraction(epsilon) * pair.rows_changed)


def encoding(rng: np.random.Generator) -> Fraction:
    """What clients hand to randomised response: one client's row changes that client's answers
    only, each within its domain.
    """
    contract = contracts()[rng.integers(len(contracts()))]
    pair = neighbours(rng, permuted=False)
    asked = LdpVariant(encoding=("k-ary", "one-hot")[rng.integers(2)])
    pool, answers = table(rng, contract, pair.pool), []
    draws = Draws(0, contract.name, simulated=True)

    def truth(codes: np.ndarray, law: Response, stream: Stream) -> np.ndarray:
        assert ((codes >= 0) & (codes < law.categories)).all()
        return codes

    for positions in (pair.one, pair.other):
        with patch.object(collection, "randomise", truth):
            rows = chosen(pool, positions)
            collected = collection.collect(rows, contract, asked, 1.0, draws)
        answers.append(collected.stored.astype(int))
    shared = min(map(len, answers))
    changed = int((answers[0][:shared] != answers[1][:shared]).any(axis=1).sum()) + abs(
        len(answers[0]) - len(answers[1])
    )
    return Fraction(changed)


def subsample(rng: np.random.Generator) -> Fraction:
    """Who is drawn: with every row's own randomness kept, two neighbours' samples differ in the
    changed row only.
    """
    pair, rate = neighbours(rng), Fraction(int(rng.integers(1, 20)), 20)
    words = rng.integers(2**64, size=pair.pool, dtype=np.uint64)
    drawn = [
        set(
            positions[
                poisson_subsample(
                    len(positions), sampling_rate=rate, stream=Fixed(words[positions])
                )
            ].tolist()
        )
        for positions in (pair.one, pair.other)
    ]
    return Fraction(len(drawn[0] ^ drawn[1]), pair.rows_changed)


def contribution(rng: np.random.Generator) -> Fraction:
    """People with many rows: one more, or one in another's place; some of their rows enter, and
    nobody else's change.
    """
    most, owners, replaced = (
        int(rng.integers(1, 4)),
        rng.integers(5, size=MOST_ROWS),
        bool(rng.integers(2)),
    )
    words, stay = rng.integers(2**64, size=MOST_ROWS, dtype=np.uint64), np.flatnonzero(owners > 1)
    one = np.append(stay, np.flatnonzero(owners == 0)) if replaced else stay
    used = []
    for who in (one, np.append(stay, np.flatnonzero(owners == 1))):
        positions = rng.permutation(who)
        rows, own = (
            PrivateTable(pa.table({"who": owners[positions]})),
            SimpleNamespace(secret=lambda *_, at=positions: Fixed(words[at])),
        )
        used.append(set(positions[contributing_rows(rows, owned(most), cast(Draws, own))].tolist()))
    return Fraction(len(used[0] ^ used[1]), most * (1 + replaced))


def counters(rng: np.random.Generator) -> Fraction:
    """All releases of a horizon: a unit's rows in any periods and cells, some of them taken back,
    or another unit's in their place.
    """
    periods, most, replaced = (
        int(rng.integers(1, 6)),
        int(rng.integers(1, 3)),
        bool(rng.integers(2)),
    )
    rows = most * int(rng.integers(1, 3))
    neighbours = Neighbours.REPLACE_ONE if replaced else Neighbours.ADD_OR_REMOVE_ONE
    exact = ContinualCounts(
        periods, 2, Contribution(rows, most, int(rng.integers(2))), neighbours, None
    )
    moved = np.zeros((periods, 2, 2), dtype=np.int64)
    for sign in (1, -1)[: 1 + replaced]:
        for place in rng.permutation(np.repeat(np.arange(periods), most))[:rows]:
            one = sign * (rng.choice((1, -1)) if exact.contribution.signed else 1)
            np.add.at(moved, (place, [0, 1], rng.integers(2, size=2)), one)
    history = list(moved.reshape(periods, 4))
    releases = np.concatenate(
        [
            exact.release(history[:period], period=period, stream=Fixed())
            for period in range(1, periods + 1)
        ]
    )
    return Fraction(sum(int(release) ** 2 for release in releases), exact.squared_sensitivity)


def difference(rng: np.random.Generator) -> Fraction:
    """Differences to public logits, of voters that know something, much, or answer with no numbers:
    two candidates' sums against each other.
    """
    pair, candidates = neighbours(rng), int(rng.integers(2, 9))
    public, scales = (
        rng.normal(0, 2, candidates),
        rng.choice((0.1, 3.0, 300.0, np.inf), (pair.pool, 1), p=(0.3, 0.3, 0.35, 0.05)),
    )
    with np.errstate(invalid="ignore"):
        voters = public + scales * rng.normal(0, 1, (pair.pool, candidates))
    rule = VoteRule(
        "difference", None, UNITS, float(rng.choice((0.1, 1.0, 5.0))), int(rng.integers(1, 9))
    )
    one, other = (
        whole_votes(voters[positions], rule, np, public).sum(axis=0)
        for positions in (pair.one, pair.other)
    )
    return Fraction(int(np.ptp(one - other)), SPREAD * pair.rows_changed)


CASES: dict[str, Case] = {
    "noisy-count": count,
    "noisy-mode": mode,
    "noisy-mean-lower": partial(mean, origin="lower"),
    "noisy-mean-centre": partial(mean, origin="centre"),
    "group-by": group_by,
    "difference-token": difference,
    "randomised-response-encode": encoding,
    "poisson-subsample": subsample,
    "contribution": contribution,
    "continual-counts": counters,
}


@dataclass(frozen=True)
class Outcome:
    """Over all pairs of one case."""

    exceeded: int
    largest: Fraction


def try_pairs(case: Case, pairs: int, seed: int = 0) -> Outcome:
    """So many generated pairs; the same seed gives the same pairs."""
    rng = np.random.default_rng(seed)
    shares = [case(rng) for _ in range(pairs)]
    return Outcome(sum(share > 1 for share in shares), max(shares))


def measure(figures: Figures) -> None:
    """How many of 10,000 pairs of each mechanism exceed its sensitivity."""
    for name, case in CASES.items():
        outcome = try_pairs(case, PAIRS)
        print(
            f"{name}: {PAIRS:,} pairs, the largest moved {float(outcome.largest):.6g} of what it "
            f"may",
            flush=True,
        )
        figures.exactly(f"sensitivity-exceeded-{name}", outcome.exceeded, 0)


if __name__ == "__main__":
    FIGURES = Figures()
    measure(FIGURES)
    FIGURES.finish()
