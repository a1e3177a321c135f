"""Audits of whole central releases: every group, the subsample before it, and persons with many
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.accounting.guarantee import amplified_epsilon
from dpicl.contract import Contract
from dpicl.data.central.aggregate import AggregateOptions, assign, partition
from dpicl.ground.randomness import Draws, Stream
from dpicl.ground.types import PrivateTable
from dpicl.mechanisms.noisy_count import noisy_modes
from dpicl.mechanisms.noisy_mean import Grid, noisy_means
from dpicl.mechanisms.poisson_subsample import poisson_subsample
from dpicl.methods import Options, unit_of
from dpicl.methods.gdp_tabicl import GdpTabicl
from lab import in_memory
from lab.audit.case import LESS_NOISE, AuditCase, Draw, Mutant, Trial, less_noise, low_bits
from lab.audit.counts import PRESENT_ONLY, present_only
from lab.audit.means import BEYOND, HALVED, ROWS, VALUE, NoClip, NoiseOf, halved, points_to_more
from lab.audit.neighbours import CATEGORIES, SHOTS, category, in_every_group, joined, numbers
from lab.in_memory import averages

LARGEST = {"a": 100, "b": 400}
"""Upper bounds by column: far apart, so that a mix-up of columns shows."""
_USUAL = AggregateOptions()
GRIDS = {name: Grid(-largest, largest, 1, "centre") for name, largest in LARGEST.items()}


def _means(columns: Sequence[str], draw: Draw) -> Trial:
    """Every column at once points to one row more."""

    def more(means: np.ndarray, beyond: int) -> np.ndarray:
        pointing = [
            points_to_more(means[:, i], 0, beyond * LARGEST[name]) for i, name in enumerate(columns)
        ]
        return np.logical_and.reduce(pointing)

    return Trial(
        draw,
        {
            "a row more, clipped": lambda means: more(means, 1),
            "a row more, as it is": lambda means: more(means, BEYOND),
            "last bit": lambda means: low_bits(np.ascontiguousarray(means[:, -1])),
        },
    )


def _in_runs(count: int, release: Callable[[], Sequence[Any]]) -> np.ndarray:
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
            released = averages(
                table, members, groups, contract, epsilon=epsilon, options=options, stream=stream
            )
            return [[float(group.values[name]) for name in columns] for group in released.groups]

        return _in_runs(count, release)

    return _means(columns, draw)


def _averages(columns: Sequence[str], grids: Sequence[Grid], shares: Sequence[Fraction]) -> Trial:
    """Mutants: the averages of the first group, with grids and shares of epsilon of one's own."""
    without = np.full(ROWS, float(VALUE))
    values = {
        False: [without] * len(columns),
        True: [np.append(without, float(BEYOND * LARGEST[name])) for name in columns],
    }

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        paid = zip(values[which], grids, shares, strict=True)
        means = [
            noisy_means([rows] * count, grid, epsilon=share, stream=stream)
            for rows, grid, share in paid
        ]
        return np.array(means).T

    return _means(columns, draw)


RATE, NOMINAL = Fraction(1, 2), 2.0
"""Sampling rate, and epsilon before amplification."""
MOST, HELD, ROW_EPSILON = 2, 6, 0.5
"""Rows of a person that may enter, rows that the person has, and epsilon of one row."""


def _by_method(contract: Contract, epsilon: float, tables: dict[bool, PrivateTable]) -> Trial:
    """Whether the last category is released in a group; bounded, subsampled, grouped and averaged
    by the method itself.
    """
    unit = unit_of(GdpTabicl.name, contract.name, 0, (epsilon,), (SHOTS,), (), False, Options())

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        def release() -> list[bool]:
            draws = Draws(stream.below(1 << 64), contract.name, simulated=True)
            (released,) = in_memory.of_table(
                GdpTabicl(), tables[which], contract, unit, draws
            ).draws.values()
            return [group.values["kind"] == CATEGORIES[-1] for group in released.groups]

        return _in_runs(count, release)

    return Trial(draw, {"the last": lambda hits: hits})


def _modes(modes: Callable[..., list[int]], rate: Fraction) -> Trial:
    """Mutants: the mode of the first group, with a rate and a histogram of one's own."""

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        sampled = np.zeros(count, dtype=int)
        sampled[poisson_subsample(count, sampling_rate=rate, stream=stream)] = int(which)
        histograms = [[0] * (len(CATEGORIES) - 1) + [row] for row in sampled.tolist()]
        return (
            np.array(modes(histograms, epsilon=Fraction(NOMINAL), stream=stream))
            == len(CATEGORIES) - 1
        )

    return Trial(draw, {"the last": lambda hits: hits})


def owned(max_rows: int) -> Contract:
    """Persons' rows of one category column, so many of each may enter."""
    plain = category()
    privacy = {"unit": "person", "person": {"id_column": "who", "max_rows": max_rows}}
    return plain.model_copy(
        update={
            "privacy": type(plain.privacy).model_validate({**plain.privacy.model_dump(), **privacy})
        }
    )


def _person(max_rows: int) -> Trial:
    """No person, and one with many rows of the last category in every group."""
    contract, tables = owned(max_rows), {}
    for which in (False, True):
        table = in_every_group(contract, {"kind": CATEGORIES[-1]}, HELD * which)
        # every group's rows are one person's
        owners = pa.array(np.arange(table.row_count, dtype=np.int64) // HELD)
        tables[which] = PrivateTable(table.data.append_column("who", owners))
    return _by_method(contract, ROW_EPSILON, tables)


_ONE_ROW = {
    which: in_every_group(category(), {"kind": CATEGORIES[-1]}, int(which))
    for which in (False, True)
}
"""No row at all, and one of the last category in every group."""
_A, _B = GRIDS["a"], GRIDS["b"]
_SHARES = [Fraction(1), Fraction(1)]
_SHARED = AggregateOptions("shared-count")
CASES = (
    AuditCase(
        "gdp-release-subsampled",
        "whole central release of one category from a subsample",
        amplified_epsilon(NOMINAL, RATE),
        _by_method(category(sampling_rate=str(RATE)), NOMINAL, _ONE_ROW),
    ).with_mutants(
        Mutant(
            "no-subsample",
            "every row takes part, yet amplification is claimed",
            _modes(noisy_modes, Fraction(1)),
        ),
        Mutant(*PRESENT_ONLY, _modes(present_only, RATE)),
    ),
    AuditCase(
        "gdp-release-1-column", "whole central release of one number", 1.0, _release("a", 1.0)
    ).with_mutants(
        less_noise(_averages("a", [_A], [LESS_NOISE])),
        Mutant(*HALVED, _averages("a", [halved(_A)], [Fraction(1)])),
    ),
    AuditCase(
        "gdp-release-2-columns", "whole central release of two numbers", 2.0, _release("ab", 2.0)
    ).with_mutants(
        Mutant(
            "whole-budget-each",
            "each column spends the whole epsilon",
            _averages("ab", [_A, _B], [Fraction(2)] * 2),
        ),
        Mutant(
            "shifted-bounds",
            "the second column's noise is for the first column's bounds",
            _averages("ab", [_A, NoiseOf(_B.low, _B.high, _B.step, _B.origin, _A)], _SHARES),
        ),
        Mutant(
            "no-clip",
            "the second column is not clipped to its bounds",
            _averages("ab", [_A, NoClip(_B.low, _B.high, _B.step, _B.origin)], _SHARES),
        ),
    ),
    AuditCase(
        "gdp-release-shared-count",
        "whole central release of two numbers over one count",
        2.0,
        _release("ab", 2.0, _SHARED),
        share=4,
    ).with_mutants(
        less_noise(_release("ab", 2.0 * float(LESS_NOISE), _SHARED)),
        Mutant(
            "unpaid-count",
            "the sums have all of epsilon, and the count as much as each",
            _release("ab", 3.0, _SHARED),
        ),
    ),
    AuditCase(
        "gdp-release-person",
        f"whole central release, a person with {HELD} rows of which {MOST} may enter",
        MOST * ROW_EPSILON,
        _person(MOST),
        unit="person",
    ).with_mutants(
        Mutant(
            "no-contribution-bound",
            "all rows of a person enter, yet the bound is claimed",
            _person(HELD),
        )
    ),
)
