"""Audits of whole central releases: every group, and the subsample before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import chain, islice
from typing import Any

import numpy as np

from dpicl.accounting.amplification import amplified_epsilon
from dpicl.accounting.guarantee import Neighbours
from dpicl.audit.bounds import Draw, Trial, low_bits
from dpicl.audit.case import LESS_NOISE, AuditCase, Mutant, less_noise
from dpicl.audit.counts import Modes, plain_modes, present_only
from dpicl.audit.means import BEYOND, ROWS, VALUE, NoClip, NoiseOf, halved, points_to_more
from dpicl.audit.neighbours import CATEGORIES, SHOTS, category, in_every_group, joined, numbers
from dpicl.mechanisms.noisy_mean import Grid, noisy_means
from dpicl.mechanisms.poisson_subsample import poisson_subsample
from dpicl.methods import Options, gdp_tabicl, unit_of
from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.randomness import Draws, Stream
from dpicl.tabular.central.aggregate import AggregateOptions, aggregate
from dpicl.tabular.central.group import assign, partition

LARGEST = {"a": 100, "b": 400}
"""Upper bounds by column: far apart, so that a mix-up of columns shows."""
_USUAL = AggregateOptions()
GRIDS = {name: Grid(-largest, largest, 1, "centre") for name, largest in LARGEST.items()}


def _means(columns: Sequence[str], draw: Draw) -> Trial:
    """Every column at once points to one row more."""

    def more(means: np.ndarray, beyond: int) -> np.ndarray:
        pointing = [points_to_more(means[:, i], 0, beyond * LARGEST[name]) for i, name in enumerate(columns)]
        return np.logical_and.reduce(pointing)

    return Trial(
        draw,
        {
            "a row more, clipped": lambda means: more(means, 1),
            "a row more, as it is": lambda means: more(means, BEYOND),
            "last bit": _last_bit,
        },
    )


def _last_bit(means: np.ndarray) -> np.ndarray:
    return low_bits(np.ascontiguousarray(means[:, -1]))


def in_runs(count: int, release: Callable[[], Sequence[Any]]) -> np.ndarray:
    """So many runs, of which every release makes `SHOTS`."""
    released = chain.from_iterable(release() for _ in range(-(-count // SHOTS)))
    return np.array(list(islice(released, count)))


def _release(columns: Sequence[str], epsilon: float, options: AggregateOptions = _USUAL) -> Trial:
    """All groups of whole releases."""
    contract = numbers({name: LARGEST[name] for name in columns})
    few = in_every_group(contract, dict.fromkeys(columns, VALUE), ROWS)
    one = in_every_group(contract, {name: BEYOND * LARGEST[name] for name in columns}, 1)
    tables, groups = {False: few, True: joined(few, one)}, partition(contract, SHOTS)

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        table, members = tables[which], assign(tables[which], contract, SHOTS)

        def release() -> list[list[float]]:
            released = aggregate(table, members, groups, contract, epsilon=epsilon, options=options, stream=stream)
            return [[float(group.values[name]) for name in columns] for group in released.groups]

        return in_runs(count, release)

    return _means(columns, draw)


def _averages(columns: Sequence[str], grids: Sequence[Grid], shares: Sequence[Fraction]) -> Trial:
    """Mutants: the averages of the first group, with grids and shares of epsilon of one's own."""
    without = np.full(ROWS, float(VALUE))
    values = {False: [without] * len(columns), True: [np.append(without, float(BEYOND * LARGEST[name])) for name in columns]}

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        paid = zip(values[which], grids, shares, strict=True)
        means = [noisy_means([rows] * count, grid, epsilon=share, stream=stream) for rows, grid, share in paid]
        return np.array(means).T

    return _means(columns, draw)


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


def shared_count_case() -> AuditCase:
    """A release of two numbers whose averages divide by one count."""
    shared = AggregateOptions("shared-count")
    return AuditCase(
        "gdp-release-shared-count",
        "whole central release of two numbers over one count",
        2.0,
        Neighbours.ADD_OR_REMOVE_ONE,
        "row",
        _release("ab", 2.0, shared),
        (
            less_noise(_release("ab", 2.0 * float(LESS_NOISE), shared)),
            Mutant("unpaid-count", "the sums have all of epsilon, and the count as much as each", _release("ab", 3.0, shared)),
        ),
        share=4,
    )


RATE, NOMINAL = Fraction(1, 2), 2.0
"""Sampling rate, and epsilon before amplification."""


def _subsampled() -> Trial:
    """No row at all, and one of the last category in every group; subsampled, grouped and averaged by the method itself."""
    contract = category(sampling_rate=str(RATE))
    unit = unit_of(GdpTabicl.name, contract.name, 0, (NOMINAL,), (SHOTS,), (), False, Options())
    tables = {which: in_every_group(contract, {"kind": CATEGORIES[-1]}, int(which)) for which in (False, True)}

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        def release() -> list[bool]:
            draws = Draws(stream.below(1 << 64), contract.name, simulated=True)
            members = gdp_tabicl.subsample_and_group(tables[which], contract, unit, draws)
            (released,) = gdp_tabicl.aggregate(tables[which], members, contract, unit, draws).values()
            return [group.values["kind"] == CATEGORIES[-1] for group in released.groups]

        return in_runs(count, release)

    return Trial(draw, {"the last": lambda hits: hits})


def _modes(modes: Modes, rate: Fraction) -> Trial:
    """Mutants: the mode of the first group, with a rate and a histogram of one's own."""

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        kept = np.zeros(count, dtype=int)
        kept[poisson_subsample(count, sampling_rate=rate, stream=stream)] = int(which)
        histograms = [[0] * (len(CATEGORIES) - 1) + [row] for row in kept.tolist()]
        return np.array(modes(histograms, Fraction(NOMINAL), stream)) == len(CATEGORIES) - 1

    return Trial(draw, {"the last": lambda hits: hits})


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
            Mutant("no-subsample", "every row is kept, yet amplification is claimed", _modes(plain_modes, Fraction(1))),
            Mutant(
                "present-only",
                "only categories that occur are counted, so that a single one is released without noise",
                _modes(present_only, RATE),
            ),
        ),
    )
