"""Audits of all that Tab-PE draws: where every row there can be is a candidate, and where
candidates evolve.

A row with nobody beside it votes for one candidate in every histogram; which one, and how many
noisy votes it has, is what is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from dpicl.data.central.evolution import (
    DistinctRows,
    EvolutionShares,
    Histogram,
    Space,
    evolve,
    nearest,
)
from dpicl.ground.randomness import Stream
from dpicl.ground.types import PrivateCodes
from lab.audit.case import AuditCase, Mutant, Trial

_EPSILON = 2.0
SMALL, LARGE = Space((2, 2, 2), (0, 0)), Space((512, 2), (512,))
"""Where every row is a candidate, and where candidates evolve."""
Evolved = Callable[[DistinctRows, Space, Stream], Sequence[Histogram]]


@dataclass(frozen=True)
class _FromRows(Space):
    """Mutant: variations of candidates are rows."""

    rows: np.ndarray = field(default_factory=lambda: np.empty(0), compare=False)

    def varied(self, rows: np.ndarray, chance: np.random.Generator) -> np.ndarray:
        """Private rows in the place of the first ones."""
        return np.vstack([self.rows, super().varied(rows, chance)[len(self.rows) :]])


def _table(space: Space, which: bool) -> DistinctRows:
    """No row, and one of the last codes."""
    return DistinctRows.of(
        PrivateCodes(
            np.array([[size - 1 for size in space.sizes]] * which).reshape(
                int(which), len(space.sizes)
            )
        )
    )


def _told(histogram: Histogram, row: DistinctRows, space: Space) -> int:
    """Noisy votes of the candidate that the row is, or is nearest to."""
    if len(histogram.columns) < len(space.sizes) or len(histogram.candidates) == space.cells:
        own = row.rows[:, list(histogram.columns)]
        place = int((histogram.candidates == own).all(axis=1).argmax())
    else:
        place = int(nearest(row.rows, histogram.candidates, space)[0])
    return int(histogram.votes[place])


def _trial(space: Space, evolved: Evolved) -> Trial:
    row, tables = _table(space, True), {which: _table(space, which) for which in (False, True)}

    def seen(which: bool, stream: Stream) -> tuple[int, int, int]:
        """The least and the largest of the row's votes; whether the row itself is a candidate in
        the end.
        """
        histograms = evolved(tables[which], space, stream)
        told = [_told(histogram, row, space) for histogram in histograms]
        return (
            min(told),
            max(told),
            int((histograms[-1].candidates == row.rows[0]).all(axis=1).any()),
        )

    return Trial(
        lambda which, count, stream: np.array([seen(which, stream) for _ in range(count)]),
        {
            "a row": lambda seen: seen[:, 0] >= 1,
            "no row": lambda seen: seen[:, 1] <= 0,
            "a candidate": lambda seen: seen[:, 2] == 1,
        },
    )


def _evolved(epsilon: float, shares: EvolutionShares | None = None) -> Evolved:
    return lambda voters, space, stream: evolve(
        voters,
        space,
        epsilon=epsilon,
        stream=stream,
        chance=np.random.Generator(np.random.PCG64(stream.below(1 << 32))),
        shares=shares,
    )


def _exact_last(voters: DistinctRows, space: Space, stream: Stream) -> list[Histogram]:
    *before, last = _evolved(_EPSILON)(voters, space, stream)
    return [*before, replace(last, votes=voters.votes(last.candidates, space))]


def _from_rows(voters: DistinctRows, space: Space, stream: Stream) -> Sequence[Histogram]:
    return _evolved(_EPSILON)(voters, _FromRows(space.sizes, space.ordered, voters.rows), stream)


_WHOLE = EvolutionShares(*[Fraction(_EPSILON)] * 3)
_EVERY = Mutant(
    "whole-epsilon-each",
    "every histogram spends the whole epsilon",
    _trial(SMALL, _evolved(_EPSILON, _WHOLE)),
)
CASES = (
    AuditCase(
        "every-row-release",
        "noisy votes for every row there can be",
        _EPSILON,
        _trial(SMALL, _evolved(_EPSILON)),
        share=20,
    ).with_mutants(
        _EVERY,
        Mutant("half-noise", "noise of half the scale", _trial(SMALL, _evolved(2 * _EPSILON))),
    ),
    AuditCase(
        "evolved-release",
        "noisy votes for candidates that evolve",
        _EPSILON,
        _trial(LARGE, _evolved(_EPSILON)),
        share=50,
        near=0.3,
    ).with_mutants(
        Mutant(
            "whole-epsilon-each", _EVERY.what_is_wrong, _trial(LARGE, _evolved(_EPSILON, _WHOLE))
        ),
        Mutant(
            "exact-iteration",
            "the votes of the last iteration are released without noise",
            _trial(LARGE, _exact_last),
        ),
        Mutant("rows-as-candidates", "rows are among the candidates", _trial(LARGE, _from_rows)),
    ),
)
