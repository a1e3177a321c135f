"""GDP-TabICL of a table that grows: one horizon of periods under one budget, of which any window is
group averages at no further cost.

Trust       Central: the curator keeps every period's exact sums; only noisy ones leave.
Unit        One row; or one person, of whom at most c rows enter in a period and k in the horizon
            (`data.reading.split`).
Neighbours  Histories, as of `continual_counts`: ADD_OR_REMOVE_ONE, or REPLACE_ONE.
Guarantee   (epsilon, delta)-DP of all that is published in all periods together: mu-GDP, charged
            once with the first. Deliveries, and in which periods a person takes part, may depend on
            what was published before. Every (epsilon, number of shots) is such a horizon.
Paper       Carey, Bhaila, Edemacu and Wu 2024 (arXiv 2403.05681), algorithm 2, counted by the
            counters of [HKU25] (`continual_counts`) in the place of one noisy sum.

    (1)  S_1 ... S_K <- GROUP BY public keys, of the rows that enter in period t; every group is
         kept, empty or not
    (2)  x_t  <- the sum of these rows' vectors: of each group its rows, sums of its numbers,
         histograms      `group_vectors`
    (3)  y_t  <- counters of x_1 ... x_t, for vectors of length sqrt M: all of mu^2
    (4)  of a window [a, z]: noisy sums, and their averages, clipped to public bounds, as any
         release of GDP-TabICL

Proof: a unit's rows add at most k vectors of squared length M, c in a period, whichever groups they
fall into: y moves by D of `continual_counts` at most. A row that takes another one back is one of
the k. As sums are measured from the middle of the bounds they may be negative, so that a replaced
unit moves y by 2 D (1 + S / M), S = m w^2 of `group_vectors`; by 2 D where they are measured from
the lower bound, and by 4 D where rows are taken back.

No subsample: every row that may enter does, q = 1. Algorithm 2 is amplified as a release that reads
a row once, in or out by one coin. Here a unit's k rows come in several periods, each by a coin of
its own, and whether the later ones come may depend on releases that tell of the earlier coins: that
one coin hides all of them no longer follows. All rows are priced, and nothing rests on the secrecy
of a coin.

Symbols     K shots, T periods, M of `group_vectors`, mu of (epsilon, delta).
Not covered more rows of a unit than k and c; the number of periods, which is public. Averages of a
window with few rows are noise, clipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpicl.contract.models import Contract
from dpicl.data.central.aggregate import assign, partition
from dpicl.data.central.group_vectors import BITS, OF_LABEL, GroupCells, GroupVectors, Part
from dpicl.ground.randomness import Stream
from dpicl.ground.types import PrivateTable, ReleasedGroups
from dpicl.mechanisms.continual_counts import ContinualCounts, Contribution, Windows
from dpicl.mechanisms.noisy_mean import Origin
from dpicl.mechanisms.noisy_steps import GaussianTotal
from dpicl.methods.counted_horizon import (
    Arrays,
    Compared,
    CountedHorizon,
    WindowRows,
    contribution_of,
    drawable,
    total_of,
)

VERSION = 1
"""Raised when the same parameters would draw by another law: in a horizon's name."""
SUMS = "sums"
"""What is published of a period: noisy sums, shape (cells,)."""


@dataclass(frozen=True)
class GroupSeries(CountedHorizon[np.ndarray, ReleasedGroups]):
    """One horizon of one number of shots: its counters, and what they cost together."""

    vectors: GroupVectors
    shots: int
    periods: int
    contribution: Contribution
    total: GaussianTotal
    error_is = (
        "What noise alone is expected to do to an average of a column, in the group where it does "
        "most: to a mean, as a share of the width of its bounds; to "
        "a category's count, as a share of the group's rows"
    )

    @staticmethod
    def of(
        contract: Contract, shots: int, *, origin: Origin, epsilon: float, delta: float
    ) -> GroupSeries:
        """The horizon that a contract states. Raises ParameterError: it has no groups for so many
        shots, or too much noise.
        """
        vectors = GroupVectors(contract, partition(contract, shots), origin)
        total = total_of(contract, epsilon=epsilon, delta=delta)
        periods = len(contract.periods)
        made = GroupSeries(
            vectors, shots, periods, contribution_of(contract, signed=vectors.signed), total
        )
        return drawable(made, contract, epsilon)

    @cached_property
    def counters(self) -> ContinualCounts:
        """Equation (3); see `CountedHorizon`."""
        return ContinualCounts.spending(
            self.budget,
            self.periods,
            self.vectors.squared_norm,
            self.contribution,
            self.total.neighbours,
            bits=BITS,
        )

    def largest(self) -> list[ContinualCounts]:
        """See `CountedHorizon`."""
        return [self.counters]

    @property
    def stated(self) -> dict[str, Any]:
        """See `CountedHorizon`."""
        return {"shots": self.shots, "cells": self.vectors.size}

    def counted(self, rows: PrivateTable, contract: Contract, places: np.ndarray) -> np.ndarray:
        """Equations (1) and (2) of the rows at these positions."""
        return self.vectors.exact(rows, places, assign(rows, contract, self.shots, places))

    def packed(self, counts: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
        """See `CountedHorizon`."""
        return {}, counts

    def unpacked(self, about: Mapping[str, Any], flat: np.ndarray) -> np.ndarray:
        """See `CountedHorizon`. Raises ValueError: these are not the cells that are counted."""
        if len(flat) != self.vectors.size:
            raise ValueError("cells")
        return flat

    def draw(
        self, history: Sequence[np.ndarray], released: Sequence[Arrays], stream: Stream
    ) -> dict[str, np.ndarray]:
        """Equation (3)."""
        return {SUMS: self.counters.release(history, period=len(history), stream=stream)}

    def window(self, released: Sequence[Arrays], first: int, last: int) -> ReleasedGroups:
        """Equation (4)."""
        return self.vectors.averages(self._sums(released[:last], [(first, last)])[0])

    def window_rows(self, released: Sequence[Arrays], windows: Windows) -> WindowRows:
        """See `CountedHorizon`: of all groups together."""
        deviations = self.deviations(windows)
        variance = sum(cell.rows[2] for cell in self.vectors.cells)
        return WindowRows(
            self.vectors.rows(self._sums(released, windows)).sum(axis=1),
            deviations * variance**0.5,
            deviations,
        )

    def errors(self, released: Sequence[Arrays], windows: Windows) -> list[np.ndarray]:
        """See `CountedHorizon`."""
        rows = self.vectors.rows(self._sums(released, windows))
        noise = zip(rows.tolist(), self.deviations(windows).tolist(), strict=True)
        return [
            np.array(list(self.vectors.errors(of_groups, deviation).values()))
            for of_groups, deviation in noise
        ]

    def column_errors(self, rows: int) -> dict[str, float]:
        """The same of all periods, at so many rows, as many in every group."""
        groups = len(self.vectors.groups)
        return self.vectors.errors(
            [rows / groups] * groups, float(self.deviations([(1, self.periods)])[0])
        )

    def compared(self, released: Sequence[Arrays], windows: Windows) -> Iterator[Compared]:
        """Columns within groups, then the label and the shares of groups. A mean within its bounds
        is the share of its upper end, of two.
        """
        sums = self._sums(released, windows)
        features = self.vectors.contract.features
        for group in self.vectors.cells:
            for part in group.parts:
                place = features.index(part.column) if part.column != OF_LABEL else len(features)
                yield (
                    _mean(place, group, part, sums)
                    if part.grid
                    else _histogram(place, group, part, sums)
                )
        if len(self.vectors.groups) > 1:
            noise = np.diag([cell.rows[2] for cell in self.vectors.cells])
            yield Compared(len(features) + 1, self.vectors.rows(sums), noise)

    def _sums(self, released: Sequence[Arrays], windows: Windows) -> np.ndarray:
        """Noisy sums of windows: shape (windows, cells)."""
        longest = max(last for _, last in windows)
        return self.counters.windows((arrays[SUMS] for arrays in released[:longest]), windows)


def _histogram(place: int, group: GroupCells, part: Part, sums: np.ndarray) -> Compared:
    return Compared(place, sums[:, part.cells] / group.weight, np.eye(part.size) / group.weight**2)


def _mean(place: int, group: GroupCells, part: Part, sums: np.ndarray) -> Compared:
    """The rows that have a value, each parted between the lower and the upper end of the bounds: of
    all laws with a mean the widest.
    """
    places, weights, _ = group.rows
    grid = part.grid
    assert grid is not None
    known, upper = np.zeros((2, sums.shape[1]))
    known[places] = weights
    if part.size > 1:
        known[part.cells.stop - 1] = -1 / group.weight
    width = grid.high - grid.low
    upper[part.cells.start] = grid.step / width
    upper += known * (grid.zero - grid.low) / width
    ends = np.stack([known - upper, upper])
    return Compared(place, sums @ ends.T, ends @ ends.T)
