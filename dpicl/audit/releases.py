"""Audits of whole central releases: every group, and the subsample before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from dpicl.accounting.amplification import amplified_epsilon
from dpicl.accounting.guarantee import Neighbours
from dpicl.audit.bounds import Draw, Run, bound, low_bits
from dpicl.audit.case import CHEAP, LESS_NOISE, AuditCase, Mutant, less_noise
from dpicl.audit.counts import plain_mode, present_only
from dpicl.audit.means import BEYOND, ROWS, VALUE, NoClip, NoiseOf, halved, points_to_more
from dpicl.audit.neighbours import CATEGORIES, category, joined, numbers, rows
from dpicl.mechanisms.noisy_mean import Grid, noisy_mean
from dpicl.mechanisms.poisson_subsample import poisson_subsample
from dpicl.methods import gdp_tabicl
from dpicl.pipeline import Options, Unit
from dpicl.randomness import Draws, Stream
from dpicl.tabular.aggregate import AggregateOptions, aggregate
from dpicl.tabular.group import assign, partition

LARGEST = {"a": 100, "b": 400}
"""Upper bounds by column: far apart, so that a mix-up of columns shows."""
GRIDS = {name: Grid(-largest, largest, 1, "centre") for name, largest in LARGEST.items()}


def _means(columns: Sequence[str], draw: Draw, *, per_run: int = 1) -> Run:
    """Every column at once points to one row more."""

    def more(means: np.ndarray, beyond: int) -> np.ndarray:
        pointing = [points_to_more(means[:, i], 0, beyond * LARGEST[name]) for i, name in enumerate(columns)]
        return np.logical_and.reduce(pointing)

    return bound(
        draw,
        {
            "a row more, clipped": lambda means: more(means, 1),
            "a row more, as it is": lambda means: more(means, BEYOND),
            "last bit": _last_bit,
        },
        per_run=per_run,
    )


def _last_bit(means: np.ndarray) -> np.ndarray:
    return low_bits(np.ascontiguousarray(means[:, -1]))


def _release(columns: Sequence[str], epsilon: float) -> Run:
    """Both groups of a whole release; all rows are in the first."""
    contract = numbers({name: LARGEST[name] for name in columns})
    few = rows(contract, dict.fromkeys(columns, VALUE) | {"bought": "yes"}, ROWS)
    one = rows(contract, {name: BEYOND * LARGEST[name] for name in columns} | {"bought": "yes"}, 1)
    tables, groups, options = {False: few, True: joined(few, one)}, partition(contract, 2), AggregateOptions()

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        table, means = tables[which], np.empty((count, len(columns)))
        members = assign(table, contract, 2)
        for run in range(count):
            first = aggregate(table, members, groups, contract, epsilon=epsilon, options=options, stream=stream).groups[0]
            means[run] = [float(first.values[name]) for name in columns]
        return means

    return _means(columns, draw)


def _averages(columns: Sequence[str], grids: Sequence[Grid], shares: Sequence[Fraction]) -> Run:
    """Mutants: the averages of the first group, with grids and shares of epsilon of one's own."""
    without = np.full(ROWS, float(VALUE))
    values = {False: [without] * len(columns), True: [np.append(without, float(BEYOND * LARGEST[name])) for name in columns]}

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        means = np.empty((count, len(columns)))
        for run in range(count):
            paid = zip(values[which], grids, shares, strict=True)
            means[run] = [noisy_mean(column, grid, epsilon=share, stream=stream) for column, grid, share in paid]
        return means

    return _means(columns, draw, per_run=CHEAP)


def one_column_case() -> AuditCase:
    """A release of one number."""
    grid = GRIDS["a"]
    return AuditCase(
        "gdp-release-1-column",
        "whole central release of one number",
        1.0,
        Neighbours.ADD_OR_REMOVE_ONE,
        "row",
        _release("a", 1.0),
        (
            less_noise(_averages("a", [grid], [LESS_NOISE])),
            Mutant(
                "halved-sensitivity", "the sum's noise is for half of what one row can move", _averages("a", [halved(grid)], [Fraction(1)])
            ),
        ),
    )


def two_columns_case() -> AuditCase:
    """A release of two numbers."""
    a, b = GRIDS["a"], GRIDS["b"]
    shares = [Fraction(1), Fraction(1)]
    shifted = NoiseOf(b.low, b.high, b.step, b.origin, a)
    unclipped = [a, NoClip(b.low, b.high, b.step, b.origin)]
    return AuditCase(
        "gdp-release-2-columns",
        "whole central release of two numbers",
        2.0,
        Neighbours.ADD_OR_REMOVE_ONE,
        "row",
        _release("ab", 2.0),
        (
            Mutant("whole-budget-each", "each column spends the whole epsilon", _averages("ab", [a, b], [Fraction(2)] * 2)),
            Mutant("shifted-bounds", "the second column's noise is for the first column's bounds", _averages("ab", [a, shifted], shares)),
            Mutant("no-clip", "the second column is not clipped to its bounds", _averages("ab", unclipped, shares)),
        ),
    )


RATE, NOMINAL = Fraction(1, 2), 2.0
"""Sampling rate, and epsilon before amplification."""


def _subsampled() -> Run:
    """No row at all, and one of the last category; subsampled, grouped and averaged by the method itself."""
    contract = category(sampling_rate=str(RATE))
    unit = Unit("gdp_tabicl", contract.name, 0, (NOMINAL,), (2,), (), False, Options())
    tables = {which: rows(contract, {"kind": CATEGORIES[-1], "bought": "yes"}, int(which)) for which in (False, True)}

    def once(which: bool, draws: Draws) -> bool:
        members = gdp_tabicl.subsample_and_group(tables[which], contract, unit, draws)
        (released,) = gdp_tabicl.aggregate(tables[which], members, contract, unit, draws).values()
        return released.groups[0].values["kind"] == CATEGORIES[-1]

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        return np.array([once(which, Draws(stream.below(1 << 64), contract.name, simulated=True)) for _ in range(count)])

    return bound(draw, {"the last": lambda hits: hits})


def _modes(mode: Callable[[list[int], Fraction, Stream], int], rate: Fraction) -> Run:
    """Mutants: the mode of the first group, with a rate and a histogram of one's own."""

    def once(which: bool, stream: Stream) -> bool:
        kept = len(poisson_subsample(int(which), sampling_rate=rate, stream=stream))
        return mode([0] * (len(CATEGORIES) - 1) + [kept], Fraction(NOMINAL), stream) == len(CATEGORIES) - 1

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        return np.array([once(which, stream) for _ in range(count)])

    return bound(draw, {"the last": lambda hits: hits})


def subsampled_case() -> AuditCase:
    """A release of one category from a secret subsample, as the method makes it."""
    return AuditCase(
        "gdp-release-subsampled",
        "whole central release of one category from a subsample",
        amplified_epsilon(NOMINAL, RATE),
        Neighbours.ADD_OR_REMOVE_ONE,
        "row",
        _subsampled(),
        (
            Mutant("no-subsample", "every row is kept, yet amplification is claimed", _modes(plain_mode, Fraction(1))),
            Mutant(
                "present-only",
                "only categories that occur are counted, so that a single one is released without noise",
                _modes(present_only, RATE),
            ),
        ),
    )
